use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use table_core::typed::TableEntity;
use uuid::Uuid;

use crate::base64_text;

/// The partition that the benchmark reads.
pub(crate) const SALES: &str = "Sales";

/// Keys and eleven properties of all eight types, as this library declares them.
#[derive(Clone, Debug, TableEntity)]
#[entity(rename_all = "PascalCase")]
pub(crate) struct Employee {
    #[partition_key]
    pub(crate) department: String,
    #[row_key(format = "empid_{:08}")]
    pub(crate) number: u32,
    pub(crate) first_name: String,
    pub(crate) last_name: String,
    pub(crate) email: String,
    pub(crate) age: i32,
    pub(crate) active: bool,
    pub(crate) salary: f64,
    pub(crate) rating: f64,
    pub(crate) visits: i64,
    pub(crate) id: Uuid,
    pub(crate) hired: DateTime<Utc>,
    pub(crate) photo: Vec<u8>,
}

/// The same entity for a program that uses the service's JSON with `serde`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Plain {
    pub(crate) partition_key: String,
    pub(crate) row_key: String,
    pub(crate) first_name: String,
    pub(crate) last_name: String,
    pub(crate) email: String,
    pub(crate) age: i32,
    pub(crate) active: bool,
    pub(crate) salary: f64,
    pub(crate) rating: f64,
    #[serde(rename = "Visits@odata.type", skip_deserializing)]
    visits_type: &'static str,
    #[serde(serialize_with = "to_text", deserialize_with = "from_text")]
    pub(crate) visits: i64,
    #[serde(rename = "Id@odata.type", skip_deserializing)]
    id_type: &'static str,
    pub(crate) id: Uuid,
    #[serde(rename = "Hired@odata.type", skip_deserializing)]
    hired_type: &'static str,
    pub(crate) hired: DateTime<Utc>,
    #[serde(rename = "Photo@odata.type", skip_deserializing)]
    photo_type: &'static str,
    #[serde(with = "base64_text")]
    pub(crate) photo: Vec<u8>,
}

fn to_text<S: Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

fn from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    <&str>::deserialize(deserializer)?
        .parse()
        .map_err(D::Error::custom)
}

impl Employee {
    pub(crate) fn new(department: &str, number: u32) -> Self {
        let (first_name, last_name) = (["Ken", "Robin", "Maria"][number as usize % 3], "Kwok");
        Self {
            department: department.to_owned(),
            number,
            first_name: first_name.to_owned(),
            last_name: last_name.to_owned(),
            email: format!("{first_name}.{last_name}@example.com").to_lowercase(),
            age: 18 + (number % 50) as i32,
            active: !number.is_multiple_of(7),
            salary: 84_250.75 + f64::from(number),
            rating: f64::from(number % 6) + 0.5,
            visits: 9_007_199_254_740_993 + i64::from(number),
            id: Uuid::from_u128(0x67e5_5044_10b1_426f_9247_bb68_0000_0000 + u128::from(number)),
            hired: DateTime::UNIX_EPOCH
                + TimeDelta::microseconds(1_357_017_300_123_456 + i64::from(number)),
            photo: (0..32).collect(),
        }
    }
}

impl Plain {
    pub(crate) fn new(department: &str, number: u32) -> Self {
        let employee = Employee::new(department, number);
        Self {
            partition_key: employee.department,
            row_key: row_key(number),
            first_name: employee.first_name,
            last_name: employee.last_name,
            email: employee.email,
            age: employee.age,
            active: employee.active,
            salary: employee.salary,
            rating: employee.rating,
            visits_type: "Edm.Int64",
            visits: employee.visits,
            id_type: "Edm.Guid",
            id: employee.id,
            hired_type: "Edm.DateTime",
            hired: employee.hired,
            photo_type: "Edm.Binary",
            photo: employee.photo,
        }
    }
}

pub(crate) fn row_key(number: u32) -> String {
    format!("empid_{number:08}")
}
