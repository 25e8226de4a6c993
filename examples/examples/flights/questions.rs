//! The questions, each answered with the pattern that suits it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{Datelike, NaiveDate};
use examples::Result;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStore;
use table_core::adapter::{Metered, RequestMeter};
use table_patterns::index::IndexOptions;
use table_patterns::log_tail::{LogTail, Logged};
use table_patterns::prelude::*;
use table_patterns::relationship::{JoinCache, JoinOptions};
use table_patterns::series::DataSeries;
use table_patterns::wide::WideEntities;

use crate::answer::{Answer, QuestionResult};
use crate::day_csv::DayFiles;
use crate::model::{
    Airline, Carrier, ClockHours, DEPARTURES, FLIGHTS, Flight, FlightDay, FlightDistance,
    FlightOrigin, FlightTime, Plane, WEATHER, WeatherDay,
};
use crate::months::{self, Months};

/// Number of partitions that are counted concurrently.
const CONCURRENCY: usize = 8;

/// The tables, over a meter that counts their requests.
#[derive(Debug)]
pub(crate) struct Questions {
    meter: RequestMeter,
    flights: Table<Flight>,
    planes: Table<Plane>,
    departures: LogTail<Properties>,
    weather: DataSeries<ClockHours, f64>,
    airlines: Table<Airline>,
    names: JoinCache<Airline>,
    years: WideEntities,
    months: Months,
    files: DayFiles,
}

impl Questions {
    pub(crate) async fn new(
        store: Arc<dyn TableStore>,
        blobs: Arc<dyn ObjectStore>,
    ) -> Result<Self> {
        let meter = RequestMeter::new();
        let store: Arc<dyn TableStore> = Arc::new(Metered::new(store, meter.clone()));
        let mut options = IndexOptions::default();
        // No question reads the states of the indexes again and is charged for it.
        options.cache = Duration::from_secs(3600);
        let db = Database::with_options(Arc::clone(&store), options);
        let flights = db.table::<Flight>(FLIGHTS)?;
        let planes = db.table::<Plane>(FLIGHTS)?;
        let airlines = db.table::<Airline>(FLIGHTS)?;
        // The first lookup of a type reads the states.
        flights.by(Flight::by_tail_number("")).first().await?;
        planes.by(Plane::by_manufacturer("")).first().await?;
        Ok(Self {
            meter,
            flights,
            planes,
            departures: LogTail::new(Arc::clone(&store), DEPARTURES, PartitionKey::new("JFK")?)?,
            weather: DataSeries::new(Arc::clone(&store), WEATHER, ClockHours)?,
            names: JoinCache::new(airlines.clone(), JoinOptions::default()),
            airlines,
            years: months::years(Arc::clone(&store))?,
            months: months::months(Arc::clone(&store))?,
            files: DayFiles::open(store, blobs)?,
        })
    }

    /// Answers all questions, one after another.
    pub(crate) async fn ask_all(&self) -> Result<Vec<QuestionResult>> {
        Ok(vec![
            self.ask("flight", "point query", self.flight()).await?,
            self.ask("carrier_day", "compound key, row range", self.carrier_day())
                .await?,
            self.ask("latest_jfk", "log tail, stops after ten", self.latest_jfk())
                .await?,
            self.ask(
                "airline_counts",
                "summaries, names from a cache",
                self.airline_counts(),
            )
            .await?,
            self.ask(
                "weather_day",
                "data series in one entity",
                self.weather_day(),
            )
            .await?,
            self.ask(
                "jfk_days",
                "wide entity: several rows, one range",
                self.jfk_days(),
            )
            .await?,
            self.ask(
                "delayed_lga",
                "scan: reads every flight",
                self.delayed_lga(),
            )
            .await?,
            self.ask(
                "delayed_lga_indexed",
                "index built online, keys alone",
                self.delayed_lga_indexed(),
            )
            .await?,
            self.ask(
                "by_tailnum",
                "index table with some fields",
                self.by_tailnum(),
            )
            .await?,
            self.ask(
                "planes_by_manufacturer",
                "inter-partition index, counted",
                self.planes_by_manufacturer(),
            )
            .await?,
            self.ask(
                "day_csv",
                "large entity: a blob, hashed as it streams",
                self.files.answer(date(1, 1)?),
            )
            .await?,
            self.ask(
                "drop_january",
                "high-volume delete: a table per month",
                self.drop_january(),
            )
            .await?,
        ])
    }

