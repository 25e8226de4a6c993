//! Reads entities from files of Apache Parquet, of `tables export` and of other programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::ops::ControlFlow;

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType, Int96};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::schema::types::{ColumnDescriptor, Type};
use table_core::limits;
use table_core::model::{EdmType, EdmValue, Entity, Properties, Ticks};
use uuid::Uuid;

use super::arrow_schema::{ARROW_SCHEMA, durations};
use super::columns::{Repeats, Role, roles};
use super::csv_file::edm_type;
use super::parquet_pages::{MAX_PAGES_BYTES, check_pages};
use super::template::FileKey;
use super::{BadRow, Facts, LeftOut, PARTITION_KEY, ROW_KEY, ReadOptions, Row};
use crate::entity_text::value_text;
use crate::failure::{Failure, Result};

const TICKS_OF_DAY: i64 = 864_000_000_000;
/// 1970-01-01 as the day of `INT96`: <https://en.wikipedia.org/wiki/Julian_day>.
const JULIAN_EPOCH: i64 = 2_440_588;
/// The rows whose values are in memory at once: an entity has up to 1 MiB.
const BATCH_ROWS: usize = 256;

/// The name of a column with the values of one type of a property.
pub(crate) fn type_column(property: &str, edm_type: EdmType) -> String {
    format!("{property}@{}", edm_type.name().trim_start_matches("Edm."))
}

/// How the values of a column are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Boolean,
    Binary,
    Date,
    Double,
    Guid,
    Int32,
    Int64,
    Text,
    /// A time as text.
    TimeText,
    /// A time, as a number of units of this many ticks, or of this many units per tick.
    Time {
        ticks: i64,
        per_tick: i64,
    },
    UInt32,
    UInt64,
}

/// A column with a property, or with a part of the key.
#[derive(Debug)]
struct Column {
    /// Its place among the columns of the file.
    at: usize,
    property: String,
    kind: Kind,
    /// Whether a row may have no value.
    is_optional: bool,
    /// Whether other columns have values of the same property too.
    is_shared: bool,
    /// The times that were cut to 100 ns.
    cut_times: std::cell::Cell<u64>,
}

/// A value: absent, or not a value of a property, with the reason.
type Cell = Result<Option<EdmValue>, String>;

/// A value that is in memory: bytes become a value when their row is made, because a column may refer to long bytes many times.
enum Waiting {
    Cell(Cell),
    Bytes(Kind, ByteArray),
}

impl Waiting {
    fn into_cell(self) -> Cell {
        match self {
            Self::Cell(cell) => cell,
            Self::Bytes(kind, value) => bytes(kind, value.data()),
        }
    }
}

/// Reads a file row group after row group. A batch of rows and a page of each column are in memory.
pub(super) struct ParquetReader {
    file: SerializedFileReader<File>,
    columns: Vec<Column>,
    partition: Option<Column>,
    row: Option<Column>,
    has_timestamp: bool,
    options: ReadOptions,
}

