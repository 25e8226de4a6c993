use std::time::Duration;

use super::versioned::without_etag;
use super::write::is_lost;
use super::{KeyOf, Table};
use crate::model::{Entity, IfMatch, Key};
use crate::store::{Error, Operation, Outcome, Result};
use crate::typed::TableEntity;

/// Read, change, write.
impl<T: TableEntity> Table<T> {
    /// Reads the entity, lets `change` change it, and replaces it in the version that was read; from
    /// the start if another writer was faster. Returns what was stored.
    ///
    /// Two requests, and two more for each conflict: another writer changed the entity, or removed it and added it anew. Attempts are bounded by
    /// [`with_attempts`](Self::with_attempts), with a random pause between them that doubles, up to
    /// half a second. An error of `change` ends it with nothing written.
    ///
    /// Properties that `T` does not know, which other programs have stored, stay. An older schema version is replaced by the
    /// present one.
    ///
    /// ```
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::ETag;
    /// # use table_core::typed::{Table, TableEntity};
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(rename_all = "PascalCase")]
    /// # struct Employee {
    /// #     #[partition_key] department: String,
    /// #     #[row_key(format = "empid_{:06}")] id: u32,
    /// #     name: String,
    /// #     age: Option<i32>,
    /// #     #[etag] etag: Option<ETag>,
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let employees = Table::<Employee>::new(MemoryStore::new(), "Employees")?;
    /// # employees.create_if_missing().await?;
    /// # let ken = Employee { department: "Sales".into(), id: 223, name: "Ken".into(), age: None, etag: None };
    /// # employees.insert(&ken).await?;
    /// let birthday = |ken: &mut Employee| {
    ///     ken.age = ken.age.map(|age| age + 1).or(Some(41));
    ///     Ok(())
    /// };
    /// let ken = employees.update(Employee::key("Sales", 223)?, birthday).await?;
    /// assert_eq!(ken.age, Some(41));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Entity not found. `change` changed the key. Precondition failed, after the last attempt. An
    /// ambiguous failure of the write is returned as it is.
    pub async fn update(
        &self,
        key: impl KeyOf<T>,
        mut change: impl FnMut(&mut T) -> Result<()>,
    ) -> Result<T> {
        let key = key.into_key();
        self.to_write(&key, "an update").await?;
        let mut conflicts = Conflicts::new(self.shared().attempts);
        loop {
            let read = self.store().get(self.name(), &key, None).await?;
            let read = read.ok_or_else(|| self.shared().not_found(&key))?;
            let mut value = T::from_entity(read.clone())?;
            change(&mut value)?;
            match self.write_back(&read, &value).await {
                Err(error) => conflicts.wait_if(is_lost(&error), error).await?,
                stored => return stored,
            }
        }
    }

    async fn write_back(&self, read: &Entity, value: &T) -> Result<T> {
        let (mut entity, key): (Entity, &Key) = (value.to_entity()?, read.key());
        let etag = read.etag().cloned().ok_or_else(|| without_etag(key))?;
        if entity.key() != key {
            let (name, other) = (T::SCHEMA.rust_name, entity.key());
            return Err(Error::invalid_request(format!(
                "an update of the {name} {key} would make it {other}: insert the new one and delete the old"
            )));
        }
        T::SCHEMA.keep_unknown(read, &mut entity)?;
        let written = self.write(Operation::Replace(entity.clone(), IfMatch::Exactly(etag))).await?;
        let stored = T::from_entity(entity.with_system(written.etag, None));
        stored.map_err(|error| error.with_outcome(Outcome::Applied))
    }
}

/// The longest pause after the first conflict; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(8);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Counts lost races, and pauses after each.
pub(super) struct Conflicts {
    left: u32,
    pause: Duration,
}

impl Conflicts {
    pub(super) const fn new(attempts: u32) -> Self {
        Self { left: attempts, pause: FIRST_PAUSE }
    }

    /// Waits if another writer was faster and attempts are left; otherwise the error.
    pub(super) async fn wait(&mut self, error: Error) -> Result<()> {
        let lost = error.is_precondition_failed();
        self.wait_if(lost, error).await
    }

    /// The same, where the caller knows what a lost race looks like.
    pub(super) async fn wait_if(&mut self, lost: bool, error: Error) -> Result<()> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || error.outcome() != Outcome::NotApplied || !lost {
            return Err(error);
        }
        tokio::time::sleep(self.pause.mul_f64(fastrand::f64())).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}
