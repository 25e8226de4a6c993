//! Derive macros for typed Table storage entities. Use them through `table_core::typed`.
//!
//! | derive | for | gives |
//! |---|---|---|
//! | [`TableEntity`](macro@TableEntity) | a struct | an entity with its keys, fields and patch; or a projection of one |
//! | [`EntityResolver`](macro@EntityResolver) | an enum over entities | reading a table of several types |
//! | [`PropertyGroup`](macro@PropertyGroup) | a struct | properties that entities flatten |
//! | [`Property`](macro@Property) | a newtype, a unit enum | a field's type |
//! | [`KeyPart`](macro@KeyPart) | a newtype, a unit enum | a part of a key |
//!
//! All mistakes of a type are reported at once, each where it stands, with the remedy.

mod attr;
mod case;
mod entity;
mod errors;
mod fields;
mod group;
mod index;
mod resolver;
mod rules;
mod template;
mod value;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Derives `TableEntity` and `FromEntity` for a struct, with `IndexedEntity` where it has `#[index(…)]`, or
/// `FromEntity` for a projection.
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
/// | attribute | meaning | unless given |
/// |---|---|---|
/// | `type = "…"` | the name that tells rows of the type from others | the table holds nothing else |
/// | `partition_key = "…"`, `row_key = "…"` | the template of the key, below | the field with `#[partition_key]`, `#[row_key]` |
/// | `rename_all = "PascalCase"` | names of properties from those of fields: `lowercase`, `UPPERCASE`, `PascalCase`, `camelCase`, `snake_case`, … | as in Rust |
/// | `discriminator = "Kind"` | the property that holds the `type` | `EntityType` |
/// | `discriminator(row_prefix)`, `discriminator(partition_prefix)` | the literal start of the key tells the type; no property | |
/// | `discriminator(none)` | the table holds nothing else, though there is a `type` | |
/// | `version = 2, previous = EmployeeV1` | an older version is read as `EmployeeV1` and converted by `From` | 1 |
/// | `projection_of = Employee` | some properties of an entity, for reading alone | an entity |
/// | `spread = 16`, `salt = "…"` | partitions are spread over buckets: `SpreadTable` of `table_patterns` | not |
/// | `wide` | may have more properties than one row holds: `WideTable` of `table_patterns` | one row |
/// | `crate = path` | where `table_core` is | `::table_core` |
///
/// # On a field
/// | attribute | meaning |
/// |---|---|
/// | `#[partition_key]`, `#[row_key]` | the field is the key; with `(format = "empid_{:06}")`, in a text |
/// | `#[etag]` on an `Option<ETag>` | the version that was read, which `replace` and `delete` send |
/// | `#[timestamp]` on an `Option<Ticks>` or `Option<DateTime<Utc>>` | when it was last written; never sent |
/// | `#[encrypt]` | encrypted before it leaves the program; needs an encrypting store; no comparisons |
/// | `#[large]`, `#[large(over = 4096)]` | a value over so many bytes (32,768) is in a blob: `LargeTable` of `table_patterns` |
/// | `#[entity(rename = "…")]` | the property's name |
/// | `#[entity(default)]`, `default = path` | what an absent property reads as |
/// | `#[entity(json)]` | stored as JSON text, by serde |
/// | `#[entity(with = Codec)]` | stored by a `Codec` of your own, or by `Padded` |
/// | `#[entity(flatten)]` | the properties of a `PropertyGroup` |
/// | `#[entity(rest)]` on `Properties` | all properties that have no field, kept when written back |
/// | `#[entity(skip)]` | not stored; `Default` when read |
///
/// A field of `Option` is an absent property when it is `None`. Any type that is a `Property` will do: integers,
/// `f32` and `f64`, `bool`, text, `Vec<u8>`, `Uuid`, times, and what derives it.
///
/// # Templates of keys
/// Literal text and fields in braces. What could not be read back does not compile: text must be last or be followed by
/// a separator, an `Option` is no part of a key. Widths and order: `docs/key-encoding.md` of the repository.
///
/// | part | meaning |
/// |---|---|
/// | `{id}` | the field: integers padded to the width of their type, times as .NET ticks, text escaped |
/// | `{id:06}` | an unsigned integer padded to six digits; a larger one is an error |
/// | a field of `Reverse<…>` | the largest first: the latest time, for a log tail |
/// | `{id#16}` | one of sixteen shards, by a hash of the field: in the keys of indexes |
/// | `{email:lower}` | text in lower case: in the keys of indexes, as all that follow |
/// | `{name:prefix(3)}` | the first three characters of a text |
/// | `{at:date}`, `{at:hour}` | the UTC day or hour of a time |
/// | `{placed:desc}` | the largest number or latest time first |
/// | `{tags[]}` | an entry for each element of a `Vec`, `BTreeSet` or `HashSet` of text, integers or `bool`, stored by `#[entity(json)]` |
/// | `{{`, `}}` | a brace |
///
/// They combine from left to right: `{email:lower:prefix(3)}`, `{email:lower#16}`, `{tags[]:lower}`. Lookups take values as the entity has
/// them and transform them: `T::by_email("Ken@X")`; a step of a prefix is `.name_prefix("Kwo")`.
///
/// # What it gives
/// - `T::key(…)` and `T::partition(…)`: typed keys from the fields of the templates.
/// - `T::row_prefix().a(…).b(…)`: typed prefixes and ranges of row keys, a step for each part.
/// - a constant for each field, `T::LAST_NAME`, for filters and selections.
/// - `T::patch()` and `TPatch`: a partial update, without the fields of keys and of indexes.
///
/// # `#[index(name, …)]`
/// A secondary index, kept by `IndexedTable` of `table_patterns`; any number of them.
///
/// | setting | meaning | unless given |
/// |---|---|---|
/// | `row_key = "…"` | the entry's row key; an entity whose `Option` in it is `None` has no entry | needed |
/// | `partition_key = "…"` | the entry's partition | the entity's |
/// | `table = "…"` | the entry's table | the entity's |
/// | `payload = reference`, `full`, `fields(a, b)` | what an entry holds beside the entity's key | `reference` |
/// | `shape = row`, `list`, `list(bytes = 65536, overflow = blob)`, `blob` | an entry each, or references of one key together | `row` |
/// | `unique = "partition"`, `"table"` | no two entities with one key of the index | any number |
/// | `where = "…"` | a filter over the entity as it is stored: others have no entry; names are those in the store | every entity |
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
/// Reads convert older rows; writes write the present version; an older program that meets a newer row is told.
/// **Filters and projections see what is stored**: `Customer::NAME.eq("Ada")` finds no row of version 1, and a
/// projection of `Customer` fails on one. `Table::upgrade_all` rewrites them.
#[proc_macro_derive(
    TableEntity,
    attributes(entity, index, partition_key, row_key, encrypt, large, etag, timestamp)
)]
pub fn table_entity(input: TokenStream) -> TokenStream {
    entity::derive(&parse_macro_input!(input as DeriveInput)).into()
}

