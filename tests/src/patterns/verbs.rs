//! Each verb means the same on every typed handle: its result, its errors by kind, its versions, its effect on
//! undeclared properties, and its requests.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use table_core::adapter::{Metered, RequestMeter};
use table_core::model::{ETag, IfMatch};
use table_core::query::{Continuation, Position, Query};
use table_core::store::{Error, ErrorKind, Outcome, Result, TableStore};
use table_core::typed::{SerdeTable, TableEntity as _};
use table_patterns::Table;
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::TimeSlices;
use table_patterns::wide::WideTable;

use super::handles::{
    BOOK, Cell, GroupOf, Indexed, Large, LargeIndexed, Note, Plain, Recorded, Spread, Typed,
    Untyped, Verbs, Wider, World,
};
use crate::Harness;
use crate::wrappers::HookedStore;

/// Runs a check on every handle.
macro_rules! every_handle {
    ($harness:expr, $check:ident) => {
        $check::<Table<Untyped>>($harness).await;
        $check::<Table<Typed>>($harness).await;
        $check::<GroupOf<Typed>>($harness).await;
        $check::<Table<Indexed>>($harness).await;
        $check::<GroupOf<Indexed>>($harness).await;
        $check::<WideTable<Wider>>($harness).await;
        $check::<Table<Large>>($harness).await;
        $check::<GroupOf<Large>>($harness).await;
        $check::<Table<LargeIndexed>>($harness).await;
        $check::<GroupOf<LargeIndexed>>($harness).await;
        $check::<Table<Recorded>>($harness).await;
        $check::<SpreadTable<Spread>>($harness).await;
        $check::<TimeSlices<Untyped>>($harness).await;
        $check::<SerdeTable<Plain>>($harness).await;
    };
}

/// A handle with counted requests.
struct Fixture<H> {
    handle: H,
    meter: RequestMeter,
}

impl<H: Verbs> Fixture<H> {
    async fn new(harness: &Harness) -> Self {
        let (world, meter) = (World::new(harness).await, RequestMeter::new());
        let metered: Arc<dyn TableStore> =
            Arc::new(Metered::new(Arc::clone(&world.store), meter.clone()));
        let handle = H::open(&world.through(metered)).await;
        Self { handle, meter }
    }

    /// Runs a verb and asserts the cost that its cell states.
    async fn with_cost<T>(
        &self,
        verb: &str,
        cell: Cell,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let (done, cost) = self.meter.measure(work).await;
        assert_eq!(
            Cell::Requests(cost.total()),
            cell,
            "{}: requests of {verb}",
            H::NAME
        );
        done
    }

    /// Inserts a note, sets the undeclared property, and returns the note as it is read.
    async fn insert_with_unknown(&self, number: u32) -> H::Of {
        let note = H::Of::new(number, "old", Some("text"));
        self.handle.insert(&note).await.expect("a new note");
        self.handle.set_unknown(number, 7).await;
        self.read(number).await
    }

    async fn read(&self, number: u32) -> H::Of {
        self.handle.get_existing(number).await.expect("the note")
    }

    /// Asserts the stored note and its version, and the value of the undeclared property.
    async fn assert_stored(
        &self,
        verb: &str,
        wanted: &H::Of,
        version: Option<ETag>,
        unknown: Option<i32>,
    ) {
        let name = H::NAME;
        assert!(version.is_some(), "{name}: {verb} answers the new version");
        assert_eq!(
            self.read(wanted.number()).await,
            wanted.clone().with_etag(version),
            "{name}: {verb}"
        );
        assert_eq!(
            self.handle.unknown_value(wanted.number()).await,
            unknown,
            "{name}: {verb}, the undeclared property"
        );
    }

    /// Asserts that a write was refused and left the note unchanged.
    async fn assert_refused<T: std::fmt::Debug>(
        &self,
        verb: &str,
        before: &H::Of,
        done: Result<T>,
    ) -> Error {
        let error = done.expect_err(verb);
        assert_eq!(
            &self.read(before.number()).await,
            before,
            "{}: {verb}",
            H::NAME
        );
        error
    }
}

