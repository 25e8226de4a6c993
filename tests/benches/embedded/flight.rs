use serde::{Deserialize, Serialize};
use table_core::model::Ticks;
use table_core::typed::TableEntity;

/// A flight with nineteen fields, as both sides store it.
#[derive(Clone, Debug, PartialEq, TableEntity, Serialize, Deserialize)]
#[entity(
    partition_key = "{carrier}",
    row_key = "{year:04}{month:02}{day:02}_{flight:06}"
)]
pub(crate) struct Flight {
    pub(crate) year: u16,
    pub(crate) month: u8,
    pub(crate) day: u8,
    pub(crate) dep_time: Option<i32>,
    pub(crate) sched_dep_time: i32,
    pub(crate) dep_delay: Option<i32>,
    pub(crate) arr_time: Option<i32>,
    pub(crate) sched_arr_time: i32,
    pub(crate) arr_delay: Option<i32>,
    pub(crate) carrier: String,
    pub(crate) flight: u32,
    pub(crate) tailnum: Option<String>,
    pub(crate) origin: String,
    pub(crate) dest: String,
    pub(crate) air_time: Option<f64>,
    pub(crate) distance: f64,
    pub(crate) hour: i32,
    pub(crate) minute: i32,
    #[serde(with = "ticks")]
    pub(crate) time_hour: Ticks,
}

/// Stores ticks as a number, the smallest form.
mod ticks {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use table_core::model::Ticks;

    pub(super) fn serialize<S: Serializer>(
        ticks: &Ticks,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        ticks.get().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Ticks, D::Error> {
        Ticks::new(i64::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("ticks"))
    }
}

/// Carriers, each a partition.
pub(crate) const CARRIERS: [&str; 10] =
    ["9E", "AA", "B6", "DL", "EV", "F9", "MQ", "UA", "US", "WN"];

/// Returns flight number `n` of a carrier; every flight has its own key.
pub(crate) fn flight(carrier: &str, n: u32) -> Flight {
    let (day, minute) = (n % 28, (n * 7 % 1440) as i32);
    let flew = !n.is_multiple_of(40);
    Flight {
        year: 2013,
        month: (n / 28 % 12 + 1) as u8,
        day: (day + 1) as u8,
        dep_time: flew.then_some(minute + 3),
        sched_dep_time: minute,
        dep_delay: flew.then_some(3),
        arr_time: flew.then_some(minute + 190),
        sched_arr_time: minute + 200,
        arr_delay: flew.then_some(-10),
        carrier: carrier.to_owned(),
        flight: n,
        tailnum: flew.then(|| format!("N{:05}", n % 4000)),
        origin: ["EWR", "JFK", "LGA"][n as usize % 3].to_owned(),
        dest: ["IAH", "MIA", "BQN", "ATL", "ORD"][n as usize % 5].to_owned(),
        air_time: flew.then_some(187.0),
        distance: 1400.0 + f64::from(n % 100),
        hour: minute / 60,
        minute: minute % 60,
        time_hour: Ticks::new(634_925_520_000_000_000 + i64::from(n) * 600_000_000)
            .unwrap_or(Ticks::MIN),
    }
}
