use crate::manifest::{KeyTemplate, Payload, Placement, Shape, Uniqueness};
use crate::memory::MemoryStore;
use crate::model::{IfMatch, Key, TableName};
use crate::store::Result;
use crate::typed::{EntriesOf, IndexEntries, ManyEntries, OneEntry, PlainTable, TableEntity};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Employee", rename_all = "PascalCase")]
#[index(email, row_key = "email_{email}", unique = "partition", payload = fields(first_name))]
#[index(
    surname,
    partition_key = "surname_{last_name}",
    row_key = "{department}_{hired:04}_{id:06}"
)]
#[index(
    login,
    partition_key = "login_{login}",
    row_key = "login",
    unique = "table"
)]
#[index(city, table = "Cities", partition_key = "{city}", row_key = "all", shape = list)]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    first_name: String,
    last_name: String,
    login: String,
    email: Option<String>,
    hired: u32,
    city: Option<String>,
    age: i32,
}

fn ken() -> Employee {
    Employee {
        department: "Sales".into(),
        id: 7,
        first_name: "Ken".into(),
        last_name: "Kwok".into(),
        login: "ken".into(),
        email: Some("ken@x".into()),
        hired: 2013,
        city: None,
        age: 41,
    }
}

fn entries<T: EntriesOf<Employee, Kind = K>, K>(entries: T) -> (String, String) {
    let found: IndexEntries<Employee> = entries.into_entries().unwrap();
    (found.partition().to_string(), found.rows().to_string())
}

fn one<T: EntriesOf<Employee, Kind = OneEntry>>(named: T) -> (String, String) {
    entries(named)
}

fn many<T: EntriesOf<Employee, Kind = ManyEntries>>(named: T) -> (String, String) {
    entries(named)
}

fn pair(partition: &str, rows: &str) -> (String, String) {
    (partition.to_owned(), rows.to_owned())
}

#[test]
fn schemas_contain_the_declared_indexes() {
    let [email, surname, login, city] = Employee::SCHEMA.indexes else {
        panic!("four indexes")
    };
    assert_eq!(&*email.name, "email");
    assert_eq!(&email.placement, &Placement::SamePartition);
    assert_eq!(email.payload, Payload::fields(["FirstName"]));
    assert_eq!(email.uniqueness, Uniqueness::WithinPartition);
    assert_eq!(&email.shape, &Shape::Row);
    assert_eq!(&surname.placement, &Placement::OtherPartition);
    assert_eq!(&surname.payload, &Payload::Reference);
    let template = |template: Option<&KeyTemplate>| template.unwrap().to_string();
    assert_eq!(template(surname.partition_key()), "surname_{LastName:text}");
    assert_eq!(
        template(surname.row_key()),
        "{@department:text}_{Hired:u64:04}_{@id:u64:06}"
    );
    assert_eq!(login.uniqueness, Uniqueness::WithinTable);
    assert_eq!(&city.shape, &Shape::LIST);
    assert_eq!(
        city.placement,
        Placement::OtherTable(TableName::from_static("Cities"))
    );
}

#[test]
fn entries_have_keys_unless_a_part_is_absent() -> Result<()> {
    let ken = ken();
    assert_eq!(ken.index_keys(0)?, [Key::new("Sales", "email_ken@x")?]);
    assert_eq!(
        ken.index_keys(1)?,
        [Key::new("surname_Kwok", "Sales_2013_000007")?]
    );
    assert_eq!(ken.index_keys(2)?, [Key::new("login_ken", "login")?]);
    assert!(ken.index_keys(3)?.is_empty());
    assert!(Employee { email: None, ..ken }.index_keys(0)?.is_empty());
    Ok(())
}

#[test]
fn no_entry_has_a_key_that_an_entity_could_have() {
    #[derive(TableEntity)]
    #[entity(crate = crate, type = "Tagged", row_key = "r_{id:03}")]
    #[index(
        tag,
        partition_key = "{tag}",
        row_key = "{mark}_{id:03}",
        unique = "table"
    )]
    struct Tagged {
        #[partition_key]
        owner: String,
        id: u32,
        tag: String,
        mark: String,
    }
    let tagged = |mark: &str| Tagged {
        owner: "o".into(),
        id: 1,
        tag: "t".into(),
        mark: mark.into(),
    };
    assert!(tagged("s").index_keys(0).is_ok());
    let refused = tagged("r").index_keys(0).unwrap_err().to_string();
    assert!(
        refused.contains("'tag'") && refused.contains("an entity could have"),
        "{refused}"
    );
}

