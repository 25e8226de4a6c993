use super::{IndexDefinition, KeyTemplate, Placement};

/// Whether two indexes can have entries with the same key in the same table, as far as the templates tell: `false` is
/// certain, `true` is not.
///
/// ```
/// use table_core::manifest::{IndexDefinition, Placement, can_collide};
/// let index = |row: &str| IndexDefinition::keyed("i", Placement::SamePartition, None, row.parse().unwrap());
/// assert!(!can_collide(&index("email_{Email}"), &index("name_{Name}_{RowKey}")));
/// assert!(can_collide(&index("e_{Email}"), &index("e_{Name}_{RowKey}")));
/// ```
pub fn can_collide(a: &IndexDefinition, b: &IndexDefinition) -> bool {
    let same_table = match (&a.placement, &b.placement) {
        (Placement::OtherTable(a), Placement::OtherTable(b)) => a.as_str().eq_ignore_ascii_case(b.as_str()),
        // An index may be told to use the entities' own table by its name, which a definition does not know.
        (Placement::OtherTable(_), _) | (_, Placement::OtherTable(_)) => true,
        _ => true,
    };
    let partitions = match (a.partition_key(), b.partition_key()) {
        (Some(a), Some(b)) => can_equal(a, b),
        // The entity's own may be any text.
        _ => true,
    };
    let rows = match (a.row_key(), b.row_key()) {
        (Some(a), Some(b)) => can_equal(a, b),
        // A function may give any key.
        _ => true,
    };
    same_table && partitions && rows
}

/// Whether two templates can give the same text: not where their first or last literal texts or their lengths differ.
fn can_equal(a: &KeyTemplate, b: &KeyTemplate) -> bool {
    let starts = a.prefix().starts_with(b.prefix()) || b.prefix().starts_with(a.prefix());
    let ends = a.suffix().ends_with(b.suffix()) || b.suffix().ends_with(a.suffix());
    let lengths = match (a.width(), b.width()) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    starts && ends && lengths
}
