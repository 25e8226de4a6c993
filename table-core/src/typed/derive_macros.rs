//! The derive macros. Their documentation is here because its examples need this crate.

/// Derives `TableEntity` and `FromEntity` for a struct. For a
/// projection, derives only `FromEntity`.
///
/// ```
/// use table_core::prelude::*;
///
/// #[derive(TableEntity)]
/// #[entity(type = "Employee", rename_all = "PascalCase", row_key = "empid_{id:06}")]
/// struct Employee {
///     #[partition_key]
///     department: String,
///     id: u32,
///     #[entity(rename = "Surname")]
///     last_name: String,
///     age: Option<i32>,
///     #[entity(default)]
///     active: bool,
///     #[entity(json)]
///     skills: Vec<String>,
///     #[etag]
///     etag: Option<ETag>,
/// }
///
/// # fn main() -> table_core::Result<()> {
/// let key = Employee::key("Sales", 223)?;
/// assert_eq!(key.key().row(), "empid_000223");
/// let hundreds = Employee::row_prefix().id(100)..Employee::row_prefix().id(300);
/// let older = Employee::AGE.gt(40).and(Employee::LAST_NAME.starts_with("K"));
/// let patch = Employee::patch().age(42);
/// # let _ = (hundreds, older, patch);
/// # Ok(())
/// # }
/// ```
///
/// # On the struct: `#[entity(…)]`
/// | attribute | meaning | default |
/// |---|---|---|
/// | `type = "…"` | name that identifies the type's rows | the table holds only this type |
/// | `partition_key = "…"`, `row_key = "…"` | key template, see below | the field with `#[partition_key]`, `#[row_key]` |
/// | `rename_all = "PascalCase"` | derives property names from field names: `lowercase`, `UPPERCASE`, `PascalCase`, `camelCase`, `snake_case`, … | field names as in Rust |
/// | `discriminator = "Kind"` | property that stores the `type` | `EntityType` |
/// | `discriminator(row_prefix)`, `discriminator(partition_prefix)` | the literal start of the key identifies the type, without a property: letters and digits and then one other character, as in `empid_` | |
/// | `discriminator(none)` | the table holds only this type, although it has a `type` | |
/// | `version = 2, previous = EmployeeV1` | reads older rows as `EmployeeV1` and converts them by `From` | 1 |
/// | `min_reader = 2` | programs of version 2 and later read the rows of this version as their own | the version |
/// | `projection_of = Employee` | some properties of an entity, for reading only | an entity |
/// | `spread = 16`, `salt = "…"` | spreads partitions over buckets: `SpreadTable` of `table_patterns` | not spread |
/// | `feed` | records each change in the transaction of its write: `changes` of `table_patterns` | no feed |
/// | `wide` | allows more properties than one row holds: `WideTable` of `table_patterns` | one row |
/// | `crate = path` | path of `table_core` | `::table_core` |
///
/// # On a field
/// | attribute | meaning |
/// |---|---|
/// | `#[partition_key]`, `#[row_key]` | the field is the key; with `(format = "empid_{:06}")`, within a text; `spread` and `salt` may be given here |
/// | `#[etag]` on an `Option<ETag>` | the ETag that was read; `replace` and `delete` send it |
/// | `#[timestamp]` on an `Option<Ticks>` or `Option<DateTime<Utc>>` | time of the last write; never sent |
/// | `#[expires]` on a `DateTime<Utc>`, a `Ticks`, or an `Option` of one | reads leave the entity out from this time on, and a sweep removes it: `Upkeep` of `table_patterns` |
/// | `#[deleted_at]`, `#[deleted_at(keep_days = 90)]` on an `Option` of a time | `soft_delete` sets the time and reads leave the entity out; `restore` brings it back within the days (default 30), then a sweep removes it |
/// | `#[encrypt]` | encrypted before it is sent; needs an encrypting store; cannot be compared |
/// | `#[large]`, `#[large(over = 4096)]` | values with more bytes (default 32,768) are stored in a blob: `Database::with_blobs` of `table_patterns` |
/// | `#[entity(rename = "…")]` | name of the property |
/// | `#[entity(alias = "…")]`, any number | a former name: a row without the property has it under this name. Filters and indexes know the name only |
/// | `#[entity(default)]`, `default = path` | value for an absent property |
/// | `#[entity(json)]` | stored as JSON text, by serde |
/// | `#[entity(text)]` | stored as the text of `Display`, read by `FromStr`: decimal numbers, URLs, versions |
/// | `#[entity(with = Codec)]` | stored by your own `Codec`, by `Padded`, or an `Option` by `Optional<Codec>` |
/// | `#[entity(flatten)]`, `flatten(prefix = "Home")` | the properties of a `PropertyGroup`, with a prefix in their names |
/// | `#[entity(split)]` | a long text, `Vec<u8>` or JSON is stored in several properties of the row; filters, patches and projections do not have it |
/// | `#[entity(rest)]` on `Properties` | all properties without a field; kept when written back |
/// | `#[entity(skip)]` | not stored; `Default` when read |
///
/// A field of `Option` that is `None` is an absent property. A field can have any type that implements
/// `Property`: integers, `f32` and `f64`, `bool`, text, `Vec<u8>`, `Uuid`, times, and types that derive it.
///
/// # Key templates
/// A template consists of literal text and fields in braces. Templates that could not be parsed back do not
/// compile: text must be the last part or be followed by a separator, and an `Option` cannot be a key part.
/// Widths and order are in `docs/key-encoding.md` of the repository.
///
/// | part | meaning |
/// |---|---|
/// | `{id}` | the field: integers padded to the width of their type, times as .NET ticks, text escaped |
/// | `{id:06}` | an unsigned integer padded to six digits; a larger value is an error |
/// | a field of `Reverse<…>` | descending order: the latest time first, for a log tail |
/// | `{id#16}` | one of sixteen shards, by a hash of the field; only in keys of indexes |
/// | `{email:lower}` | text in lower case; this and all following parts only in keys of indexes |
/// | `{name:prefix(3)}` | the first three characters of a text |
/// | `{at:date}`, `{at:hour}` | the UTC day or hour of a time |
/// | `{placed:desc}` | the largest number or latest time first |
/// | `{tags[]}` | an entry per element of a `Vec`, `BTreeSet` or `HashSet` of text, integers or `bool`, stored by `#[entity(json)]` |
/// | `{{`, `}}` | a brace |
///
/// Transforms combine from left to right: `{email:lower:prefix(3)}`, `{email:lower#16}`, `{tags[]:lower}`.
/// Lookups take values as the entity has them and transform them: `T::by_email("Ken@X")`. The step of a
/// prefix is `.name_prefix("Kwo")`.
///
/// # Generated items
/// - `T::key(…)` and `T::partition(…)`: typed keys from the fields of the templates.
/// - `T::row_prefix().a(…).b(…)`: typed prefixes and ranges of RowKeys, with a step per part; `T::partition_prefix()` the same of
///   PartitionKeys.
/// - a constant per field, such as `T::LAST_NAME`, for filters and selections.
/// - `T::patch()` and `TPatch`: a partial update, without the fields of keys and of indexes.
///
/// # `#[index(name, …)]`
/// Declares a secondary index, which `Table` of `table_patterns` maintains. A type can have any number
/// of indexes.
///
/// | setting | meaning | default |
/// |---|---|---|
/// | `row_key = "…"` | RowKey of the entry; an entity whose `Option` in it is `None` has no entry | required |
/// | `partition_key = "…"` | PartitionKey of the entry | the entity's |
/// | `table = "…"` | table of the entry | the entity's |
/// | `payload = reference`, `full`, `fields(a, b)` | what an entry holds in addition to the entity's key | `reference` |
/// | `shape = row`, `list`, `list(bytes = 65536, overflow = blob)`, `blob` | a row per entry, or the references of one key together | `row` |
/// | `shape = summary`, `summary(sum(a), min(b), max(c))` | one row per key in the entities' partition: the number of entities, sums of integers, smallest and largest values; without `payload` and `unique` | |
/// | `unique = "partition"`, `"table"` | at most one entity per key of the index | not unique |
/// | `where = "…"` | a filter over the stored entity, with stored names; other entities have no entry | every entity |
///
/// ```
/// # use table_core::prelude::*;
/// #[derive(TableEntity)]
/// #[entity(type = "Order", rename_all = "PascalCase")]
/// #[index(email, partition_key = "email_{email:lower#16}", row_key = "{email:lower}_{shop}_{id}")]
/// #[index(newest, row_key = "newest_{placed:desc}_{id}", where = "Status eq 'open'")]
/// #[index(tag, partition_key = "tag_{tags[]}", row_key = "{shop}_{id}")]
/// struct Order {
///     #[partition_key]
///     shop: String,
///     #[row_key(format = "order_{:06}")]
///     id: u32,
///     email: String,
///     placed: Ticks,
///     status: String,
///     #[entity(json)]
///     tags: Vec<String>,
/// }
/// ```
///
/// # Versions
/// ```
/// # use table_core::prelude::*;
/// #[derive(TableEntity)]
/// #[entity(type = "Customer")]
/// struct CustomerV1 {
///     #[partition_key]
///     country: String,
///     #[row_key]
///     number: u32,
///     full_name: String,
/// }
///
/// #[derive(TableEntity)]
/// #[entity(type = "Customer", version = 2, previous = CustomerV1)]
/// struct Customer {
///     #[partition_key]
///     country: String,
///     #[row_key]
///     number: u32,
///     name: String,
/// }
///
/// impl From<CustomerV1> for Customer {
///     fn from(old: CustomerV1) -> Self {
///         Self { country: old.country, number: old.number, name: old.full_name }
///     }
/// }
/// ```
/// Reads convert older rows, and writes write the current version. An older program that reads a newer row
/// gets an error. **Filters and projections see the stored properties**: `Customer::NAME.eq("Ada")` finds no
/// row of version 1, and a projection of `Customer` fails on one. `upgrade_all` of every table rewrites such rows.
///
/// A version that only adds what earlier programs may ignore says so: with `#[entity(version = 3, min_reader = 2)]` rows hold
/// `EntityReader` in addition to `EntityVersion`, and a program of version 2 reads them as its own. Its `update` and `merge` keep the properties that it
/// does not know, and the version of the row; its `replace` and `upsert` replace the row, as everywhere, and what version 3 added is gone.
pub use table_derive::TableEntity;