fn is_invalid(error: &Error) -> bool {
    matches!(error.root().kind(), ErrorKind::Misuse(_))
}

const fn is_supported(cell: Cell) -> bool {
    matches!(cell, Cell::Requests(_))
}

fn stale() -> IfMatch {
    IfMatch::Exactly(ETag::from(
        "W/\"datetime'2001-01-01T00%3A00%3A00.0000000Z'\"",
    ))
}

async fn inserts_of<H: Verbs>(harness: &Harness) {
    let fixture = Fixture::<H>::new(harness).await;
    // The first write may add the type to the manifest.
    fixture
        .handle
        .insert(&H::Of::new(2, "two", None))
        .await
        .expect("a new note");
    let note = H::Of::new(1, "one", Some("text"));
    let version = fixture
        .with_cost("insert", H::CELLS.insert, fixture.handle.insert(&note))
        .await
        .expect("a new note");
    fixture.assert_stored("insert", &note, version, None).await;
    let stored = fixture.read(1).await;
    let again = fixture.handle.insert(&H::Of::new(1, "two", None)).await;
    let error = fixture.assert_refused("insert", &stored, again).await;
    assert!(error.is_already_exists(), "{}: {error}", H::NAME);
    assert!(
        error.to_string().contains("('book', '000001')"),
        "{}: {error}",
        H::NAME
    );
}

/// `insert` adds an entity, and refuses an existing entity.
pub(crate) async fn insert_refuses_an_existing_entity(harness: &Harness) {
    every_handle!(harness, inserts_of);
}

async fn upserts_of<H: Verbs>(harness: &Harness) {
    let fixture = Fixture::<H>::new(harness).await;
    let first = H::Of::new(1, "one", Some("text"));
    let version = fixture.handle.upsert(&first).await.expect("a new note");
    fixture.assert_stored("upsert", &first, version, None).await;
    let old = fixture.insert_with_unknown(2).await;
    let new = H::Of::new(2, "new", None);
    let version = fixture
        .with_cost("upsert", H::CELLS.upsert, fixture.handle.upsert(&new))
        .await
        .expect("an upsert");
    assert_ne!(version.as_ref(), old.etag(), "{}", H::NAME);
    fixture.assert_stored("upsert", &new, version, None).await;
}

/// `upsert` writes the entity and removes all other stored properties.
pub(crate) async fn upsert_replaces_all_properties(harness: &Harness) {
    every_handle!(harness, upserts_of);
}

async fn merging_upserts_of<H: Verbs>(harness: &Harness) {
    let fixture = Fixture::<H>::new(harness).await;
    let first = H::Of::new(1, "one", Some("text"));
    let version = fixture
        .handle
        .insert_or_merge(&first)
        .await
        .expect("a new note");
    fixture
        .assert_stored("insert_or_merge", &first, version, None)
        .await;
    fixture.insert_with_unknown(2).await;
    let new = H::Of::new(2, "new", None);
    let work = fixture.handle.insert_or_merge(&new);
    let done = fixture
        .with_cost("insert_or_merge", H::CELLS.insert_or_merge, work)
        .await;
    let merged = H::Of::new(2, "new", Some("text"));
    fixture
        .assert_stored(
            "insert_or_merge",
            &merged,
            done.expect("an upsert"),
            Some(7),
        )
        .await;
}

/// `insert_or_merge` writes the properties of the entity and keeps all other stored properties.
pub(crate) async fn insert_or_merge_keeps_other_properties(harness: &Harness) {
    every_handle!(harness, merging_upserts_of);
}