impl ParquetReader {
    /// Reads the schema, and every page that is needed, to check it. Refuses columns that no property can hold.
    pub(super) fn new(file: File, options: &ReadOptions, facts: &mut Facts) -> Result<Self> {
        let pages = file.try_clone().map_err(Failure::failed)?;
        let file = SerializedFileReader::new(file).map_err(|error| {
            of_parquet(
                format!("the file is not a whole Parquet file: {error}: nothing was imported"),
                &error,
            )
        })?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        // `roles` sees the names of properties, and a property may have a column for each type.
        let mut whole_names = BTreeSet::new();
        for column in schema.root_schema().get_fields() {
            let name = column.name();
            if !whole_names.insert(name) && !options.rules.ignore.contains(name) {
                return Err(Failure::misuse(format!(
                    "two columns are called {name:?}: give one of them another name in the file"
                )));
            }
        }
        let metadata = file.metadata().file_metadata().key_value_metadata();
        let arrow = metadata
            .and_then(|all| all.iter().find(|pair| pair.key == ARROW_SCHEMA))
            .and_then(|pair| pair.value.as_deref());
        let durations = arrow.map(durations).unwrap_or_default();
        let names: Vec<String> = (0..schema.num_columns())
            .map(|at| property_of(schema.get_column_root(at).name()))
            .collect();
        let (roles, remarks) = roles(&names, &options.rules, &options.keys, Repeats::Allowed)?;
        remarks
            .into_iter()
            .for_each(|remark| facts.add_remark(remark));
        let has_templates = options.keys.columns().is_some();
        let mut reader = Self {
            file,
            columns: Vec::new(),
            partition: None,
            row: None,
            has_timestamp: false,
            options: options.clone(),
        };
        for ((at, descriptor), role) in schema.columns().iter().enumerate().zip(roles) {
            if role == Role::LeftOut {
                continue;
            }
            let name = schema.get_column_root(at).name();
            if durations.iter().any(|duration| duration == name) {
                return Err(unfit(
                    name,
                    "has durations, which no property can hold exactly",
                ));
            }
            let mut column = column(at, name, schema.get_column_root(at), descriptor)?;
            match role {
                Role::Timestamp
                    if matches!(column.kind, Kind::Date | Kind::Time { .. } | Kind::TimeText) =>
                {
                    reader.has_timestamp = true;
                }
                Role::Timestamp => return Err(Failure::misuse(super::own_timestamp("the schema"))),
                Role::PartitionKey | Role::RowKey
                    if column.kind != Kind::Text && !has_templates =>
                {
                    return Err(Failure::misuse(format!(
                        "the column '{name}' is not text, and a key is text: convert the column, or give --partition-key and --row-key"
                    )));
                }
                Role::PartitionKey => reader.partition = Some(column),
                Role::RowKey => reader.row = Some(column),
                Role::Property(property) => {
                    facts.add_column(names[at].clone(), property.clone());
                    column.property = property;
                    reader.columns.push(column);
                }
                Role::LeftOut => {}
            }
        }
        mark_shared(&mut reader.columns);
        let read: Vec<usize> = reader
            .columns
            .iter()
            .chain(&reader.partition)
            .chain(&reader.row)
            .map(|column| column.at)
            .collect();
        for group in reader.file.metadata().row_groups() {
            check_pages(&pages, group, &read, MAX_PAGES_BYTES)?;
        }
        Ok(reader)
    }

    /// Hands every row to `take`, until it breaks. An error ends the file.
    pub(super) fn read(
        &self,
        left_out: &LeftOut,
        take: &mut dyn FnMut(Row) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut number = 0;
        let mut take = |row: Row| {
            if self.has_timestamp {
                left_out.add_timestamp();
            }
            take(row)
        };
        for group in 0..self.file.num_row_groups() {
            let read = self.read_group(group, &mut number, &mut take);
            if read.map_err(|error| failed(number, &error))?.is_break() {
                break;
            }
        }
        left_out.add_cut_times(
            self.columns
                .iter()
                .map(|column| column.cut_times.get())
                .sum(),
        );
        Ok(())
    }