/// Derives `FromEntity` for an enum over the types of a table. Each variant holds one entity;
/// `#[resolver(other)]` on a variant of `Entity` takes all other rows.
///
/// ```
/// # use table_core::prelude::*;
/// # use table_core::typed::PlainTable;
/// # #[derive(TableEntity)]
/// # #[entity(type = "Employee")]
/// # struct Employee { #[partition_key] department: String, #[row_key] id: u32 }
/// # #[derive(TableEntity)]
/// # #[entity(type = "Review")]
/// # struct Review { #[partition_key] department: String, #[row_key] year: u16 }
/// #[derive(EntityResolver)]
/// enum Row {
///     Employee(Employee),
///     Review(Review),
///     #[resolver(other)]
///     Other(Entity),
/// }
/// # fn main() -> table_core::Result<()> {
/// let rows = PlainTable::<Row>::new(MemoryStore::new(), "Employees")?;
/// # let _ = rows;
/// # Ok(())
/// # }
/// ```
pub use table_derive::EntityResolver;

/// Derives `PropertyGroup` for a struct that entities flatten, with `#[entity(flatten)]` on a field. Its
/// fields take the attributes of entity fields, except attributes of keys.
///
/// ```
/// # use table_core::prelude::*;
/// #[derive(PropertyGroup)]
/// struct Address {
///     city: String,
///     street: Option<String>,
/// }
///
/// #[derive(TableEntity)]
/// struct Employee {
///     #[partition_key]
///     department: String,
///     #[row_key]
///     id: u32,
///     #[entity(flatten)]
///     home: Address,
/// }
/// let in_london = Employee::HOME.field(Address::CITY).eq("London");
/// # let _ = in_london;
/// ```
pub use table_derive::PropertyGroup;