async fn replacements_of<H: Verbs>(harness: &Harness) {
    let fixture = Fixture::<H>::new(harness).await;
    let old = fixture.insert_with_unknown(1).await;
    let without = fixture.handle.replace(&H::Of::new(1, "new", None)).await;
    let error = fixture.assert_refused("replace", &old, without).await;
    assert!(is_invalid(&error), "{}: {error}", H::NAME);
    assert!(error.to_string().contains("ETag"), "{}: {error}", H::NAME);

    let new = H::Of::new(1, "new", None).with_etag(old.etag().cloned());
    let done = fixture
        .with_cost("replace", H::CELLS.replace, fixture.handle.replace(&new))
        .await;
    let version = done.expect("no other writer");
    assert_ne!(version.as_ref(), old.etag(), "{}", H::NAME);
    fixture
        .assert_stored("replace", &new, version.clone(), None)
        .await;

    let stored = fixture.read(1).await;
    let error = fixture
        .assert_refused("replace", &stored, fixture.handle.replace(&new).await)
        .await;
    assert!(error.is_precondition_failed(), "{}: {error}", H::NAME);
    let newer = H::Of::new(1, "newer", None).with_etag(version);
    let version = fixture
        .handle
        .replace(&newer)
        .await
        .expect("under the version that was answered");
    fixture
        .assert_stored("replace", &newer, version, None)
        .await;

    fixture.handle.set_unknown(1, 7).await;
    let any = H::Of::new(1, "any", Some("text"));
    let work = fixture.handle.replace_if(&any, IfMatch::Any);
    let version = fixture
        .with_cost("replace_if", H::CELLS.replace_any, work)
        .await
        .expect("the row exists");
    fixture
        .assert_stored("replace_if", &any, version, None)
        .await;
    let stored = fixture.read(1).await;
    let error = fixture
        .assert_refused(
            "replace_if",
            &stored,
            fixture.handle.replace_if(&newer, stale()).await,
        )
        .await;
    assert!(error.is_precondition_failed(), "{}: {error}", H::NAME);

    for version in [IfMatch::Any, stale()] {
        let missing = fixture
            .handle
            .replace_if(&H::Of::new(9, "new", None), version)
            .await
            .expect_err("none");
        assert!(missing.is_entity_not_found(), "{}: {missing}", H::NAME);
        assert!(
            missing.to_string().contains("('book', '000009')"),
            "{}: {missing}",
            H::NAME
        );
    }
    assert_eq!(fixture.handle.get(9).await.expect("an answer"), None);
}

/// `replace` needs the version that was read. It removes all other stored properties and returns the new
/// version.
pub(crate) async fn replace_needs_the_version_that_was_read(harness: &Harness) {
    every_handle!(harness, replacements_of);
}

async fn stored_of<H: Verbs>(harness: &Harness) {
    let fixture = Fixture::<H>::new(harness).await;
    let known = |cell: Cell| match cell {
        Cell::Requests(requests) => Some(Cell::Requests(1 + requests)),
        Cell::Absent(_) => None,
    };
    if let Some(cell) = known(H::CELLS.replace_stored) {
        fixture.insert_with_unknown(1).await;
        let new = H::Of::new(1, "new", None);
        let done = fixture
            .with_cost(
                "replace_stored",
                cell,
                fixture.handle.replace_stored(1, &new),
            )
            .await;
        fixture
            .assert_stored(
                "replace_stored",
                &new,
                done.expect("no other writer"),
                Some(7),
            )
            .await;
    }
    if let Some(cell) = known(H::CELLS.delete_stored) {
        fixture.insert_with_unknown(2).await;
        fixture
            .with_cost("delete_stored", cell, fixture.handle.delete_stored(2))
            .await
            .expect("no other writer");
        assert_eq!(
            fixture.handle.get(2).await.expect("an answer"),
            None,
            "{}",
            H::NAME
        );
    }
}

/// `replace_stored` and `delete_stored` do not read the entity again. `replace_stored` keeps undeclared properties, as `update` does.
pub(crate) async fn replace_stored_and_delete_stored_read_nothing(harness: &Harness) {
    every_handle!(harness, stored_of);
}