    async fn ask(
        &self,
        question: &'static str,
        pattern: &'static str,
        answer: impl Future<Output = Result<Answer>>,
    ) -> Result<QuestionResult> {
        let start = Instant::now();
        let (answer, cost) = self.meter.measure(answer).await;
        Ok(QuestionResult::new(
            question,
            pattern,
            answer?,
            &cost,
            start.elapsed(),
        ))
    }

    /// Returns flight UA 1545 from Newark on New Year's Day.
    async fn flight(&self) -> Result<Answer> {
        let key = Flight::key("UA", date(1, 1)?, 1545, "EWR")?;
        let flight = self.flights.get_existing(key).await?;
        Ok(Answer::Flight {
            dest: flight.dest,
            dep_delay: flight.dep_delay,
        })
    }

    /// Returns United's flights on January 15 and their miles. The RowKey starts with the day.
    async fn carrier_day(&self) -> Result<Answer> {
        let query = self
            .flights
            .query()
            .partition(Flight::partition("UA")?)
            .rows(Flight::row_prefix().date(date(1, 15)?));
        let flights = query.project::<FlightDistance>().all().await?;
        let distance = flights
            .iter()
            .map(|flight| i64::from(flight.distance))
            .sum();
        Ok(Answer::CarrierDay {
            flights: flights.len() as u64,
            distance,
        })
    }

    /// Returns the ten latest scheduled departures from JFK: the first ten rows of its log.
    async fn latest_jfk(&self) -> Result<Answer> {
        let latest = self.departures.latest(10).await?;
        let time =
            |departure: &Logged<_>| departure.at.to_naive().format("%Y-%m-%dT%H:%M").to_string();
        Ok(Answer::Latest {
            scheduled: latest.iter().map(time).collect(),
        })
    }

    /// Returns the flights per airline. A summary in each carrier's partition counts its flights and is
    /// updated with every write. The names are read into a cache once and joined with the counts.
    async fn airline_counts(&self) -> Result<Answer> {
        // 1 request loads the names into the cache, 1 reads the carriers, 16 read the summaries; the join needs none.
        let airlines = self.airlines.query().partition(Airline::partition()?);
        self.names.load(&airlines).await?;
        let carriers = airlines.project::<Carrier>().all().await?;
        let counts = stream::iter(carriers)
            .map(|carrier| self.count(carrier))
            .buffer_unordered(CONCURRENCY);
        let counts: Vec<_> = counts.try_collect().await?;
        let named = self
            .names
            .join(counts, |(carrier, _)| Airline::key(carrier))
            .await?;
        let named = named
            .into_iter()
            .filter_map(|((_, flights), name)| Some((name?.name.clone(), flights)));
        Ok(Answer::Airlines(named.collect()))
    }

    /// Returns a carrier's code and its number of flights.
    async fn count(&self, Carrier { carrier }: Carrier) -> Result<(String, u64)> {
        let summary = self
            .flights
            .by(Flight::by_count(&carrier))
            .summary()
            .await?;
        Ok((carrier, summary.count().unsigned_abs()))
    }

    /// Returns the temperatures at Newark on New Year's Day.
    async fn weather_day(&self) -> Result<Answer> {
        let day = self
            .weather
            .get(WeatherDay::key("EWR", date(1, 1)?)?.key())
            .await?;
        // The first 24 slots are the hours; the others are hours that occur twice (see `ClockHours`).
        let hours = day.values().get(..24).unwrap_or_default();
        Ok(Answer::Weather {
            hours: hours.to_vec(),
        })
    }

