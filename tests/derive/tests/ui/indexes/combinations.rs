use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Employee")]
#[index(email, partition_key = "email_{email}", row_key = "email", unique = "partition")]
#[index(login, row_key = "login_{login}", unique = "table")]
#[index(badge, table = "Badges", row_key = "{badge}", unique = "table")]
#[index(surnames, row_key = "surname_{surname}", shape = list, unique = "partition")]
#[index(copies, row_key = "copies_{surname}", shape = blob, payload = full)]
#[index(spaced, table = "no table", row_key = "{surname}_{id:06}")]
#[index(short, table = "ab", row_key = "{surname}_{id:06}")]
#[index(reserved, table = "Tables", row_key = "{surname}_{id:06}")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    email: String,
    login: String,
    badge: String,
    surname: String,
}

fn main() {}