async fn merges_of<H: Verbs>(harness: &Harness) {
    let fixture = Fixture::<H>::new(harness).await;
    let old = fixture.insert_with_unknown(1).await;
    let patch = |title| H::Of::patch_of(Some(title));
    let version = IfMatch::Exactly(old.etag().expect("a version").clone());
    let done = fixture
        .with_cost(
            "merge",
            H::CELLS.merge,
            fixture.handle.merge(1, &patch("a"), version.clone()),
        )
        .await;
    let done = done.expect("no other writer");
    fixture
        .assert_stored("merge", &H::Of::new(1, "a", Some("text")), done, Some(7))
        .await;

    let stored = fixture.read(1).await;
    let error = fixture
        .assert_refused(
            "merge",
            &stored,
            fixture.handle.merge(1, &patch("b"), version).await,
        )
        .await;
    assert!(error.is_precondition_failed(), "{}: {error}", H::NAME);
    let patched = patch("c");
    let work = fixture.handle.merge(1, &patched, IfMatch::Any);
    let done = fixture
        .with_cost("merge, any", H::CELLS.merge_any, work)
        .await
        .expect("the row exists");
    fixture
        .assert_stored("merge", &H::Of::new(1, "c", Some("text")), done, Some(7))
        .await;

    let (empty, stored) = (H::Of::patch_of(None), fixture.read(1).await);
    let nothing = fixture.with_cost(
        "merge of nothing",
        Cell::Requests(0),
        fixture.handle.merge(1, &empty, IfMatch::Any),
    );
    let nothing = nothing.await;
    assert!(
        is_invalid(&fixture.assert_refused("merge", &stored, nothing).await),
        "{}",
        H::NAME
    );
    for version in [IfMatch::Any, stale()] {
        let missing = fixture
            .handle
            .merge(9, &patch("d"), version)
            .await
            .expect_err("the entity is missing");
        assert!(missing.is_entity_not_found(), "{}: {missing}", H::NAME);
    }
    assert_eq!(fixture.handle.get(9).await.expect("an answer"), None);
}

/// `merge` writes the fields of the patch and keeps all other stored properties.
pub(crate) async fn merge_keeps_other_properties(harness: &Harness) {
    every_handle!(harness, merges_of);
}

async fn updates_of<H: Verbs>(harness: &Harness) {
    if !is_supported(H::CELLS.update) {
        return;
    }
    let fixture = Fixture::<H>::new(harness).await;
    let old = fixture.insert_with_unknown(1).await;
    let title = |note: &mut H::Of| {
        note.set_title("new");
        Ok(())
    };
    let done = fixture
        .with_cost("update", H::CELLS.update, fixture.handle.update(1, title))
        .await
        .expect("an update");
    assert_ne!(done.etag(), old.etag(), "{}", H::NAME);
    let (wanted, version) = (H::Of::new(1, "new", Some("text")), done.etag().cloned());
    assert_eq!(
        done,
        wanted.clone().with_etag(version.clone()),
        "{}: the stored entity",
        H::NAME
    );
    fixture
        .assert_stored("update", &wanted, version, Some(7))
        .await;

    let stored = fixture.read(1).await;
    let refuses = |_: &mut H::Of| Err(Error::application("not today"));
    let error = fixture
        .assert_refused("update", &stored, fixture.handle.update(1, refuses).await)
        .await;
    assert!(
        error.to_string().contains("not today"),
        "{}: {error}",
        H::NAME
    );
    let moves = |note: &mut H::Of| {
        note.set_number(2);
        Ok(())
    };
    let error = fixture
        .assert_refused("update", &stored, fixture.handle.update(1, moves).await)
        .await;
    assert!(is_invalid(&error), "{}: {error}", H::NAME);
    let missing = fixture
        .handle
        .update(9, title)
        .await
        .expect_err("the entity is missing");
    assert!(missing.is_entity_not_found(), "{}: {missing}", H::NAME);
    assert!(
        missing.to_string().contains("('book', '000009')"),
        "{}: {missing}",
        H::NAME
    );
    assert_eq!(fixture.handle.get(9).await.expect("an answer"), None);
}

