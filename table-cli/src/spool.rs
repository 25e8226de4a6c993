//! Entities that wait in a temporary file, because the head of a file of columns needs the properties of every entity.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek as _, Write as _};

use table_core::model::{Entity, Key, Properties};

use crate::failure::{Failure, Result};

/// Entities in a temporary file, without ETag and time. The file has no name: it ends with the program, however that ends.
#[derive(Debug)]
pub(crate) struct Spool(BufWriter<File>);

impl Spool {
    /// Creates the temporary file.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(BufWriter::with_capacity(
            1 << 18,
            tempfile::tempfile().map_err(spool_failed)?,
        )))
    }

    /// Adds an entity.
    pub(crate) fn add(&mut self, entity: &Entity) -> Result<()> {
        let (key, properties) = (entity.key(), entity.properties().as_packed());
        for part in [key.partition().as_bytes(), key.row().as_bytes(), properties] {
            // Three parts, each after its length: PartitionKey, RowKey, and the properties as they are packed
            // in memory.
            let length = u32::try_from(part.len()).map_err(Failure::failed)?;
            self.0
                .write_all(&length.to_le_bytes())
                .and_then(|()| self.0.write_all(part))
                .map_err(spool_failed)?;
        }
        Ok(())
    }

    /// Returns the entities in the order in which they were added.
    pub(crate) fn read(self) -> Result<Spooled> {
        let mut file = self
            .0
            .into_inner()
            .map_err(|error| spool_failed(error.into_error()))?;
        file.rewind().map_err(spool_failed)?;
        Ok(Spooled(BufReader::with_capacity(1 << 18, file)))
    }
}

/// The entities of a [`Spool`].
#[derive(Debug)]
pub(crate) struct Spooled(BufReader<File>);

impl Spooled {
    fn part(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut part = vec![0; usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX)];
        self.0.read_exact(&mut part)?;
        Ok(part)
    }

    fn entity(&mut self) -> Result<Entity> {
        let mut part = || self.part().map_err(spool_failed);
        let (partition, row, properties) = (part()?, part()?, part()?);
        let text = |bytes| String::from_utf8(bytes).map_err(Failure::failed);
        let key = Key::new(text(partition)?, text(row)?).map_err(Failure::failed)?;
        Ok(Entity::from_parts(
            key,
            Properties::from_packed(properties)?,
        ))
    }
}

impl Iterator for Spooled {
    type Item = Result<Entity>;

    fn next(&mut self) -> Option<Result<Entity>> {
        use io::BufRead as _;
        match self.0.fill_buf() {
            // An end is right between two entities only. Within one, `read_exact` fails.
            Ok([]) => None,
            Ok(_) => Some(self.entity()),
            Err(error) => Some(Err(spool_failed(error))),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn spool_failed(error: io::Error) -> Failure {
    Failure::failed(format!("a temporary file failed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_come_back_in_order() {
        let entities = [
            Entity::new("p", "1")
                .unwrap()
                .with("Text", "a\nb")
                .with("Bytes", vec![0_u8, 255]),
            Entity::new("", "").unwrap(),
            Entity::new("q", "2").unwrap().with("N", 1_i64),
        ];
        let mut spool = Spool::new().unwrap();
        entities
            .iter()
            .for_each(|entity| spool.add(entity).unwrap());
        let back: Vec<_> = spool.read().unwrap().map(Result::unwrap).collect();
        assert_eq!(back, entities);
    }
}
