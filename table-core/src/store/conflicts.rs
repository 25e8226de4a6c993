use std::time::Duration;

use crate::error::{Error, Result};

/// The longest pause after the first conflict. It doubles with each further conflict.
const FIRST_PAUSE: Duration = Duration::from_millis(8);
/// The longest pause after any conflict.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Counts the conflicts of a read-modify-write with other writers, and waits for a random time after each, so that the
/// writers do not meet again. A loop with 10 attempts waits for about a second in all.
///
/// ```
/// # use table_core::{memory::MemoryStore, model::ValueRef, prelude::*, store::Conflicts};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// # let (store, table, key) = (MemoryStore::new(), TableName::new("Counters")?, Key::new("p", "visits")?);
/// # store.create_table(&table).await?;
/// # store.write(&table, Operation::Insert(Entity::from(key.clone()).with("Count", 1))).await?;
/// let mut conflicts = Conflicts::new(10);
/// loop {
///     let read = store.get(&table, &key, None).await?.expect("a counter");
///     let Some(ValueRef::Int32(count)) = read.get("Count") else { panic!("no count") };
///     let next = read.clone().with("Count", count + 1);
///     match store.write(&table, Operation::Replace(next, read.version()?)).await {
///         Err(error) => conflicts.wait(error).await?, // returns an error that is no conflict
///         Ok(_) => break,
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Conflicts {
    left: u32,
    pause: Duration,
}

impl Conflicts {
    /// The default number of attempts of a read-modify-write.
    pub const ATTEMPTS: u32 = 10;

    /// Allows this number of attempts, at least 1.
    pub const fn new(attempts: u32) -> Self {
        Self {
            left: attempts,
            pause: FIRST_PAUSE,
        }
    }

    /// Waits if the error is a [conflict](Error::is_conflict) and attempts are left.
    ///
    /// # Errors
    /// Returns the error otherwise.
    pub async fn wait(&mut self, error: Error) -> Result<()> {
        self.wait_if(error.is_conflict(), error).await
    }

    /// Waits for the next attempt of a move that met another writer.
    ///
    /// # Errors
    /// Returns an error that ends the move. One of them: the source is missing, so another attempt has nothing to move.
    #[doc(hidden)]
    pub async fn wait_to_move_again(&mut self, error: Error) -> Result<()> {
        self.wait_if(error.is_conflict() && !error.is_entity_not_found(), error)
            .await
    }

    /// Waits if `repeat` is true and attempts are left: for loops that do not repeat after every conflict.
    ///
    /// # Errors
    /// Returns the error otherwise.
    pub async fn wait_if(&mut self, repeat: bool, error: Error) -> Result<()> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || !repeat {
            return Err(error);
        }
        tokio::time::sleep(self.pause.mul_f64(fastrand::f64())).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}