/// `update` reads, changes and writes the entity. It keeps undeclared properties and returns the stored entity.
pub(crate) async fn update_keeps_undeclared_properties(harness: &Harness) {
    every_handle!(harness, updates_of);
}

/// Returns a handle, and a note. The hook of the store runs the write of another writer before a request that
/// the test sets later.
async fn with_another_writer<H: Verbs>(
    harness: &Harness,
    act: impl FnOnce(H) -> BoxFuture<'static, ()>,
) -> (H, Arc<HookedStore>, RequestMeter) {
    let world = World::new(harness).await;
    let other = H::open(&world).await;
    other
        .insert(&H::Of::new(1, "old", Some("text")))
        .await
        .expect("a new note");
    let store = Arc::new(HookedStore::unarmed(Arc::clone(&world.store), act(other)));
    let (meter, inner) = (
        RequestMeter::new(),
        Arc::clone(&store) as Arc<dyn TableStore>,
    );
    let metered: Arc<dyn TableStore> = Arc::new(Metered::new(inner, meter.clone()));
    (H::open(&world.through(metered)).await, store, meter)
}

async fn conflicts_of<H: Verbs>(harness: &Harness) {
    if !H::REPEATS_UPDATES {
        return;
    }
    // The write is the last request of an update.
    let Cell::Requests(requests) = H::CELLS.update else {
        return;
    };
    let title = |note: &mut H::Of| {
        note.set_title("new");
        Ok(())
    };
    let change = |other: H| async move { other.set_unknown(1, 8).await }.boxed();
    let (handle, store, meter) = with_another_writer::<H>(harness, change).await;
    store.arm(requests);
    let (done, cost) = meter.measure(handle.update(1, title)).await;
    assert_eq!(
        done.expect("the second attempt").title(),
        "new",
        "{}",
        H::NAME
    );
    assert_eq!(
        cost.total(),
        2 * requests,
        "{}: the requests of two attempts",
        H::NAME
    );
    assert_eq!(
        handle.unknown_value(1).await,
        Some(8),
        "{}: the property of the other writer",
        H::NAME
    );

    let (handle, store, meter) = with_another_writer::<H>(harness, change).await;
    let handle = handle.with_attempts(1);
    store.arm(requests);
    let (lost, cost) = meter.measure(handle.update(1, title)).await;
    let lost = lost.expect_err("another writer changed the entity");
    assert!(lost.is_precondition_failed(), "{}: {lost}", H::NAME);
    assert_eq!(
        cost.total(),
        requests,
        "{}: the requests of one attempt",
        H::NAME
    );
    assert_eq!(
        handle.get_existing(1).await.expect("the note").title(),
        "old",
        "{}",
        H::NAME
    );

    let removal = |other: H| async move { other.remove(1).await }.boxed();
    let (handle, store, _) = with_another_writer::<H>(harness, removal).await;
    store.arm(requests);
    let gone = handle
        .update(1, title)
        .await
        .expect_err("the table is gone");
    assert!(gone.is_entity_not_found(), "{}: {gone}", H::NAME);
    assert_eq!(handle.get(1).await.expect("an answer"), None, "{}", H::NAME);
}

/// An update that meets a concurrent change reads the new state and tries again, as often as its attempts
/// allow. It fails with "not found" if the other writer removed the entity.
pub(crate) async fn update_tries_again_after_a_conflict(harness: &Harness) {
    every_handle!(harness, conflicts_of);
}

