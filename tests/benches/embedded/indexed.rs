use table_core::model::{Entity, IfMatch, TableName, Ticks};
use table_core::store::{GroupTransaction, Operation, TableStore as _, TableStoreExt as _};
use table_core::typed::TableEntity;
use table_embedded::EmbeddedStore;
use table_patterns::index::IndexOptions;
use table_patterns::journal::Clearing;
use table_patterns::{Database, Table};

/// An entity with one index entry in another partition.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Trip")]
#[index(
    tail,
    partition_key = "tail_{tailnum}",
    row_key = "{carrier}_{number:08}"
)]
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
    fn from(
        Trip {
            carrier,
            number,
            tailnum,
            origin,
            dest,
            distance,
            minutes,
        }: Trip,
    ) -> Self {
        Self {
            carrier,
            number,
            tailnum,
            origin,
            dest,
            distance,
            minutes,
        }
    }
}

/// Both tables.
#[derive(Clone, Debug)]
pub(crate) struct Trips {
    pub(crate) plain: Table<PlainTrip>,
    pub(crate) indexed: Table<Trip>,
}

impl Trips {
    /// Deletes journal rows in the background, the default of a program.
    pub(crate) async fn open(store: &EmbeddedStore) -> Self {
        let mut options = IndexOptions::local();
        options.clearing = Clearing::AfterAnswer;
        let db = Database::with_options(store.clone(), options);
        let (plain, indexed) = (
            db.table("Trips").unwrap(),
            db.table("IndexedTrips").unwrap(),
        );
        plain.declare().await.unwrap();
        indexed.declare().await.unwrap();
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

/// The requests of an insert with an entry in another partition, sent to the store without a plan, a lease or states
/// of indexes: the least cost of every library that keeps an entity and its entry together by separate requests.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    store: EmbeddedStore,
    table: TableName,
}

impl Requests {
    pub(crate) async fn open(store: &EmbeddedStore) -> Self {
        let table = TableName::new("TripRequests").unwrap();
        store.create_table_if_missing(&table).await.unwrap();
        Self {
            store: store.clone(),
            table,
        }
    }

    /// The group with the journal row, the entry, the read that checks the entity, and the removal of the journal row after the answer.
    /// The rows are as long as those of [`Table`].
    pub(crate) async fn insert(&self, trip: &Trip) {
        let entity = trip.to_entity().unwrap();
        let key = entity.key().clone();
        let entry = Entity::new(
            format!("tail_{}", trip.tailnum),
            format!("{}_{:08}", trip.carrier, trip.number),
        );
        let entry = entry
            .unwrap()
            .with("IndexName", "tail-0123456789ab")
            .with("OwnerPartition", key.partition())
            .with("OwnerRow", key.row());
        let written = format!("~~j_{:032x}", fastrand::u128(..));
        let affected = format!(
            r#"[{{"t":"TripRequests","p":"{}","r":"{}","a":true}}]"#,
            entry.key().partition(),
            entry.key().row()
        );
        let journal = Entity::new(key.partition(), written)
            .unwrap()
            .with("JournalKind", "write")
            .with("JournalLease", 60_000_i64)
            .with("JournalWritten", Ticks::now())
            .with("JournalRows", format!(r#"["{}"]"#, key.row()).into_bytes())
            .with("JournalTouched", affected.into_bytes());
        let journal_key = journal.key().clone();
        let mut group = GroupTransaction::new(key.partition_key(), self.store.profile());
        group.push(Operation::Insert(entity)).unwrap();
        group.push(Operation::Insert(journal)).unwrap();
        let committed = self.store.transact(&self.table, group).await.unwrap();
        self.store
            .write(&self.table, Operation::Insert(entry))
            .await
            .unwrap();
        let now = self
            .store
            .get(&self.table, &key, None)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(now.etag(), committed[0].etag.as_ref());
        let (this, version) = (
            self.clone(),
            IfMatch::from(committed[1].etag.as_ref().unwrap()),
        );
        tokio::spawn(async move {
            this.store
                .write(&this.table, Operation::Delete(journal_key, version))
                .await
                .unwrap();
        });
    }
}
