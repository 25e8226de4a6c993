mod field;
mod property;