async fn deletes_of<H: Verbs>(harness: &Harness) {
    let fixture = Fixture::<H>::new(harness).await;
    let (first, _) = (
        fixture.insert_with_unknown(1).await,
        fixture.insert_with_unknown(2).await,
    );
    let error = fixture
        .assert_refused("delete", &first, fixture.handle.delete(1, stale()).await)
        .await;
    assert!(error.is_precondition_failed(), "{}: {error}", H::NAME);
    let version = IfMatch::Exactly(first.etag().expect("a version").clone());
    fixture
        .with_cost("delete", H::CELLS.delete, fixture.handle.delete(1, version))
        .await
        .expect("no other writer");
    fixture
        .handle
        .delete(2, IfMatch::Any)
        .await
        .expect("the row exists");
    for number in [1, 2] {
        assert_eq!(
            fixture.handle.get(number).await.expect("an answer"),
            None,
            "{}",
            H::NAME
        );
        for version in [IfMatch::Any, stale()] {
            let missing = fixture
                .handle
                .delete(number, version)
                .await
                .expect_err("the table is gone");
            assert!(missing.is_entity_not_found(), "{}: {missing}", H::NAME);
        }
    }
    if is_supported(H::CELLS.delete_if_exists) {
        fixture.insert_with_unknown(3).await;
        let gone = fixture.handle.delete_if_exists(3);
        assert!(
            fixture
                .with_cost("delete_if_exists", H::CELLS.delete_if_exists, gone)
                .await
                .expect("an answer")
        );
        assert_eq!(
            fixture.handle.get(3).await.expect("an answer"),
            None,
            "{}",
            H::NAME
        );
        assert!(
            !fixture.handle.delete_if_exists(3).await.expect("an answer"),
            "{}",
            H::NAME
        );
    }
}

/// `delete` removes the entity in one version or in any. `delete_if_exists` returns whether the entity existed.
pub(crate) async fn delete_needs_a_version_or_any(harness: &Harness) {
    every_handle!(harness, deletes_of);
}

async fn reads_of<H: Verbs>(harness: &Harness) {
    if !is_supported(H::CELLS.get) {
        return;
    }
    let fixture = Fixture::<H>::new(harness).await;
    fixture.insert_with_unknown(1).await;
    let found = fixture
        .with_cost("get", H::CELLS.get, fixture.handle.get(1))
        .await
        .expect("an answer");
    let existing = fixture
        .with_cost("get_existing", H::CELLS.get, fixture.handle.get_existing(1))
        .await;
    assert_eq!(found, Some(existing.expect("the note")), "{}", H::NAME);
    assert_eq!(
        found.as_ref().and_then(Note::text),
        Some("text"),
        "{}",
        H::NAME
    );
    assert_eq!(
        fixture.handle.get(9).await.expect("an answer"),
        None,
        "{}",
        H::NAME
    );
    let missing = fixture
        .handle
        .get_existing(9)
        .await
        .expect_err("the entity is missing");
    assert!(missing.is_entity_not_found(), "{}: {missing}", H::NAME);
    assert!(
        missing.to_string().contains("('book', '000009')"),
        "{}: {missing}",
        H::NAME
    );
}

/// `get` returns `None` for a missing entity, `get_existing` an error.
pub(crate) async fn get_returns_none_and_get_existing_an_error(harness: &Harness) {
    every_handle!(harness, reads_of);
}

async fn moves_of<H: Verbs>(harness: &Harness) {
    if !is_supported(H::CELLS.move_to) {
        return;
    }
    let (fixture, elsewhere) = (
        Fixture::<H>::new(harness).await,
        Fixture::<H>::new(harness).await,
    );
    let of = &fixture.handle;
    fixture.insert_with_unknown(1).await;
    fixture
        .with_cost("move_to", H::CELLS.move_to, of.move_to(1, of, 2))
        .await
        .expect("a move");
    assert_eq!(of.get(1).await.expect("an answer"), None, "{}", H::NAME);
    let version = fixture.read(2).await.etag().cloned();
    fixture
        .assert_stored(
            "move_to",
            &H::Of::new(2, "old", Some("text")),
            version,
            Some(7),
        )
        .await;

    of.insert(&H::Of::new(3, "three", None))
        .await
        .expect("a new note");
    of.move_to(3, of, 2).await.expect(H::NAME);
    let version = fixture.read(2).await.etag().cloned();
    fixture
        .assert_stored("move_to", &H::Of::new(2, "three", None), version, None)
        .await;
    let missing = of
        .move_to(3, of, 2)
        .await
        .expect_err("the source is missing");
    assert!(missing.is_entity_not_found(), "{}: {missing}", H::NAME);
    assert_eq!(missing.outcome(), Outcome::NotApplied, "{}", H::NAME);
    let stored = fixture.read(2).await;
    let error = fixture
        .assert_refused("move_to", &stored, of.move_to(2, of, 2).await)
        .await;
    assert!(is_invalid(&error), "{}: {error}", H::NAME);

    of.move_to(2, &elsewhere.handle, 12).await.expect(H::NAME);
    assert_eq!(of.get(2).await.expect("an answer"), None, "{}", H::NAME);
    assert_eq!(elsewhere.read(12).await.title(), "three", "{}", H::NAME);
}