    fn read_group(
        &self,
        group: usize,
        number: &mut u64,
        take: &mut dyn FnMut(Row) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ParquetError> {
        let group = self.file.get_row_group(group)?;
        let mut left = usize::try_from(group.metadata().num_rows()).unwrap_or_default();
        let columns: Vec<&Column> = self
            .columns
            .iter()
            .chain(&self.partition)
            .chain(&self.row)
            .collect();
        let open = |column: &&Column| group.get_column_reader(column.at);
        let mut readers = columns.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        while left > 0 {
            let count = left.min(BATCH_ROWS);
            let cells =
                |(column, reader): (&&Column, &mut ColumnReader)| read_cells(column, reader, count);
            let mut values = columns
                .iter()
                .zip(&mut readers)
                .map(cells)
                .collect::<Result<Vec<_>, _>>()?;
            for _ in 0..count {
                *number += 1;
                let row = self.row(&mut values);
                let row = row.map_err(|reason| BadRow {
                    place: format!("row {number}"),
                    reason,
                });
                if take(row).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            left -= count;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Takes the next value of each column: properties, then keys.
    fn row(&self, values: &mut [std::vec::IntoIter<Waiting>]) -> Result<Entity, String> {
        let (mut properties, mut failure) = (Properties::new(), None);
        let (values, keys) = values.split_at_mut(self.columns.len());
        for (column, cells) in self.columns.iter().zip(values) {
            // Every column moves on, also if one of them has failed.
            match cells.next().map_or(Ok(None), Waiting::into_cell) {
                Ok(None) => {}
                Ok(Some(_)) if column.is_shared && properties.get(&column.property).is_some() => {
                    failure = Some(format!(
                        "the property '{}' has values of two types",
                        column.property
                    ));
                }
                Ok(Some(value)) => properties.push(&column.property, value.as_ref(), false),
                Err(reason) => {
                    failure = Some(format!("the column '{}': {reason}", column.property));
                }
            }
        }
        let mut key = FileKey::default();
        let mut keys = keys.iter_mut();
        for (column, part, name) in [
            (&self.partition, &mut key.partition, PARTITION_KEY),
            (&self.row, &mut key.row, ROW_KEY),
        ] {
            if column.is_none() {
                continue;
            }
            match keys
                .next()
                .and_then(Iterator::next)
                .map_or(Ok(None), Waiting::into_cell)
            {
                Ok(value) => *part = value.map(|value| value_text(value.as_ref())),
                Err(reason) => failure = Some(format!("the column '{name}': {reason}")),
            }
        }
        match failure {
            Some(reason) => Err(reason),
            None => self.options.keys.entity(key, properties),
        }
    }
}

/// The property of a column: `tables export` writes a column `NAME@TYPE` for each type of a property with several types.
fn property_of(name: &str) -> String {
    match name.rsplit_once('@') {
        Some((property, of)) if edm_type(of).is_some() => property.to_owned(),
        _ => name.to_owned(),
    }
}

/// Finds the columns that share a property: columns of several types, and columns of one name, which Parquet allows.
fn mark_shared(columns: &mut [Column]) {
    let mut counts = BTreeMap::<String, usize>::new();
    for column in &*columns {
        *counts.entry(column.property.clone()).or_default() += 1;
    }
    for column in columns {
        column.is_shared = counts.get(&column.property).is_some_and(|count| *count > 1);
    }
}

/// Copies standard input to a temporary file: the schema is at the end of a Parquet file.
pub(crate) fn seekable(mut input: impl std::io::Read) -> Result<File> {
    let mut file = tempfile::tempfile().map_err(Failure::failed)?;
    std::io::copy(&mut input, &mut file).map_err(Failure::failed)?;
    file.flush()
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .map_err(Failure::failed)?;
    Ok(file)
}

fn failed(row: u64, error: &ParquetError) -> Failure {
    of_parquet(
        format!("the Parquet file cannot be read after row {row}: {error}"),
        error,
    )
}

/// A failure to read a file: by the error of the operating system, if that is the cause.
fn of_parquet(reason: String, error: &ParquetError) -> Failure {
    let cause = match error {
        ParquetError::External(cause) => cause.downcast_ref::<std::io::Error>(),
        _ => None,
    };
    match cause {
        Some(cause) => Failure::of_input(reason, cause),
        None => Failure::Damaged(reason),
    }
}

/// The refusal of a column that no property can be.
fn unfit(name: &str, reason: &str) -> Failure {
    Failure::misuse(format!(
        "the column '{name}' {reason}: write the file without it, or as text, or leave it out with --ignore '{name}'"
    ))
}

fn column(at: usize, name: &str, root: &Type, descriptor: &ColumnDescriptor) -> Result<Column> {
    let refused = |reason: String| Err(unfit(name, &reason));
    if root.is_group() || descriptor.max_rep_level() > 0 {
        return refused("has lists or structures, and a property has one value".to_owned());
    }
    let kind = match kind(descriptor) {
        // Times for which Parquet has no unit: see the head of write_parquet.rs.
        Some(Kind::Text) if name.ends_with("@DateTime") => Kind::TimeText,
        Some(kind) => kind,
        None => {
            return refused(format!(
                "has {}, which no property can hold exactly",
                kind_name(descriptor)
            ));
        }
    };
    let is_optional = descriptor.max_def_level() > 0;
    Ok(Column {
        at,
        property: name.to_owned(),
        kind,
        is_optional,
        is_shared: false,
        cut_times: 0.into(),
    })
}

/// What a column has that cannot be read, for an error.
fn kind_name(column: &ColumnDescriptor) -> &'static str {
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Decimal(_)), _) | (None, ConvertedType::DECIMAL) => "decimal numbers",
        (Some(LogicalType::Time(_)), _)
        | (None, ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS) => "times of day",
        (Some(LogicalType::Float16), _) => "16-bit numbers",
        (None, ConvertedType::INTERVAL) => "intervals",
        _ => "values of another kind",
    }
}

