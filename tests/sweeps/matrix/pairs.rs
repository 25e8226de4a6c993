//! Two programs that store one type in one table in different layouts. The second program to write is refused before
//! anything is written, or both can write, or the first one is refused from then on.

use table_patterns::Table;
use table_patterns::spread::SpreadTable;
use table_patterns::wide::WideTable;

use crate::backends::{Embedded, Emulated, Memory, Served};
use crate::world::{
    Backends, Handle, Indexed, Large, LargeIndexed, Plain, Spread, TABLE, Thing as _, Wide, World,
};

/// What happens when a second program writes the type in its layout.
#[derive(Clone, Copy, Debug)]
enum Second {
    /// Both programs write and read.
    Writes,
    /// The second program writes, and adds its layout and its indexes to the manifest.
    Extends,
    /// The second program writes. The first one did not register its rows, and is refused from then on.
    TakesOver(&'static str),
    /// The second program is refused by an error that contains these words. The first one goes on.
    Refused(&'static str),
}
use Second::{Extends, Refused, TakesOver, Writes};

const INDEX: Second = Refused("has the index");
const BLOBS: Second = Refused("with large values of text in blobs, and this program");
const WIDE: Second = Refused("is stored as wide entities of several rows, and this program");
const SPREAD: Second = Refused("is stored as rows spread over 4 buckets, and this program");
const ONE_ROW: Second = Refused("is stored as rows of one entity each");

/// The first program, and what happens to the second: plain, indexed, large, large and indexed, wide, spread.
macro_rules! pairs {
    ($($layout:ident: $first:ty, $second:expr;)*) => {
        macro_rules! on {
            ($store:ident, $backend:expr) => {
                mod $store {
                    use super::*;

                    const BACKENDS: Backends = || Box::new($backend);

                    $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $layout() {
                        programs::<$first>(BACKENDS, $second).await;
                    })*
                }
            };
        }

        on!(memory, Memory);
        on!(embedded, Embedded::new());
        on!(azurite, Emulated::new(&[]));
        on!(served, Served);
    };
}

pairs! {
    plain: Table<Plain>, [
        Writes, Extends, TakesOver("with large values of text in blobs"), Extends, TakesOver("wide entities"), TakesOver("4 buckets"),
    ];
    indexed: Table<Indexed>, [Writes, Writes, Refused("uses the property 'text'"), Refused("uses the property 'text'"), INDEX, INDEX];
    large: Table<Large>, [BLOBS, BLOBS, Writes, Extends, ONE_ROW, ONE_ROW];
    large_and_indexed: Table<LargeIndexed>, [BLOBS, BLOBS, Writes, Writes, INDEX, INDEX];
    wide: WideTable<Wide>, [WIDE, WIDE, WIDE, WIDE, Writes, WIDE];
    spread: SpreadTable<Spread>, [SPREAD, SPREAD, SPREAD, SPREAD, SPREAD, Writes];
}

async fn programs<A: Handle>(backends: Backends, second: [Second; 6]) {
    let [plain, indexed, large, large_indexed, wide, spread] = second;
    pair::<A, Table<Plain>>(backends, plain).await;
    pair::<A, Table<Indexed>>(backends, indexed).await;
    pair::<A, Table<Large>>(backends, large).await;
    pair::<A, Table<LargeIndexed>>(backends, large_indexed).await;
    pair::<A, WideTable<Wide>>(backends, wide).await;
    pair::<A, SpreadTable<Spread>>(backends, spread).await;
}

async fn pair<A: Handle, B: Handle>(backends: Backends, second: Second) {
    let what = std::any::type_name::<B>();
    let world = World::new(backends, false).await;
    let first = A::open(&world).await;
    first.put(&A::Of::new("p", 1)).await.unwrap();
    let before = world.rows().await;
    let written: table_core::Result<B> = async {
        let handle = B::open_in(&world, TABLE).await?;
        handle.put(&B::Of::new("p", 2)).await?;
        Ok(handle)
    }
    .await;
    match (second, written) {
        (Refused(words), written) => {
            let Err(error) = written else {
                panic!("{what} writes")
            };
            let error = error.to_string();
            assert!(error.contains(words), "{what}: {error}");
            assert_eq!(world.rows().await, before, "{what} wrote something");
            put(&first, 3).await.unwrap();
            assert_read(&first, 1).await;
        }
        (_, Err(error)) => panic!("{what}: {error}"),
        (Writes, Ok(handle)) => {
            put(&first, 3).await.unwrap();
            assert_read(&first, 1).await;
            assert_read(&first, 2).await;
            assert_read(&handle, 2).await;
            assert_read(&handle, 3).await;
        }
        // Its own indexes are not built yet.
        (Extends, Ok(_)) => assert_ne!(world.rows().await, before, "{what} wrote nothing"),
        (TakesOver(words), Ok(handle)) => {
            assert_read(&handle, 2).await;
            let before = world.rows().await;
            let error = put(&first, 3).await.unwrap_err().to_string();
            assert!(error.contains(words), "after {what}: {error}");
            assert_eq!(
                world.rows().await,
                before,
                "the first program wrote something after {what}"
            );
        }
    }
}

async fn put<H: Handle>(handle: &H, r: u32) -> table_core::Result<()> {
    handle.put(&H::Of::new("p", r)).await
}

async fn assert_read<H: Handle>(handle: &H, r: u32) {
    let what = std::any::type_name::<H>();
    let read = handle.read(&H::Of::key_of("p", r)).await.unwrap();
    assert_eq!(read, Some(H::Of::new("p", r)), "{what}");
}