#[test]
fn lookups_take_parts_prefixes_and_ranges() {
    assert_eq!(
        one(Employee::by_email("Sales").email("ken@x")),
        pair("Sales", "'email_ken@x'")
    );
    assert_eq!(
        entries(Employee::by_email("Sales")),
        pair("Sales", "from 'email_' before 'email`'")
    );
    assert_eq!(
        many(Employee::by_email("Sales").email_starting("ke")),
        pair("Sales", "from 'email_ke' before 'email_kf'")
    );
    assert_eq!(
        many(Employee::by_email("Sales").email_in("a".."c")),
        pair("Sales", "from 'email_a' before 'email_c'")
    );
    assert_eq!(one(Employee::by_login("ken")), pair("login_ken", "'login'"));
    assert_eq!(many(Employee::by_city("Oslo")), pair("Oslo", "'all'"));
}

#[test]
fn ranges_of_a_part_in_the_middle_cover_all_that_follows() {
    let kwok = || Employee::by_surname("Kwok");
    assert_eq!(many(kwok()), pair("surname_Kwok", "any"));
    assert_eq!(
        many(kwok().department("Sales")),
        pair("surname_Kwok", "from 'Sales_' before 'Sales`'")
    );
    let sales = || kwok().department("Sales");
    let range = |from: &str, to: &str| pair("surname_Kwok", &format!("{from} before '{to}'"));
    assert_eq!(
        many(sales().hired_in(2010..2013)),
        range("from 'Sales_2010'", "Sales_2013")
    );
    assert_eq!(
        many(sales().hired_in(2010..=2013)),
        range("from 'Sales_2010'", "Sales_2014")
    );
    assert_eq!(
        many(sales().hired_in(2010..)),
        range("from 'Sales_2010'", "Sales`")
    );
    assert_eq!(
        many(sales().hired_in(..2013)),
        range("from 'Sales_'", "Sales_2013")
    );
    let last = sales().hired(2013).id_in(1..=7);
    assert_eq!(
        many(last),
        pair(
            "surname_Kwok",
            "from 'Sales_2013_000001' to 'Sales_2013_000007'"
        )
    );
    let key = sales().hired(2013).id(7u32);
    assert_eq!(many(key), pair("surname_Kwok", "'Sales_2013_000007'"));
}

#[test]
fn a_part_that_does_not_fit_is_an_error_of_the_lookup() {
    let error = Employee::by_surname("Kwok")
        .department("Sales")
        .hired(20_130)
        .into_entries()
        .unwrap_err();
    assert!(error.to_string().contains("hired"), "{error}");
}

#[test]
fn a_patch_has_no_field_that_an_index_holds() -> Result<()> {
    use crate::typed::EntityPatch;
    let patch = Employee::patch().age(42);
    assert_eq!(patch.to_properties()?.len(), 1);
    assert!(!format!("{patch:?}").contains("email"));
    Ok(())
}

#[tokio::test]
async fn a_plain_table_refuses_writes_of_a_type_with_indexes() -> Result<()> {
    let table = PlainTable::<Employee>::new(MemoryStore::new(), "Employees")?;
    table.create_if_missing().await?;
    let refused = table.insert(&ken()).await.unwrap_err().to_string();
    assert!(
        refused.contains("'email'") && refused.contains("Table"),
        "{refused}"
    );
    let key = Employee::key("Sales", 7)?;
    assert!(table.delete(&key, IfMatch::Any).await.is_err());
    assert!(
        table
            .merge(&key, &Employee::patch().age(1), IfMatch::Any)
            .await
            .is_err()
    );
    assert!(
        table
            .update(&key, |_| Ok(()))
            .await
            .unwrap_err()
            .to_string()
            .contains("Table")
    );
    let mut group = table.group(Employee::partition("Sales")?);
    assert!(group.insert(&ken()).is_err() && group.delete(&key, IfMatch::Any).is_err());

    let table = table.ignoring_indexes();
    table.insert(&ken()).await?;
    assert_eq!(table.get(&key).await?, Some(ken()));
    Ok(())
}
