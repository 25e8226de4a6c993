//! What each verb of a handle costs.

/// The cost of a verb of a handle: requests to tables for an existing entity without concurrent writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Requests(u64),
    /// The handle does not have the verb, for this reason.
    Absent(&'static str),
}

pub(crate) const fn n(requests: u64) -> Cell {
    Cell::Requests(requests)
}

pub(crate) const NO_READS: Cell = Cell::Absent("a group writes, and reads nothing for its caller");
pub(crate) const NO_SCHEMA: Cell =
    Cell::Absent("its query returns values of serde, and a set operation writes entities");
pub(crate) const NOT_BOUND: Cell = Cell::Absent("`replace` knows all that it needs");

/// The cost of each verb of a handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells {
    pub(crate) insert: Cell,
    pub(crate) upsert: Cell,
    pub(crate) insert_or_merge: Cell,
    pub(crate) replace: Cell,
    /// `replace_if` with any version.
    pub(crate) replace_any: Cell,
    pub(crate) replace_stored: Cell,
    /// `merge` with the version that was read.
    pub(crate) merge: Cell,
    pub(crate) merge_any: Cell,
    pub(crate) update: Cell,
    pub(crate) delete: Cell,
    pub(crate) delete_stored: Cell,
    pub(crate) delete_if_exists: Cell,
    pub(crate) get: Cell,
    pub(crate) move_to: Cell,
    pub(crate) query: Cell,
    /// The write of both entities that a query finds.
    pub(crate) set_update: Cell,
    pub(crate) set_delete: Cell,
}

impl Cells {
    /// Names and cells, in the order of the documented table.
    pub(crate) fn all(self) -> [(&'static str, Cell); 17] {
        [
            ("insert", self.insert),
            ("upsert", self.upsert),
            ("insert_or_merge", self.insert_or_merge),
            ("replace", self.replace),
            ("replace_if, any", self.replace_any),
            ("replace_stored", self.replace_stored),
            ("merge", self.merge),
            ("merge, any", self.merge_any),
            ("update", self.update),
            ("delete", self.delete),
            ("delete_stored", self.delete_stored),
            ("delete_if_exists", self.delete_if_exists),
            ("get, get_existing", self.get),
            ("move_to", self.move_to),
            ("query, a page", self.query),
            ("query().update, 2 entities", self.set_update),
            ("query().delete, 2 entities", self.set_delete),
        ]
    }
}

/// No other type can be in the table: every write is one request.
pub(super) const PLAIN: Cells = Cells {
    insert: n(1),
    upsert: n(1),
    insert_or_merge: n(1),
    replace: n(1),
    replace_any: n(1),
    replace_stored: NOT_BOUND,
    merge: n(1),
    merge_any: n(1),
    update: n(2),
    delete: n(1),
    delete_stored: Cell::Absent("`delete` knows all that it needs"),
    delete_if_exists: n(1),
    get: n(1),
    move_to: n(3),
    query: n(1),
    set_update: n(2),
    set_delete: n(2),
};

/// A read precedes each write that keeps or checks stored properties.
pub(super) const READS: Cells = Cells {
    upsert: n(2),
    insert_or_merge: n(2),
    replace: n(2),
    replace_any: n(2),
    merge: n(2),
    merge_any: n(2),
    delete: n(2),
    delete_if_exists: n(2),
    move_to: n(4),
    ..PLAIN
};

/// A read of the row precedes each write, because the row refers to blobs.
pub(super) const LARGE: Cells = Cells {
    replace_stored: n(1),
    delete_stored: n(1),
    move_to: n(3),
    ..READS
};

/// A group reads nothing for its caller and returns only versions.
pub(super) const fn of_group(cells: Cells) -> Cells {
    Cells {
        delete_if_exists: NO_READS,
        get: NO_READS,
        move_to: NO_READS,
        query: NO_READS,
        set_update: NO_READS,
        set_delete: NO_READS,
        ..cells
    }
}