/// `move_to` moves the whole entity and replaces an entity at the target key.
pub(crate) async fn move_to_moves_the_whole_entity(harness: &Harness) {
    every_handle!(harness, moves_of);
}

async fn deleted_sources_of<H: Verbs>(harness: &Harness) {
    if !is_supported(H::CELLS.move_to) {
        return;
    }
    for is_elsewhere in [false, true] {
        for request in 1.. {
            let world = World::new(harness).await;
            let other = H::open(&world).await;
            other
                .insert(&H::Of::new(1, "old", Some("text")))
                .await
                .expect("a new note");
            let remove = async move { other.remove(1).await };
            let hooked = Arc::new(HookedStore::unarmed(Arc::clone(&world.store), remove));
            let store = || Arc::clone(&hooked) as Arc<dyn TableStore>;
            let here = H::open(&world.through(store())).await;
            let target = if is_elsewhere {
                World::new(harness).await
            } else {
                world
            };
            let there = H::open(&target.through(store())).await;
            hooked.arm(request);
            let moved = here.move_to(1, &there, 12).await;
            let what = format!(
                "{}: deleted before request {request}, elsewhere: {is_elsewhere}",
                H::NAME
            );
            if !hooked.has_run() {
                hooked.arm(u64::MAX);
                moved.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(there.get(12).await.expect("an answer").is_some(), "{what}");
                break;
            }
            let error = moved.expect_err(&what);
            assert!(error.is_entity_not_found(), "{what}: {error}");
            assert_eq!(
                there.get(12).await.expect("an answer"),
                None,
                "{what}: a copy"
            );
            assert_eq!(here.get(1).await.expect("an answer"), None, "{what}");
        }
    }
}

/// If another writer deletes the source before any request of a move, the move fails with *entity not found*, and nothing is at the target.
pub(crate) async fn a_move_of_a_deleted_entity_leaves_no_copy(harness: &Harness) {
    every_handle!(harness, deleted_sources_of);
}