/// Derives `Property` for a newtype, which is stored like its value, or for an enum without fields, which is stored as
/// text: the variant's name, subject to `#[entity(rename_all = "…")]`.
///
/// | attribute of a variant | meaning |
/// |---|---|
/// | `#[entity(rename = "…")]` | the text |
/// | `#[entity(alias = "…")]`, any number | a former text, for reading |
/// | `#[entity(other)]` | takes every value that no other variant has, which a later program may have written. `Other(String)` keeps the value and writes it back. A variant without a field loses the value, so a write of it is refused |
///
/// With `#[entity(integer)]` on the enum, each variant is stored as its number, an Int32: `Open = 1`. The variant for all other values is then
/// `Other(i32)`, and the enum needs `#[repr(i32)]`.
///
/// ```
/// # use table_core::prelude::*;
/// #[derive(Property)]
/// struct Metres(f64);
///
/// #[derive(Property)]
/// #[entity(rename_all = "lowercase")]
/// enum State {
///     Open,
///     #[entity(rename = "done", alias = "closed")]
///     Closed,
///     #[entity(other)]
///     Other(String),
/// }
///
/// #[derive(Property)]
/// #[entity(integer)]
/// enum Priority {
///     Low = 1,
///     High = 10,
/// }
/// ```
pub use table_derive::Property;
