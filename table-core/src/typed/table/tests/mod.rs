//! The behaviour of each method, and its number of requests.

mod entries;
mod fixtures;
mod groups;
mod managed;
mod open;
mod points;
mod queries;
mod readable;
mod serde_tables;
mod streams;
mod updates;
mod writes;

use fixtures::{
    Badge, BadgePatch, Employee, EmployeePatch, Named, employee, employees, key, sales,
};
