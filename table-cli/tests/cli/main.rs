//! The program `tables` as a process, on embedded stores, on a server in this process and on Azurite.

mod backup;
mod bad_input;
mod blobs;
mod copy;
mod delete;
mod doctor;
mod encryption;
mod files;
mod flights;
mod index;
mod kill;
mod read;
mod sas;
mod serve;
#[cfg(target_os = "linux")]
mod serve_load;
mod shell;
mod stop;
mod stores;
mod support;
mod upkeep;
