use super::PropertyGroup;
use super::derived::Encoder;
use crate::model::{Entity, Properties};
use crate::store::Result;

/// Properties without a key, for patterns that compute the keys. A struct that derives `PropertyGroup`, or
/// [`Properties`].
///
/// ```
/// use table_core::model::{Entity, ValueRef};
/// use table_core::typed::{PropertyGroup, Record};
///
/// #[derive(Debug, PartialEq, PropertyGroup)]
/// #[entity(rename_all = "PascalCase")]
/// struct Claim {
///     amount: i32,
/// }
///
/// let properties = Claim { amount: 40 }.to_properties()?;
/// assert_eq!(properties.get("Amount"), Some(ValueRef::Int32(40)));
/// let entity = Entity::new("ken", "claim_1")?.with("Amount", 40).with("By", "another program");
/// assert_eq!(Claim::read_from(&entity)?, Claim { amount: 40 });
/// # Ok::<(), table_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a record",
    note = "derive `PropertyGroup` for it: a struct of properties without a key"
)]
pub trait Record: Sized + Send + Sync + 'static {
    /// Converts to properties.
    ///
    /// # Errors
    /// Fails if a value cannot be stored.
    fn to_properties(&self) -> Result<Properties>;

    /// Returns the names of the properties that must be stored encrypted.
    fn encrypted() -> Vec<&'static str> {
        Vec::new()
    }

    /// Reads the record from an entity. Ignores properties that the record does not have.
    ///
    /// # Errors
    /// Fails if a property is missing or does not fit.
    fn read_from(entity: &Entity) -> Result<Self>;
}

impl<G: PropertyGroup> Record for G {
    fn to_properties(&self) -> Result<Properties> {
        let mut encoder = Encoder::new(std::any::type_name::<G>(), 0);
        encoder.group("", self)?;
        Ok(encoder.finish())
    }

    fn encrypted() -> Vec<&'static str> {
        G::PROPERTIES
            .iter()
            .filter(|p| p.encrypted)
            .map(|p| p.name)
            .collect()
    }

    fn read_from(entity: &Entity) -> Result<Self> {
        G::read(entity, std::any::type_name::<G>(), "")
    }
}

impl Record for Properties {
    fn to_properties(&self) -> Result<Properties> {
        Ok(self.clone())
    }

    fn read_from(entity: &Entity) -> Result<Self> {
        Ok(entity.properties().clone())
    }
}
