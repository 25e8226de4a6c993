//! Azure Table Storage and Azure Cosmos DB for Table over REST.

pub mod wire;