/// Derives `FromEntity` for an enum over the types of a table: each variant holds one entity, `#[resolver(other)]` on
/// a variant of `Entity` takes every other row.
///
/// ```
/// # use table_core::prelude::*;
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
/// let rows = Table::<Row>::new(MemoryStore::new(), "Employees")?;
/// # let _ = rows;
/// # Ok(())
/// # }
/// ```
#[proc_macro_derive(EntityResolver, attributes(entity, resolver))]
pub fn entity_resolver(input: TokenStream) -> TokenStream {
    resolver::derive(&parse_macro_input!(input as DeriveInput)).into()
}

/// Derives `PropertyGroup` for a struct that entities flatten, by `#[entity(flatten)]` on a field. Its fields take the
/// attributes of an entity's, without keys.
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
#[proc_macro_derive(
    PropertyGroup,
    attributes(entity, partition_key, row_key, encrypt, large, etag, timestamp)
)]
pub fn property_group(input: TokenStream) -> TokenStream {
    group::derive(&parse_macro_input!(input as DeriveInput)).into()
}

/// Derives `Property` for a newtype, stored as what it holds, or a unit enum, stored as text: its variants' names, by
/// `#[entity(rename_all = "…")]` and `#[entity(rename = "…")]` on a variant.
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
///     #[entity(rename = "done")]
///     Closed,
/// }
/// ```
#[proc_macro_derive(Property, attributes(entity))]
pub fn property(input: TokenStream) -> TokenStream {
    value::derive_property(&parse_macro_input!(input as DeriveInput)).into()
}

/// Derives `KeyPart` for a newtype, encoded as what it holds, or a unit enum, encoded as text by the same rules as
/// [`Property`](macro@Property).
///
/// ```
/// # use table_core::prelude::*;
/// #[derive(KeyPart)]
/// struct EmployeeId(u32);
///
/// #[derive(TableEntity)]
/// struct Employee {
///     #[partition_key]
///     department: String,
///     #[row_key(format = "empid_{}")]
///     id: EmployeeId,
/// }
/// # fn main() -> table_core::Result<()> {
/// assert_eq!(Employee::key("Sales", EmployeeId(7))?.key().row(), "empid_0000000007");
/// # Ok(())
/// # }
/// ```
#[proc_macro_derive(KeyPart, attributes(entity))]
pub fn key_part(input: TokenStream) -> TokenStream {
    value::derive_key_part(&parse_macro_input!(input as DeriveInput)).into()
}