/// Returns how a column is read; `None` if no property can hold its values. Older files have converted types instead of logical types.
/// <https://parquet.apache.org/docs/file-format/types/logicaltypes/>
fn kind(column: &ColumnDescriptor) -> Option<Kind> {
    const TICK: Kind = Kind::Time {
        ticks: 1,
        per_tick: 100,
    };
    const MICRO: Kind = Kind::Time {
        ticks: 10,
        per_tick: 1,
    };
    const MILLI: Kind = Kind::Time {
        ticks: 10_000,
        per_tick: 1,
    };
    let (logical, converted) = (column.logical_type_ref(), column.converted_type());
    // `Unknown` is the type of a column that has only nulls.
    let is_plain =
        matches!(logical, None | Some(LogicalType::Unknown)) && converted == ConvertedType::NONE;
    match column.physical_type() {
        Physical::BOOLEAN => Some(Kind::Boolean),
        Physical::FLOAT | Physical::DOUBLE => Some(Kind::Double),
        // The times of Impala and of older Spark.
        Physical::INT96 => Some(TICK),
        Physical::INT32 | Physical::INT64 if is_plain => {
            Some(if column.physical_type() == Physical::INT32 {
                Kind::Int32
            } else {
                Kind::Int64
            })
        }
        Physical::INT32 => match (logical, converted) {
            (Some(LogicalType::Date), _) | (None, ConvertedType::DATE) => Some(Kind::Date),
            (Some(LogicalType::Integer(of)), _) if !of.is_signed && of.bit_width == 32 => {
                Some(Kind::UInt32)
            }
            (None, ConvertedType::UINT_32) => Some(Kind::UInt32),
            (Some(LogicalType::Integer(_)), _) => Some(Kind::Int32),
            (
                None,
                ConvertedType::INT_8
                | ConvertedType::INT_16
                | ConvertedType::INT_32
                | ConvertedType::UINT_8
                | ConvertedType::UINT_16,
            ) => Some(Kind::Int32),
            _ => None,
        },
        Physical::INT64 => match (logical, converted) {
            (Some(LogicalType::Timestamp(of)), _) => Some(match of.unit {
                TimeUnit::MILLIS => MILLI,
                TimeUnit::MICROS => MICRO,
                TimeUnit::NANOS => TICK,
            }),
            (None, ConvertedType::TIMESTAMP_MILLIS) => Some(MILLI),
            (None, ConvertedType::TIMESTAMP_MICROS) => Some(MICRO),
            (Some(LogicalType::Integer(of)), _) => Some(if of.is_signed {
                Kind::Int64
            } else {
                Kind::UInt64
            }),
            (None, ConvertedType::INT_64) => Some(Kind::Int64),
            (None, ConvertedType::UINT_64) => Some(Kind::UInt64),
            _ => None,
        },
        Physical::BYTE_ARRAY => match (logical, converted) {
            (Some(LogicalType::String | LogicalType::Enum | LogicalType::Json), _)
            | (None, ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON) => {
                Some(Kind::Text)
            }
            (Some(LogicalType::Bson), _) | (None, ConvertedType::BSON) => Some(Kind::Binary),
            _ if is_plain => Some(Kind::Binary),
            _ => None,
        },
        Physical::FIXED_LEN_BYTE_ARRAY => match logical {
            Some(LogicalType::Uuid) => Some(Kind::Guid),
            _ if is_plain => Some(Kind::Binary),
            _ => None,
        },
    }
}

