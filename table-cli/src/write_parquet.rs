//! Entities as a file of Apache Parquet.
//!
//! A property is a column of its type. A property that has several types in the table is a column for each of them, `NAME@TYPE`: so the
//! file has the types. Parquet has no unit of 100 ns: a DateTime column has
//! microseconds, or nanoseconds if a value needs them; a column that needs both 100 ns and years that nanoseconds do not reach (1677 to
//! 2262) has text, and the name `NAME@DateTime`. Every page has a checksum.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::column::writer::{ColumnWriter, get_column_writer, get_typed_column_writer_mut};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, Int32Type,
    Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{SchemaDescriptor, Type};
use table_core::model::{EdmType, Entity, Ticks, ValueRef};

use crate::failure::{Failure, Result};
use crate::read_rows::{ChecksummedPages, type_column};
use crate::spool::Spool;

/// The bytes of the entities of a row group, as they are in memory. A reader needs a few pages of each column of a group, a writer the
/// whole group.
const GROUP_BYTES: usize = 16 << 20;
/// The most entities in a row group.
const GROUP_ROWS: usize = 1 << 17;

/// Entities that are written as Parquet when all of them are known: the schema has the properties of every entity.
#[derive(Debug)]
pub(crate) struct ParquetRows {
    entities: Spool,
    properties: Vec<Property>,
    indexes: HashMap<String, usize>,
}

/// A property and facts about its values.
#[derive(Debug)]
struct Property {
    name: String,
    /// The types of its values, in the order of their occurrence.
    types: Vec<EdmType>,
    /// Whether a time is no whole number of microseconds.
    needs_ticks: bool,
    /// Whether a time is outside the years of nanoseconds.
    is_far: bool,
}

/// A column of the file.
#[derive(Debug)]
struct Column {
    property: String,
    name: String,
    kind: Kind,
}

/// How the values of a column are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// In the Parquet type for this type; a DateTime in microseconds.
    Of(EdmType),
    /// A DateTime in nanoseconds.
    Nanos,
    /// A DateTime as text.
    TimeText,
}

impl ParquetRows {
    /// Starts without entities.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            entities: Spool::new()?,
            properties: Vec::new(),
            indexes: HashMap::new(),
        })
    }

    /// Adds an entity.
    pub(crate) fn add(&mut self, entity: &Entity) -> Result<()> {
        for property in entity.properties().iter() {
            let at = match self.indexes.get(property.name()) {
                Some(at) => *at,
                None => {
                    let name = property.name().to_owned();
                    self.indexes.insert(name.clone(), self.properties.len());
                    self.properties.push(Property {
                        name,
                        types: Vec::new(),
                        needs_ticks: false,
                        is_far: false,
                    });
                    self.properties.len() - 1
                }
            };
            self.properties[at].add(property.value());
        }
        self.entities.add(entity)
    }

    /// Writes the file.
    pub(crate) fn write_to(self, out: &mut (dyn Write + Send)) -> Result<()> {
        let columns: Vec<_> = self.properties.iter().flat_map(Property::columns).collect();
        let schema = schema(&columns).map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .build();
        let (schema, properties) = (Arc::new(schema), Arc::new(properties));
        let chunks = Chunks {
            schema: SchemaDescriptor::new(Arc::clone(&schema)),
            properties: Arc::clone(&properties),
        };
        let mut file = SerializedFileWriter::new(out, schema, properties).map_err(failed)?;
        let mut entities = self.entities.read()?;
        loop {
            let group = next_group(&mut entities)?;
            if group.is_empty() {
                break;
            }
            chunks
                .write_group(&mut file, &columns, &group)
                .map_err(failed)?;
        }
        file.close().map(drop).map_err(failed)
    }
}

impl Property {
    fn add(&mut self, value: ValueRef<'_>) {
        let edm_type = value.edm_type();
        if !self.types.contains(&edm_type) {
            self.types.push(edm_type);
        }
        if let ValueRef::DateTime(time) = value {
            self.needs_ticks |= (time.get() - Ticks::UNIX_EPOCH.get()) % 10 != 0;
            self.is_far |= nanos(time).is_none();
        }
    }

