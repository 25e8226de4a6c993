use table_core::typed::{Table, TableEntity};
use table_embedded::EmbeddedStore;
use table_patterns::index::{IndexOptions, IndexedTable};
use table_patterns::journal::Clearing;

/// An entity with one index entry in another partition.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Trip")]
#[index(tail, partition_key = "tail_{tailnum}", row_key = "{carrier}_{number:08}")]
pub(crate) struct Trip {
    #[partition_key]
    pub(crate) carrier: String,
    #[row_key]
    pub(crate) number: u32,
    pub(crate) tailnum: String,
    pub(crate) origin: String,
    pub(crate) dest: String,
    pub(crate) distance: f64,
    pub(crate) minutes: Option<i32>,
}

/// The same entity without the index.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "PlainTrip")]
pub(crate) struct PlainTrip {
    #[partition_key]
    carrier: String,
    #[row_key]
    number: u32,
    tailnum: String,
    origin: String,
    dest: String,
    distance: f64,
    minutes: Option<i32>,
}

impl From<Trip> for PlainTrip {
    fn from(Trip { carrier, number, tailnum, origin, dest, distance, minutes }: Trip) -> Self {
        Self { carrier, number, tailnum, origin, dest, distance, minutes }
    }
}

/// Both tables.
#[derive(Clone, Debug)]
pub(crate) struct Trips {
    pub(crate) plain: Table<PlainTrip>,
    pub(crate) indexed: IndexedTable<Trip>,
}

impl Trips {
    /// Clears the journal rows after the answer: as a program does that closes its handle before it ends.
    pub(crate) async fn open(store: &EmbeddedStore) -> Self {
        let plain = Table::new(store.clone(), "Trips").unwrap();
        plain.create_if_missing().await.unwrap();
        let mut options = IndexOptions::local();
        options.clearing = Clearing::AfterAnswer;
        let indexed = IndexedTable::open(store.clone(), "IndexedTrips", options).await.unwrap();
        Self { plain, indexed }
    }
}

pub(crate) fn trip(number: u32) -> Trip {
    Trip {
        carrier: format!("{:02}", number % 16),
        number,
        tailnum: format!("N{:05}", number % 4000),
        origin: ["EWR", "JFK", "LGA"][number as usize % 3].to_owned(),
        dest: ["IAH", "MIA", "BQN", "ATL", "ORD"][number as usize % 5].to_owned(),
        distance: 1400.0 + f64::from(number % 100),
        minutes: (!number.is_multiple_of(40)).then_some(187),
    }
}
