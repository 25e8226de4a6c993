//! The program `tables` as a process, on embedded stores, on a server in this process and on Azurite.

mod backup;
mod copy;
mod delete;
mod files;
mod index;
mod kill;
mod read;
mod serve;
mod shell;
mod stores;
mod support;
mod upkeep;
