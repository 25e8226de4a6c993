use super::{FEED_COUNTER, Key, MANIFEST_PARTITION, SYSTEM_PREFIX};

/// The starts of the RowKeys of [parts](RowKind::Part) in a partition of entities, after [`SYSTEM_PREFIX`]: rows of wide entities, chunks of
/// lists, and changes of a feed.
const PART_ROWS: [&str; 4] = ["w_", "wh_", "l_", "changes~"];
/// The partitions of [parts](RowKind::Part), after [`SYSTEM_PREFIX`]: cursors of a feed's consumers, and checkpoints of copies.
const PART_PARTITIONS: [&str; 2] = ["changes", "copy"];

/// The kind of a row, by its key. A server decides by it which rights a write of the row needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// An entity, or an index entry: the key is that of a user or of an index definition.
    Entity,
    /// A part of entities, or the position of a job that reads them: a row of a wide entity, a chunk of a list, a change, a counter, a
    /// cursor, a checkpoint. It needs the rights that the entity needs.
    Part,
    /// A row that programs obey: the manifest, journal rows, abort rows, records of transactions. It can make a program with more rights
    /// write other rows, so it needs full rights to the table.
    Control,
}

impl Key {
    /// Whether this is the key of a row of a manifest or a feed. Its properties are those of the library, whatever names users give to theirs.
    pub(crate) fn is_of_manifest_or_feed(&self) -> bool {
        let rest = self.row().strip_prefix(FEED_COUNTER);
        [MANIFEST_PARTITION, FEED_COUNTER].contains(&self.partition())
            || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('~'))
    }

    /// Returns what the row with this key is to the library.
    pub fn row_kind(&self) -> RowKind {
        // The partition decides first: a row of the manifest's partition is a control row, whatever its RowKey.
        let is_part = match (
            self.partition().strip_prefix(SYSTEM_PREFIX),
            self.row().strip_prefix(SYSTEM_PREFIX),
        ) {
            (None, None) => return RowKind::Entity,
            (Some(partition), _) => PART_PARTITIONS.contains(&partition),
            (None, Some(row)) => {
                self.row() == FEED_COUNTER || PART_ROWS.iter().any(|start| row.starts_with(start))
            }
        };
        // A system row of a later version is not known here: it counts as a row that programs obey.
        if is_part {
            RowKind::Part
        } else {
            RowKind::Control
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_system_rows_are_control_rows() {
        let kind = |partition: &str, row: &str| Key::new(partition, row).unwrap().row_kind();
        for (partition, row) in [("p", "r"), ("~", "~"), ("p~~", "r~~manifest"), ("", "")] {
            assert_eq!(kind(partition, row), RowKind::Entity, "{partition} {row}");
        }
        for (partition, row) in [
            ("p", "~~w_r~~000"),
            ("p", "~~l_1"),
            ("p", "~~changes"),
            ("~~changes", "x"),
            ("~~copy", "~~j_1"),
        ] {
            assert_eq!(kind(partition, row), RowKind::Part, "{partition} {row}");
        }
        for (partition, row) in [
            ("~~manifest", "table"),
            ("~~manifest", "~~w_r~~000"),
            ("p", "~~j_1"),
            ("p", "~~later"),
            ("p", "~~"),
            ("p", "~~changesets"),
            ("~~", "r"),
            ("~~t_1", "r"),
            ("~~changes_of_a_later_version", "r"),
            ("~~~", "r"),
        ] {
            assert_eq!(kind(partition, row), RowKind::Control, "{partition} {row}");
        }
    }
}
