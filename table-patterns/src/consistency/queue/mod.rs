//! A work queue in a table: competing workers, leases by visibility, poison messages.
//!
//! # Problem
//! Several workers share work that must be done at least once, and there is no queue service: the store is the
//! embedded store, or the queue should be in the same account as the data.
//!
//! # Key layout
//!
//! | row | PartitionKey | RowKey |
//! |---|---|---|
//! | message | the queue's name | `m_` + the time from which the message is visible, in ticks (19 digits) + `_` + id |
//! | poison message | the queue's name | `p_` + the time from which the message would have been visible again, in ticks + `_` + id |
//!
//! The visible messages are a range of rows, oldest first. Hiding a message moves its row within the partition: a
//! delete and an insert in one entity group transaction.
//!
//! # Guarantees
//! A message is received at least once: workers receive it until one of them deletes it. A receipt is valid for one
//! version of the row: if two workers use the same receipt, one of them gets an error. A message that was received
//! more often than [`QueueOptions::max_dequeues`] becomes a poison message, which can be inspected, requeued or
//! deleted.
//!
//! # Failure windows
//! - If a worker dies, its message stays hidden for the rest of the visibility timeout.
//! - If the clocks of two machines differ, messages are visible early or late by the difference. A receipt stays valid
//!   for one worker only.
//! - A `receive` that fails after it has taken some messages returns those messages.
//! - Rows of another program are traced and left as they are.
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | send | 1 |
//! | receive | 1 + 1 per 50 messages; + 1 per message of a group in which another worker took a message first; + 1 if rows of another program are among the oldest |
//! | renew | 2 |
//! | delete | 1 |
//! | peek, poison | 1 per page |
//! | requeue | 1 |
//!
//! # Limits, and when not to use it
//! One partition serves one queue: on Azure about 2,000 entities a second
//! (<https://learn.microsoft.com/azure/storage/tables/scalability-targets>). Use several queues, or
//! Azure Queue Storage, for more. On a store that does not sort query results, the oldest message is not necessarily
//! the first.

mod rows;
mod table_queue;

pub(crate) use rows::is_poison;
pub use table_queue::{QueueOptions, TableQueue};

#[cfg(test)]
mod tests;
