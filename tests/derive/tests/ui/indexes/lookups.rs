use table_core::typed::{EntriesOf, FindsOne, TableEntity};

#[derive(TableEntity)]
#[entity(type = "Employee")]
#[index(email, row_key = "email_{email}", unique = "partition")]
#[index(badge, partition_key = "badge_{badge}", row_key = "{surname:prefix(2)}_{hired:04}", unique = "table")]
#[index(surname, partition_key = "surname_{surname}", row_key = "{department}_{hired:04}_{id:06}")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    email: Option<String>,
    surname: String,
    hired: u32,
    badge: u32,
    age: i32,
}

#[derive(TableEntity)]
struct Plane {
    #[partition_key]
    maker: String,
    #[row_key]
    tail: String,
}

fn of_employee(_: impl EntriesOf<Employee>) {}
fn of_plane(_: impl EntriesOf<Plane>) {}
/// As the `get` of a lookup.
fn one<E: EntriesOf<Employee>>(_: E)
where
    E::Kind: FindsOne<Employee>,
{
}

fn main() {
    one(Employee::by_email("Sales").email("ken@x"));
    // A lookup that lacks parts of its key names them.
    one(Employee::by_email("Sales"));
    one(Employee::by_badge(7));
    one(Employee::by_badge(7).surname_prefix("Kw"));
    // A range, and an index that is not unique.
    one(Employee::by_email("Sales").email_starting("k"));
    one(Employee::by_surname("Kwok").department("Sales").hired(2013).id(7u32));
    of_employee(Employee::by_email(7));
    of_employee(Employee::by_email("Sales").email(7));
    of_employee(Employee::by_surname("Kwok").hired(2013));
    of_employee(Employee::by_surname("Kwok").department("Sales").hired_in("a".."b"));
    of_employee(Employee::by_surname("Kwok").department("Sales").hired_starting("20"));
    of_employee(Employee::by_surname("Kwok").department("Sales").hired_in(1..2).id(7u32));
    of_plane(Employee::by_surname("Kwok"));
    of_plane("Kwok");
    let _ = Employee::patch().age(1).surname("Kwok");
}