/// Reads the next `count` values of a column.
fn read_cells(
    column: &Column,
    reader: &mut ColumnReader,
    count: usize,
) -> Result<std::vec::IntoIter<Waiting>, ParquetError> {
    use ColumnReader as Reader;
    let kind = column.kind;
    let is_optional = column.is_optional;
    let some = |value| Ok(Some(value));
    match reader {
        Reader::BoolColumnReader(reader) => cells(reader, is_optional, count, |value| {
            some(EdmValue::Boolean(*value))
        }),
        Reader::Int32ColumnReader(reader) => {
            cells(reader, is_optional, count, |value| match kind {
                Kind::Date => time(i64::from(*value).checked_mul(TICKS_OF_DAY)),
                Kind::UInt32 => some(EdmValue::Int64(i64::from(value.cast_unsigned()))),
                _ => some(EdmValue::Int32(*value)),
            })
        }
        Reader::Int64ColumnReader(reader) => {
            cells(reader, is_optional, count, |value| match kind {
                // Rounded down, also before 1970.
                Kind::Time { ticks, per_tick } => {
                    column.count_cut(value.rem_euclid(per_tick));
                    time(value.div_euclid(per_tick).checked_mul(ticks))
                }
                // The file has the bits of an unsigned number: a negative one has the highest bit set.
                Kind::UInt64 if *value < 0 => Err("the value is larger than an Int64".to_owned()),
                _ => some(EdmValue::Int64(*value)),
            })
        }
        Reader::Int96ColumnReader(reader) => cells(reader, is_optional, count, |value| {
            let (ticks, cut) = int96_ticks(value).unzip();
            column.count_cut(cut.unwrap_or_default());
            time(ticks)
        }),
        Reader::FloatColumnReader(reader) => cells(reader, is_optional, count, |value| {
            some(EdmValue::Double(f64::from(*value)))
        }),
        Reader::DoubleColumnReader(reader) => cells(reader, is_optional, count, |value| {
            some(EdmValue::Double(*value))
        }),
        Reader::ByteArrayColumnReader(reader) => waiting(reader, is_optional, count, |value| {
            Waiting::Bytes(kind, value.clone())
        }),
        Reader::FixedLenByteArrayColumnReader(reader) => {
            waiting(reader, is_optional, count, |value| {
                Waiting::Bytes(kind, ByteArray::from(value.clone()))
            })
        }
    }
}

fn cells<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    is_optional: bool,
    count: usize,
    convert: impl Fn(&T::T) -> Cell,
) -> Result<std::vec::IntoIter<Waiting>, ParquetError> {
    waiting(reader, is_optional, count, |value| {
        Waiting::Cell(convert(value))
    })
}

fn waiting<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    is_optional: bool,
    count: usize,
    convert: impl Fn(&T::T) -> Waiting,
) -> Result<std::vec::IntoIter<Waiting>, ParquetError> {
    let (mut values, mut levels) = (Vec::with_capacity(count), Vec::new());
    let (rows, ..) = reader.read_records(count, Some(&mut levels), None, &mut values)?;
    if rows != count {
        return Err(ParquetError::General(
            "a column has fewer rows than its row group".to_owned(),
        ));
    }
    // `values` has no place for an absent value. The definition level of a row says whether it takes the next
    // one: <https://parquet.apache.org/docs/file-format/nestedencoding/>.
    let cells: Vec<_> = if is_optional {
        let mut values = values.iter();
        let value = |level: &i16| match level {
            0 => Waiting::Cell(Ok(None)),
            _ => values.next().map_or(Waiting::Cell(Ok(None)), &convert),
        };
        levels.iter().map(value).collect()
    } else {
        values.iter().map(convert).collect()
    };
    Ok(cells.into_iter())
}

/// A time in ticks since 1970.
fn time(unix: Option<i64>) -> Cell {
    let ticks = unix
        .and_then(|unix| unix.checked_add(Ticks::UNIX_EPOCH.get()))
        .and_then(Ticks::new);
    ticks
        .map(|time| Some(EdmValue::DateTime(time)))
        .ok_or_else(|| "the time is not in the years 1 to 9999".to_owned())
}

