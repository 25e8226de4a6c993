use super::{IndexDefinition, KeyTemplate, Placement};

/// Whether two indexes may have entries with the same key in the same table. `false` is certain; `true` may be wrong,
/// because only literal texts and lengths of the templates are compared.
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
        // The "other" table may be the entities' own table. A definition does not know the name of its own table.
        (Placement::OtherTable(_), _) | (_, Placement::OtherTable(_)) => true,
        _ => true,
    };
    let partitions = match (a.partition_key(), b.partition_key()) {
        (Some(a), Some(b)) => can_equal(a, b),
        // The PartitionKey of the entity may be any text.
        _ => true,
    };
    let rows = match (a.row_key(), b.row_key()) {
        (Some(a), Some(b)) => can_equal(a, b),
        // A function may return any key.
        _ => true,
    };
    same_table && partitions && rows
}

/// Whether two templates may give the same text. They cannot if their first or last literals or their lengths contradict
/// each other.
fn can_equal(a: &KeyTemplate, b: &KeyTemplate) -> bool {
    let starts = a.prefix().starts_with(b.prefix()) || b.prefix().starts_with(a.prefix());
    let ends = a.suffix().ends_with(b.suffix()) || b.suffix().ends_with(a.suffix());
    let lengths = match (a.width(), b.width()) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    starts && ends && lengths
}
