use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadTransaction, ReadableTable, TableError};
use table_core::model::PropertyDictionary;

use crate::catalog::Catalog;
use crate::error::Failure;
use crate::format::{self, CATALOG, DICTIONARY, DROPPED, FORMAT, META, ROWS};

/// The metadata of a file: everything but its rows.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    pub(crate) catalog: Catalog,
    /// Dropped tables whose rows are not removed yet.
    pub(crate) dropped: Vec<u64>,
    pub(crate) next_table: u64,
    pub(crate) version_mark: u64,
}

impl Contents {
    /// The metadata of a new store.
    pub(crate) fn empty() -> Self {
        Self {
            catalog: Catalog::default(),
            dropped: Vec::new(),
            next_table: 1,
            version_mark: 0,
        }
    }

    /// Reads the metadata in a transaction, after the format was [checked](check_format).
    pub(crate) fn read(transaction: &ReadTransaction) -> Result<Self, Failure> {
        Self::read_tables(transaction).map_err(Failure::read)
    }

    fn read_tables(transaction: &ReadTransaction) -> Result<Self, redb::Error> {
        let meta = transaction.open_table(META)?;
        let number = |name: &str| {
            meta.get(name)?
                .map(|value| value.value())
                .ok_or_else(|| corrupted(&format!("the number '{name}' is missing")))
        };
        // Reads no row: a file without the table of rows is damaged, and this reports it when the file is opened.
        transaction.open_table(ROWS)?;
        Ok(Self {
            catalog: read_catalog(transaction)?,
            dropped: read_dropped(transaction)?,
            next_table: number(format::META_NEXT_TABLE)?,
            version_mark: number(format::META_VERSION_MARK)?,
        })
    }

    /// Writes the metadata into a new file.
    pub(crate) fn write(&self, database: &Database) -> Result<(), Failure> {
        self.write_tables(database).map_err(Failure::write)
    }

    fn write_tables(&self, database: &Database) -> Result<(), redb::Error> {
        let transaction = database.begin_write()?;
        {
            let mut meta = transaction.open_table(META)?;
            meta.insert(format::META_FORMAT, FORMAT)?;
            meta.insert(format::META_NEXT_TABLE, self.next_table)?;
            meta.insert(format::META_VERSION_MARK, self.version_mark)?;
            let mut catalog = transaction.open_table(CATALOG)?;
            for (id, name) in self.catalog.iter() {
                catalog.insert(
                    name.to_lowercase().as_str(),
                    format::catalog_row(id, name).as_slice(),
                )?;
            }
            let mut dictionary = transaction.open_table(DICTIONARY)?;
            for (number, entry) in self.catalog.dictionary.iter() {
                dictionary.insert(number, entry)?;
            }
            // In a write transaction, this creates the table if it is missing: a store without rows has it too.
            transaction.open_table(ROWS)?;
            let mut dropped = transaction.open_table(DROPPED)?;
            for table in &self.dropped {
                dropped.insert(table, ())?;
            }
        }
        Ok(transaction.commit()?)
    }
}

/// Refuses a file of another program or of another format.
pub(super) fn check_format(path: &Path, transaction: &ReadTransaction) -> Result<(), Failure> {
    let meta = match transaction.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::Storage(error)) => return Err(Failure::read(error)),
        Err(_) => return Err(Failure::Foreign(path.to_owned())),
    };
    let format = meta.get(format::META_FORMAT).map_err(Failure::read)?;
    match format.map(|format| format.value()) {
        None => Err(Failure::Foreign(path.to_owned())),
        Some(FORMAT) => Ok(()),
        Some(found) => Err(Failure::OtherFormat {
            path: path.to_owned(),
            found,
            known: FORMAT,
        }),
    }
}

fn read_catalog(transaction: &ReadTransaction) -> Result<Catalog, redb::Error> {
    let mut catalog = Catalog::default();
    catalog.dictionary = Arc::new(read_dictionary(transaction)?);
    for row in transaction.open_table(CATALOG)?.iter()? {
        let parsed = format::parse_catalog_row(row?.1.value());
        let (id, name) = parsed.ok_or_else(|| corrupted("a row of the catalog cannot be read"))?;
        catalog.insert(id, name);
    }
    Ok(catalog)
}

fn read_dictionary(transaction: &ReadTransaction) -> Result<PropertyDictionary, redb::Error> {
    let mut dictionary = PropertyDictionary::default();
    for row in transaction.open_table(DICTIONARY)?.iter()? {
        let (number, entry) = row?;
        // Numbers have no gaps, so each entry gets its number again if the entries are added in their order.
        if dictionary.add(entry.value()).map(u64::from) != Some(number.value()) {
            return Err(corrupted(
                "an entry of the property dictionary cannot be read",
            ));
        }
    }
    Ok(dictionary)
}

fn read_dropped(transaction: &ReadTransaction) -> Result<Vec<u64>, redb::Error> {
    transaction
        .open_table(DROPPED)?
        .iter()?
        .map(|row| Ok(row?.0.value()))
        .collect()
}

fn corrupted(reason: &str) -> redb::Error {
    redb::Error::Corrupted(reason.to_owned())
}