/// The ticks since 1970, and the nanoseconds that are left.
fn int96_ticks(value: &Int96) -> Option<(i64, i64)> {
    // 64 bits of nanoseconds since midnight, then 32 bits of the Julian day, each little-endian.
    let &[low, high, day] = value.data() else {
        return None;
    };
    let nanos = i64::from(high) << 32 | i64::from(low);
    let days = (i64::from(day) - JULIAN_EPOCH).checked_mul(TICKS_OF_DAY)?;
    Some((days.checked_add(nanos / 100)?, nanos % 100))
}

impl Column {
    /// Counts a time with a part of a tick, which is dropped.
    fn count_cut(&self, left: i64) {
        self.cut_times
            .set(self.cut_times.get() + u64::from(left != 0));
    }
}

/// The value of a cell of bytes, by the kind of its column.
fn bytes(kind: Kind, bytes: &[u8]) -> Cell {
    if bytes.len() > limits::ENTITY_BYTES {
        return Err(format!(
            "the value has {} bytes, more than an entity",
            bytes.len()
        ));
    }
    let text = || std::str::from_utf8(bytes).map_err(|_| "the text is not UTF-8".to_owned());
    Ok(Some(match kind {
        Kind::Text => EdmValue::String(text()?.to_owned()),
        Kind::TimeText => EdmValue::DateTime(
            text()?
                .parse()
                .map_err(|error: table_core::Error| format!("the text is no time: {error}"))?,
        ),
        Kind::Guid => EdmValue::Guid(Uuid::from_slice(bytes).map_err(|error| error.to_string())?),
        _ => EdmValue::Binary(bytes.to_vec()),
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::data_type::{
        ByteArray, ByteArrayType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type,
        Int64Type, Int96Type,
    };
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
    use parquet::schema::parser::parse_message_type;

    use parquet::file::metadata::KeyValue;

    use super::*;
    use crate::read_rows::arrow_schema::tests::WITH_DURATION;
    use crate::read_rows::{ColumnRules, KeyTemplates};

    /// Writes one row group, column after column.
    fn write(schema: &str, columns: &[&dyn Fn(&mut SerializedColumnWriter<'_>)]) -> File {
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let file = tempfile::tempfile().unwrap();
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer =
            SerializedFileWriter::new(file.try_clone().unwrap(), schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        for column in columns {
            let mut open = group.next_column().unwrap().unwrap();
            column(&mut open);
            open.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        file
    }

    fn put<T: DataType>(
        values: Vec<T::T>,
        levels: Option<&[i16]>,
    ) -> impl Fn(&mut SerializedColumnWriter<'_>) {
        move |column| {
            column
                .typed::<T>()
                .write_batch(&values, levels, None)
                .unwrap();
        }
    }

    fn text(texts: &[&str]) -> impl Fn(&mut SerializedColumnWriter<'_>) {
        put::<ByteArrayType>(
            texts.iter().map(|&text| ByteArray::from(text)).collect(),
            None,
        )
    }

    fn open(file: File) -> Result<ParquetReader> {
        let options = ReadOptions {
            keys: KeyTemplates::new(None, None).unwrap(),
            rules: ColumnRules::default(),
            types: BTreeMap::new(),
            null: None,
        };
        ParquetReader::new(file, &options, &mut Facts::default())
    }

    fn read(file: File) -> Vec<Row> {
        read_and_count(file, &LeftOut::default())
    }

    fn read_and_count(file: File, left_out: &LeftOut) -> Vec<Row> {
        let reader = open(file).unwrap();
        let mut rows = Vec::new();
        reader
            .read(left_out, &mut |row| {
                rows.push(row);
                ControlFlow::Continue(())
            })
            .unwrap();
        rows
    }

    const KEYS: &str = "required binary PartitionKey (UTF8); required binary RowKey (UTF8);";

    #[test]
    fn types_of_other_programs_become_the_nearest_type() {
        let schema = format!(
            "message m {{ {KEYS} optional int32 Day (DATE); optional int64 Millis (TIMESTAMP_MILLIS); optional int64 Nanos \
             (TIMESTAMP(NANOS,false)); optional int96 Old; optional float Real; optional int32 Small (INTEGER(8,true)); \
             optional int32 Unsigned (UINT_32); optional int64 Large (UINT_64); optional binary Json (JSON); optional \
             fixed_len_byte_array(3) Fixed; optional int64 Timestamp (TIMESTAMP_MICROS); }}"
        );
        let all: Option<&[i16]> = Some(&[1, 1]);
        let mut old = Int96::new();
        // 1970-01-02, one microsecond after midnight.
        old.set_data(1000, 0, 2_440_589);
        let file = write(
            &schema,
            &[
                &text(&["p", "p"]),
                &text(&["1", "2"]),
                &put::<Int32Type>(vec![-1], Some(&[1, 0])),
                &put::<Int64Type>(vec![1, i64::MAX], all),
                &put::<Int64Type>(vec![-150, 250], all),
                &put::<Int96Type>(vec![old], Some(&[1, 0])),
                &put::<FloatType>(vec![0.5], Some(&[1, 0])),
                &put::<Int32Type>(vec![-7], Some(&[1, 0])),
                &put::<Int32Type>(vec![-1], Some(&[1, 0])),
                &put::<Int64Type>(vec![7, -1], all),
                &put::<ByteArrayType>(vec![ByteArray::from("{}")], Some(&[1, 0])),
                &put::<FixedLenByteArrayType>(vec![vec![1, 2, 3].into()], Some(&[1, 0])),
                &put::<Int64Type>(vec![0, 0], all),
            ],
        );
        let left_out = LeftOut::default();
        let rows = read_and_count(file, &left_out);
        // The two times in nanoseconds, and the column Timestamp of both rows.
        assert_eq!((left_out.cut_times(), left_out.timestamps()), (2, 2));
        let time = |text: &str| text.parse::<Ticks>().unwrap();
        let expected = Entity::new("p", "1")
            .unwrap()
            .with("Day", time("1969-12-31T00:00:00Z"))
            .with("Millis", time("1970-01-01T00:00:00.001Z"))
            .with("Nanos", time("1969-12-31T23:59:59.9999998Z"))
            .with("Old", time("1970-01-02T00:00:00.000001Z"))
            .with("Real", 0.5)
            .with("Small", -7)
            .with("Unsigned", 4_294_967_295_i64)
            .with("Large", 7_i64)
            .with("Json", "{}")
            .with("Fixed", vec![1_u8, 2, 3]);
        assert_eq!(rows[0].as_ref().unwrap(), &expected);
        // The last of the faults of a row is named.
        let bad = rows[1].as_ref().unwrap_err();
        assert_eq!(
            (&*bad.place, &*bad.reason),
            (
                "row 2",
                "the column 'Large': the value is larger than an Int64"
            )
        );
    }

    #[test]
    fn columns_that_no_property_can_hold_are_refused() {
        for (column, reason) in [
            (
                "optional group Tags (LIST) { repeated group list { optional binary element (UTF8); } }",
                "'Tags' has lists",
            ),
            (
                "optional group At { optional double Lat; }",
                "'At' has lists or structures",
            ),
            ("repeated int32 Many", "'Many' has lists"),
            (
                "optional int64 Price (DECIMAL(10,2))",
                "'Price' has decimal numbers",
            ),
            (
                "optional int32 Hour (TIME_MILLIS)",
                "'Hour' has times of day",
            ),
        ] {
            let end = if column.ends_with('}') { "" } else { ";" };
            let file = write_empty(&format!("message m {{ {KEYS} {column}{end} }}"));
            let refused = open(file).err().unwrap().to_string();
            assert!(refused.contains(reason), "{column}: {refused}");
        }
        let two_keys = write_empty(&format!(
            "message m {{ {KEYS} required binary RowKey (UTF8); }}"
        ));
        let refused = open(two_keys).err().unwrap();
        assert!(
            refused
                .to_string()
                .contains("two columns are called \"RowKey\"")
        );
        for twice in [
            "optional int32 N; optional double N",
            "optional int32 N@Int32; optional int32 N@Int32",
        ] {
            let file = write_empty(&format!("message m {{ {KEYS} {twice}; }}"));
            let refused = open(file).err().unwrap().to_string();
            assert!(refused.contains("two columns are called"), "{refused}");
        }
        let without_keys = write_empty("message m { optional double A; }");
        let refused = open(without_keys).err().unwrap();
        assert!(refused.to_string().contains("--partition-key"));
    }

    /// pyarrow keeps the type in its own schema: in Parquet the column has whole numbers.
    #[test]
    fn durations_are_refused_by_name() {
        let schema = format!("message m {{ {KEYS} optional int64 Lasts; optional int64 N; }}");
        let arrow = KeyValue::new(ARROW_SCHEMA.to_owned(), WITH_DURATION.to_owned());
        let refused = open(write_with(&schema, Some(vec![arrow]))).err().unwrap();
        assert!(matches!(refused, Failure::Misuse(_)));
        let refused = refused.to_string();
        assert!(
            refused.contains("'Lasts' has durations") && refused.contains("--ignore"),
            "{refused}"
        );
        open(write_empty(&schema)).unwrap();
    }

    fn write_empty(schema: &str) -> File {
        write_with(schema, None)
    }

    fn write_with(schema: &str, metadata: Option<Vec<KeyValue>>) -> File {
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let file = tempfile::tempfile().unwrap();
        let properties = WriterProperties::builder().set_key_value_metadata(metadata);
        let properties = Arc::new(properties.build());
        SerializedFileWriter::new(file.try_clone().unwrap(), schema, properties)
            .unwrap()
            .close()
            .unwrap();
        file
    }

    #[test]
    fn pages_that_would_fill_the_memory_are_refused() {
        let long = "x".repeat(1000);
        let file = write(
            &format!("message m {{ {KEYS} }}"),
            &[&text(&[&long]), &text(&["1"])],
        );
        let metadata = SerializedFileReader::new(file.try_clone().unwrap())
            .unwrap()
            .metadata()
            .clone();
        let check = |limit| check_pages(&file, metadata.row_group(0), &[0, 1], limit);
        check(1 << 20).unwrap();
        assert!(check(1 << 10).unwrap_err().to_string().contains("memory"));
    }

    #[test]
    fn a_row_has_one_value_for_a_property() {
        let schema =
            format!("message m {{ {KEYS} optional double `N@Double`; optional int32 `N@Int32`; }}")
                .replace('`', "");
        let file = write(
            &schema,
            &[
                &text(&["p", "p"]),
                &text(&["1", "2"]),
                &put::<DoubleType>(vec![0.5], Some(&[0, 1])),
                &put::<Int32Type>(vec![1, 2], Some(&[1, 1])),
            ],
        );
        let rows = read(file);
        assert_eq!(
            rows[0].as_ref().unwrap(),
            &Entity::new("p", "1").unwrap().with("N", 1)
        );
        assert!(
            rows[1]
                .as_ref()
                .unwrap_err()
                .reason
                .contains("values of two types")
        );
    }

    #[test]
    fn columns_of_one_property_are_recognized_in_every_order() {
        for columns in [
            "optional int32 N@Int32; optional double N",
            "optional int32 N; optional double N@Double",
        ] {
            let schema = format!("message m {{ {KEYS} {columns}; }}");
            let file = write(
                &schema,
                &[
                    &text(&["p", "p"]),
                    &text(&["1", "2"]),
                    &put::<Int32Type>(vec![1, 2], Some(&[1, 1])),
                    &put::<DoubleType>(vec![0.5], Some(&[0, 1])),
                ],
            );
            let rows = read(file);
            assert_eq!(
                rows[0].as_ref().unwrap(),
                &Entity::new("p", "1").unwrap().with("N", 1),
                "{columns}"
            );
            assert!(
                rows[1]
                    .as_ref()
                    .unwrap_err()
                    .reason
                    .contains("values of two types"),
                "{columns}"
            );
        }
    }
}
