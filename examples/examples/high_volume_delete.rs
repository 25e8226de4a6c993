//! A table per day: deleting the entities of a day drops a whole table.
//!
//! Cost: insert 1 request, 3 for the first insert of a handle into a day; a query 1 to list the tables and 1 per page of each table that
//! is read; deleting old entities 1 to list the tables and 1 per table.

use std::sync::Arc;

use chrono::TimeDelta;
use table_patterns::prelude::*;
use table_patterns::time_slices::{Every, Keep, TimeSlices};

#[derive(Clone, Debug, PartialEq, TableEntity)]
struct Login {
    #[partition_key]
    user: String,
    #[row_key]
    at: Reverse<Ticks>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let store = Arc::new(MemoryStore::new());
    let logins = TimeSlices::new(store, "Logins", Every::Day, |login: &Login| login.at.0)?;

    // Each entity goes to the table of its day, which is created on first use.
    let start: Ticks = "2013-01-01T08:00:00Z".parse()?;
    for hours in (0..24 * 10).step_by(6) {
        let login = Login {
            user: "ken".to_owned(),
            at: Reverse(start + TimeDelta::hours(hours)),
        };
        logins.insert(&login).await?;
    }
    assert_eq!(logins.slices().await?.len(), 11);

    // Queries read one table after another, the oldest first unless `newest_first` is set.
    let ken = Login::partition("ken")?;
    // `narrow` restricts the query of each day's table.
    let logins_of_ken = logins.query().narrow(move |query| query.partition(&ken));
    let latest = logins_of_ken.newest_first().limit(5).all().await?;
    assert_eq!(latest.len(), 5);
    assert!(latest.is_sorted_by(|a, b| a.at.0 > b.at.0));

    // `expired` lists the tables that the policy would drop: 1 request. `retain` drops them: 1 request to list, 1 per table.
    let now: Ticks = "2013-01-11T12:00:00Z".parse()?;
    let keep = Keep::Younger(TimeDelta::days(3));
    let plan = logins.expired(keep, now).await?;
    assert_eq!(plan.len(), 7);
    assert_eq!(plan[0].table.as_str(), "Logins20130101");
    assert_eq!(logins.retain(keep, now).await?, plan);
    assert_eq!(logins.slices().await?.len(), 4);
    Ok(())
}
