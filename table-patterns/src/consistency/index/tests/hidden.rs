//! Lookups of a type that expires: hidden entities use up no limit.

use crate::index::tests::open_table;
use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_core::store::Result;

use crate::index::IndexOptions;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Session", rename_all = "PascalCase")]
#[index(reference, row_key = "reference_{name}_{id}")]
#[index(full, row_key = "full_{name}_{id}", payload = full)]
#[index(listed, row_key = "listed_{name}", shape = list)]
struct Session {
    #[partition_key]
    p: String,
    #[row_key(format = "{:02}")]
    id: u32,
    name: String,
    #[expires]
    until: Option<Ticks>,
}

#[tokio::test]
async fn a_count_with_a_limit_counts_past_hidden_entities() -> Result<()> {
    let sessions =
        open_table::<Session>(MemoryStore::new(), "Sessions", IndexOptions::local()).await?;
    for id in 0..10 {
        let until = (id < 5).then(|| "2013-01-01T00:00:00Z".parse().unwrap());
        sessions
            .insert(&Session {
                p: "p".to_owned(),
                id,
                name: "ken".to_owned(),
                until,
            })
            .await?;
    }
    for limit in 1..8 {
        let expected = limit.min(5);
        for page_size in [1, 3, 100] {
            let reference = sessions.by(Session::by_reference("p").name("ken"));
            assert_eq!(
                reference.page_size(page_size).limit(limit).count().await?,
                expected
            );
            let full = sessions.by(Session::by_full("p").name("ken"));
            assert_eq!(
                full.page_size(page_size).limit(limit).count().await?,
                expected
            );
            let listed = sessions.by(Session::by_listed("p").name("ken"));
            assert_eq!(
                listed.page_size(page_size).limit(limit).count().await?,
                expected
            );
            let lists = sessions.by(Session::by_listed("p"));
            assert_eq!(
                lists.page_size(page_size).limit(limit).count().await?,
                expected
            );
        }
    }
    Ok(())
}
