use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Employee")]
#[index(surname, row_key = "surname_{surname}")]
#[index(everywhere, partition_key = "surname_{surname}", row_key = "{department}")]
#[index(listed, row_key = "listed_{id:06}", shape = list)]
#[index(itself, row_key = "empid_{id:06}")]
#[index(twice, table = "Twice", row_key = "{surname}_{id:06}")]
#[index(thrice, table = "twice", row_key = "{surname}_{id:06}")]
#[index(twice, row_key = "twice_{id:06}")]
#[index(nick, row_key = "name_{nick}", unique = "partition")]
#[index(login, row_key = "name_{login}", unique = "partition")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    surname: String,
    nick: String,
    login: String,
}

#[derive(TableEntity)]
#[entity(type = "AnyText")]
#[index(email, row_key = "email_{email}_{name}")]
struct AnyText {
    #[partition_key]
    department: String,
    #[row_key]
    name: String,
    email: String,
}

#[derive(TableEntity)]
#[index(email, row_key = "email_{email}_{id}")]
#[index(elsewhere, table = "Elsewhere", row_key = "email_{email}_{id}")]
struct Untold {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    email: String,
}

#[derive(TableEntity)]
#[entity(discriminator(row_prefix), partition_key = "{department}", row_key = "e_{id}")]
#[index(email, row_key = "e_mail_{email}_{id}")]
#[index(surname, row_key = "surname_{surname}_{id}")]
struct ByPrefix {
    department: String,
    id: u32,
    email: String,
    surname: String,
}

fn main() {}