    /// The columns of the property.
    fn columns(&self) -> impl Iterator<Item = Column> + '_ {
        self.types.iter().map(|&edm_type| {
            let kind = match (edm_type, self.needs_ticks, self.is_far) {
                (EdmType::DateTime, true, false) => Kind::Nanos,
                (EdmType::DateTime, true, true) => Kind::TimeText,
                _ => Kind::Of(edm_type),
            };
            // Times as text have the type in the name also if the property has no other: a reader would take
            // them for text.
            let name = match self.types.len() == 1 && kind != Kind::TimeText {
                true => self.name.clone(),
                false => type_column(&self.name, edm_type),
            };
            Column {
                property: self.name.clone(),
                name,
                kind,
            }
        })
    }
}

/// Returns the nanoseconds since 1970; `None` outside the years that 64 bits reach.
fn nanos(time: Ticks) -> Option<i64> {
    (time.get() - Ticks::UNIX_EPOCH.get()).checked_mul(100)
}

fn schema(columns: &[Column]) -> Result<Type, ParquetError> {
    let keys = ["PartitionKey", "RowKey"].map(|name| {
        field(
            name,
            Physical::BYTE_ARRAY,
            Some(LogicalType::String),
            Repetition::REQUIRED,
        )
    });
    let columns = columns.iter().map(|column| {
        // `true`: the times are in UTC.
        let time = |unit| (Physical::INT64, Some(LogicalType::timestamp(true, unit)));
        let (physical, logical) = match column.kind {
            Kind::Of(EdmType::Binary) => (Physical::BYTE_ARRAY, None),
            Kind::Of(EdmType::Boolean) => (Physical::BOOLEAN, None),
            Kind::Of(EdmType::DateTime) => time(TimeUnit::MICROS),
            Kind::Nanos => time(TimeUnit::NANOS),
            Kind::Of(EdmType::Double) => (Physical::DOUBLE, None),
            Kind::Of(EdmType::Guid) => (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid)),
            Kind::Of(EdmType::Int32) => (Physical::INT32, None),
            Kind::Of(EdmType::Int64) => (Physical::INT64, None),
            Kind::Of(EdmType::String) | Kind::TimeText => {
                (Physical::BYTE_ARRAY, Some(LogicalType::String))
            }
        };
        field(&column.name, physical, logical, Repetition::OPTIONAL)
    });
    let fields = keys
        .into_iter()
        .chain(columns)
        .collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder("entity")
        .with_fields(fields)
        .build()
}

fn field(
    name: &str,
    physical: Physical,
    logical: Option<LogicalType>,
    repetition: Repetition,
) -> Result<Arc<Type>, ParquetError> {
    let length = if logical == Some(LogicalType::Uuid) {
        16
    } else {
        0
    };
    let field = Type::primitive_type_builder(name, physical).with_repetition(repetition);
    field
        .with_logical_type(logical)
        .with_length(length)
        .build()
        .map(Arc::new)
}

/// Takes the entities of the next row group.
fn next_group(entities: &mut impl Iterator<Item = Result<Entity>>) -> Result<Vec<Entity>> {
    let (mut group, mut bytes) = (Vec::new(), 0);
    while group.len() < GROUP_ROWS && bytes < GROUP_BYTES {
        let Some(entity) = entities.next().transpose()? else {
            break;
        };
        let key = entity.key();
        bytes += key.partition().len() + key.row().len() + entity.properties().as_packed().len();
        group.push(entity);
    }
    Ok(group)
}

/// What the columns of every row group have in common.
struct Chunks {
    schema: SchemaDescriptor,
    properties: Arc<WriterProperties>,
}

