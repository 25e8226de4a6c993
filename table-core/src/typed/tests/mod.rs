mod entity;
mod field;
mod property;
