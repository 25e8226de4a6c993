//! The program `tables` as a process, on embedded stores, on a server in this process and on Azurite.

mod backup;
mod bad_input;
mod blobs;
mod copy;
mod ctrl_c;
mod delete;
mod doctor;
mod encryption;
mod files;
mod flights;
mod foreign_text;
mod import;
mod index;
mod private_files;
mod read;
mod sas;
mod serve;
mod serving;
mod shell;
mod stores;
mod support;
mod upkeep;
