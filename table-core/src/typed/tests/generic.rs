//! Generics, raw identifiers, and scopes that shadow what generated code must not rely on.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::typed::{FromEntity, Property, TableEntity};

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Envelope")]
struct Envelope<T: Serialize + DeserializeOwned, P: Property, const N: usize>
where
    T: Clone,
{
    #[partition_key]
    topic: String,
    #[row_key]
    r#type: u32,
    #[entity(json)]
    body: T,
    plain: P,
    r#match: Option<P>,
    #[entity(skip)]
    marks: Marks<N>,
}

#[derive(Debug, PartialEq)]
struct Marks<const N: usize>([u8; N]);

impl<const N: usize> Default for Marks<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

#[test]
fn a_generic_entity_reads_back() {
    type Words = Envelope<Vec<String>, i64, 3>;
    let envelope = Words {
        topic: "a".into(),
        r#type: 1,
        body: vec!["x".into()],
        plain: 7,
        r#match: None,
        marks: Marks::default(),
    };
    let entity = envelope.to_entity().unwrap();
    assert_eq!(Words::from_entity(entity).unwrap(), envelope);
    assert_eq!(Words::key("a", 1).unwrap(), envelope.entity_key().unwrap());
    assert_eq!(Words::SCHEMA.row_key, "{type}");
    let patch = Words::patch().plain(8).body(vec![]).r#match(1);
    assert_eq!(
        format!("{patch:?}"),
        r#"EnvelopePatch{"body", "plain", "match"}"#
    );
    assert!(
        Words::MATCH
            .eq(3)
            .and(Words::PLAIN.gt(1))
            .into_filter()
            .is_ok()
    );
}