impl Chunks {
    fn write_group<W: Write + Send>(
        &self,
        file: &mut SerializedFileWriter<W>,
        columns: &[Column],
        entities: &[Entity],
    ) -> Result<(), ParquetError> {
        let mut group = file.next_row_group()?;
        let parts = [
            |entity: &Entity| text(entity.key().partition()),
            |entity: &Entity| text(entity.key().row()),
        ];
        for (at, part) in parts.into_iter().enumerate() {
            let keys: Vec<_> = entities.iter().map(part).collect();
            self.write_chunk(&mut group, at, |writer| {
                get_typed_column_writer_mut::<ByteArrayType>(writer)
                    .write_batch(&keys, None, None)
                    .map(drop)
            })?;
        }
        for (at, column) in columns.iter().enumerate() {
            self.write_chunk(&mut group, parts.len() + at, |writer| {
                write_column(writer, column, entities)
            })?;
        }
        group.close().map(drop)
    }

    /// Writes the values of one column, through memory: the library's own writer of pages writes no checksums.
    fn write_chunk<W: Write + Send>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        at: usize,
        write: impl FnOnce(&mut ColumnWriter<'_>) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError> {
        let mut pages = Vec::new();
        let sink = Box::new(ChecksummedPages(&mut pages));
        let mut writer =
            get_column_writer(self.schema.column(at), Arc::clone(&self.properties), sink);
        write(&mut writer)?;
        let written = writer.close()?;
        group.append_column(&Bytes::from(pages), written)
    }
}

fn text(text: &str) -> ByteArray {
    ByteArray::from(text)
}

/// Writes the values of one column. Values of other types are in other columns.
fn write_column(
    writer: &mut ColumnWriter<'_>,
    column: &Column,
    entities: &[Entity],
) -> Result<(), ParquetError> {
    let values = entities.iter().map(|entity| entity.get(&column.property));
    macro_rules! write {
        ($of:ty, $pattern:pat => $value:expr) => {
            write_values::<$of>(
                writer,
                values.map(|value| match value {
                    Some($pattern) => Some($value),
                    _ => None,
                }),
            )
        };
    }
    match column.kind {
        Kind::Of(EdmType::Binary) => {
            write!(ByteArrayType, ValueRef::Binary(v) => ByteArray::from(v))
        }
        Kind::Of(EdmType::Boolean) => write!(BoolType, ValueRef::Boolean(v) => v),
        Kind::Of(EdmType::DateTime) => {
            // Exact: 10 ticks are a microsecond, and a column with other times has nanoseconds or text.
            write!(Int64Type, ValueRef::DateTime(v) => (v.get() - Ticks::UNIX_EPOCH.get()) / 10)
        }
        // `Property::add` has seen that every value has nanoseconds.
        Kind::Nanos => write!(Int64Type, ValueRef::DateTime(v) => nanos(v).unwrap_or_default()),
        Kind::TimeText => write!(ByteArrayType, ValueRef::DateTime(v) => text(&v.to_string())),
        Kind::Of(EdmType::Double) => write!(DoubleType, ValueRef::Double(v) => v),
        Kind::Of(EdmType::Guid) => {
            write!(FixedLenByteArrayType, ValueRef::Guid(v) => v.as_bytes().to_vec().into())
        }
        Kind::Of(EdmType::Int32) => write!(Int32Type, ValueRef::Int32(v) => v),
        Kind::Of(EdmType::Int64) => write!(Int64Type, ValueRef::Int64(v) => v),
        Kind::Of(EdmType::String) => write!(ByteArrayType, ValueRef::String(v) => text(v)),
    }
}

fn write_values<T: DataType>(
    writer: &mut ColumnWriter<'_>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    // Only present values are written. The definition level says for each row whether it has one.
    let (mut present, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        present.extend(value);
    }
    get_typed_column_writer_mut::<T>(writer)
        .write_batch(&present, Some(&levels), None)
        .map(drop)
}

/// An error of the file, or of standard output.
fn failed(error: ParquetError) -> Failure {
    match error {
        // The library wraps an error of the output. Standard output that is closed must stay no failure.
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => (*error).into(),
            Err(error) => Failure::failed(format!("the Parquet file cannot be written: {error}")),
        },
        error => Failure::failed(format!("the Parquet file cannot be written: {error}")),
    }
}