    /// Returns the departures from JFK per day of the year, and the busiest day (the earliest, if there are
    /// several).
    async fn jfk_days(&self) -> Result<Answer> {
        let days = self.jfk_departures().await?;
        let busiest = days.iter().rev().max_by_key(|(_, flights)| **flights);
        let (busiest, flights) =
            busiest.map_or_else(Default::default, |(day, n)| (day.to_string(), *n));
        Ok(Answer::Days {
            days: days.len() as u64,
            busiest,
            flights,
        })
    }

    /// Returns the departures from JFK per day of the year.
    pub(crate) async fn jfk_departures(&self) -> Result<BTreeMap<NaiveDate, u64>> {
        let year = self.years.get(&months::year_key("JFK", 2013)?).await?;
        year.map_or_else(
            || Ok(BTreeMap::new()),
            |year| months::departures(2013, &year),
        )
    }

    /// Drops January's table and returns the number of flights in the remaining months: 0 with the bundled data. (A second run on the
    /// same store finds the table dropped.)
    async fn drop_january(&self) -> Result<Answer> {
        let february = date(2, 1)?.and_hms_opt(0, 0, 0).ok_or("no such time")?;
        self.months.drop_before(february.into()).await?;
        Ok(Answer::Remaining {
            remaining: self.months.query().count().await? as u64,
        })
    }

    /// Returns January's departures from LaGuardia that arrived more than two hours late.
    ///
    /// No key starts with the day or the airport, so the store reads every flight. It compares the day and
    /// the delay; the client compares the airport at the end of the RowKey.
    async fn delayed_lga(&self) -> Result<Answer> {
        let january = RowPrefix::escaped("2013-01-");
        let late = self
            .flights
            .query()
            .rows(january)
            .filter(Flight::ARR_DELAY.gt(120));
        let late = late.project::<FlightOrigin>().all().await?;
        let flights = late.iter().filter(|flight| flight.origin == "LGA").count() as u64;
        Ok(Answer::Count { flights })
    }

    /// Returns the same from the index that was built over the loaded table. The airport is the PartitionKey
    /// of entries; their RowKeys start with the delay and contain the date.
    async fn delayed_lga_indexed(&self) -> Result<Answer> {
        let late = self.flights.by(Flight::by_delay("LGA").arr_delay_in(121..));
        let late = late.project::<FlightDay>().all().await?;
        let january = late.iter().filter(|flight| flight.date.month() == 1);
        Ok(Answer::Count {
            flights: january.count() as u64,
        })
    }

    /// Returns the flights of a plane and their minutes in the air, which the entries contain.
    async fn by_tailnum(&self) -> Result<Answer> {
        let flights = self
            .flights
            .by(Flight::by_tail_number("N14228"))
            .project::<FlightTime>()
            .all()
            .await?;
        let air_time = flights
            .iter()
            .filter_map(|flight| flight.air_time)
            .map(i64::from)
            .sum();
        Ok(Answer::Plane {
            flights: flights.len() as u64,
            air_time,
        })
    }

    /// Counts EMBRAER's planes with 55 seats. Entries are counted; no plane is read.
    async fn planes_by_manufacturer(&self) -> Result<Answer> {
        let planes = self
            .planes
            .by(Plane::by_manufacturer("EMBRAER").seats(55))
            .count()
            .await?;
        Ok(Answer::Planes {
            planes: planes as u64,
        })
    }

    /// Returns the flights per day.
    pub(crate) async fn flights_per_day(&self) -> Result<BTreeMap<NaiveDate, u64>> {
        let flights = self.flights.query().project::<FlightDay>().stream();
        let add = |mut days: BTreeMap<_, _>, flight: FlightDay| async move {
            *days.entry(flight.date).or_default() += 1;
            Ok(days)
        };
        Ok(flights.try_fold(BTreeMap::new(), add).await?)
    }
}

fn date(month: u32, day: u32) -> Result<NaiveDate> {
    NaiveDate::from_ymd_opt(2013, month, day).ok_or_else(|| "no such date".into())
}
