//! A work queue in a table: competing workers, leases by visibility, poison messages.
//!
//! # Problem
//! Work that must be done at least once, by any of several workers, where no queue service is at
//! hand: on the embedded store, or beside the data in the same account.
//!
//! # Key layout
//!
//! | row | PartitionKey | RowKey |
//! |---|---|---|
//! | message | the queue's name | `m_` + ticks from which it is visible (19 digits) + `_` + id |
//! | poison message | the queue's name | `p_` + ticks of its last receive + `_` + id |
//!
//! What is visible is a range of rows, oldest first. Hiding a message moves its row within the
//! partition, in one group transaction.
//!
//! # Guarantees
//! A message is received until it is deleted: at least once. A receipt is good for one row version:
//! of two workers that hold one, one succeeds. A message received more often than
//! [`QueueOptions::max_dequeues`] is set aside as poison, to be inspected, put back or deleted.
//!
//! # Failure windows
//! A worker that dies delays its message by the visibility it asked for. Clocks of machines that
//! differ make messages appear early or late by the difference, never twice to one receipt. A `receive` that
//! fails halfway hands out what it has taken by then. Rows that are no messages are traced and left alone.
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | send | 1 |
//! | receive | 1 + 1 per 50 messages; where another worker was quicker, + 1 per message of that group; + 1 where rows of another program are among the oldest |
//! | renew | 2 |
//! | delete | 1 |
//! | peek, poison | 1 per page |
//! | requeue | 1 |
//!
//! # Limits, and when not to use it
//! One partition serves one queue: on Azure about 2,000 entities a second
//! (<https://learn.microsoft.com/azure/storage/tables/scalability-targets>). Use several queues, or
//! Azure Queue Storage, for more. Any order of results will do: nothing here relies on it but the
//! preference for the oldest.

mod rows;
mod table_queue;

pub use table_queue::{QueueOptions, TableQueue};

#[cfg(test)]
mod tests;