async fn queries_of<H: Verbs>(harness: &Harness) {
    let Cell::Requests(requests) = H::CELLS.query else {
        return;
    };
    let fixture = Fixture::<H>::new(harness).await;
    for number in 1..=25 {
        fixture
            .handle
            .insert(&H::Of::new(number, "n", None))
            .await
            .expect("a new note");
    }
    let numbers = |notes: &[H::Of]| notes.iter().map(Note::number).collect::<Vec<_>>();
    let all: Vec<u32> = (1..=25).collect();
    assert_eq!(
        numbers(&fixture.handle.all(None).await.expect("notes")),
        all,
        "{}",
        H::NAME
    );
    assert_eq!(
        numbers(&fixture.handle.streamed(None).await.expect("notes")),
        all,
        "{}",
        H::NAME
    );
    for limit in [0, 7, 25, 100] {
        let wanted = &all[..limit.min(25)];
        assert_eq!(
            numbers(&fixture.handle.all(Some(limit)).await.expect("notes")),
            wanted,
            "{}",
            H::NAME
        );
        assert_eq!(
            numbers(&fixture.handle.streamed(Some(limit)).await.expect("notes")),
            wanted,
            "{}",
            H::NAME
        );
        assert_eq!(
            fixture.handle.count(Some(limit)).await.expect("a count"),
            wanted.len(),
            "{}",
            H::NAME
        );
    }
    assert_eq!(
        fixture.handle.count(None).await.expect("a count"),
        25,
        "{}",
        H::NAME
    );
    let first = fixture
        .handle
        .first()
        .await
        .expect("an answer")
        .expect("a note");
    assert_eq!(first.number(), 1, "{}", H::NAME);

    // A page can have another limit than the page before it.
    let first = fixture
        .with_cost(
            "page",
            Cell::Requests(requests),
            fixture.handle.page(4, None),
        )
        .await
        .expect("a page");
    assert_eq!(numbers(&first.items), [1, 2, 3, 4], "{}", H::NAME);
    let (mut read, mut from) = (numbers(&first.items), first.continuation);
    while let Some(continuation) = from {
        let text = continuation.to_string();
        let page = fixture
            .handle
            .page(10, Some(&text.parse().expect("a continuation")))
            .await
            .expect("a page");
        assert!(page.items.len() <= 10, "{}", H::NAME);
        read.extend(numbers(&page.items));
        from = page.continuation;
    }
    assert_eq!(read, all, "{}", H::NAME);

    let position = Position {
        first: BOOK.to_owned(),
        second: Some("000003".to_owned()),
    };
    let table = harness.unused_name();
    let foreign = Continuation::new(harness.profile(), &table, &Query::new(), position);
    let error = fixture
        .handle
        .page(4, Some(&foreign))
        .await
        .expect_err("another query's");
    assert!(
        matches!(error.root().kind(), ErrorKind::InvalidContinuation(_)),
        "{}: {error}",
        H::NAME
    );
}

/// A limit ends streams, collections and counts. A page with a limit has a continuation token.
pub(crate) async fn limits_end_queries_and_bound_pages(harness: &Harness) {
    every_handle!(harness, queries_of);
}

/// Returns the rows of the table in `docs/verbs.md`.
pub fn documented_verbs() -> String {
    let mut text = String::new();
    let handles = [
        (
            <Table<Untyped> as Verbs>::NAME,
            <Table<Untyped> as Verbs>::CELLS,
        ),
        (
            <Table<Typed> as Verbs>::NAME,
            <Table<Typed> as Verbs>::CELLS,
        ),
        (GroupOf::<Typed>::NAME, GroupOf::<Typed>::CELLS),
        (
            <Table<Indexed> as Verbs>::NAME,
            <Table<Indexed> as Verbs>::CELLS,
        ),
        (GroupOf::<Indexed>::NAME, GroupOf::<Indexed>::CELLS),
        (
            <WideTable<Wider> as Verbs>::NAME,
            <WideTable<Wider> as Verbs>::CELLS,
        ),
        (
            <Table<Large> as Verbs>::NAME,
            <Table<Large> as Verbs>::CELLS,
        ),
        (
            <Table<LargeIndexed> as Verbs>::NAME,
            <Table<LargeIndexed> as Verbs>::CELLS,
        ),
        (
            <Table<Recorded> as Verbs>::NAME,
            <Table<Recorded> as Verbs>::CELLS,
        ),
        (
            <SpreadTable<Spread> as Verbs>::NAME,
            <SpreadTable<Spread> as Verbs>::CELLS,
        ),
        (
            <TimeSlices<Untyped> as Verbs>::NAME,
            <TimeSlices<Untyped> as Verbs>::CELLS,
        ),
        (
            <SerdeTable<Plain> as Verbs>::NAME,
            <SerdeTable<Plain> as Verbs>::CELLS,
        ),
    ];
    let names = handles.map(|(name, _)| name);
    text.push_str(&format!(
        "| verb | {} |\n|---|{}\n",
        names.join(" | "),
        "---|".repeat(names.len())
    ));
    for (row, (verb, _)) in handles[0].1.all().into_iter().enumerate() {
        let cells = handles.map(|(_, cells)| match cells.all()[row].1 {
            Cell::Requests(requests) => requests.to_string(),
            Cell::Absent(_) => "–".to_owned(),
        });
        text.push_str(&format!("| {verb} | {} |\n", cells.join(" | ")));
    }
    text
}
