use table_core::typed::{EntriesOf, OneEntry, TableEntity};

#[derive(TableEntity)]
#[entity(type = "Employee")]
#[index(email, row_key = "email_{email}", unique = "partition")]
#[index(surname, partition_key = "surname_{surname}", row_key = "{department}_{hired:04}_{id:06}")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    email: Option<String>,
    surname: String,
    hired: u32,
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
fn one(_: impl EntriesOf<Employee, Kind = OneEntry>) {}

fn main() {
    one(Employee::by_email("Sales").email("ken@x"));
    one(Employee::by_email("Sales"));
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
