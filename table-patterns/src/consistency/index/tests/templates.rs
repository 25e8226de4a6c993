use table_core::model::{Entity, TableName};
use table_core::store::Result;

use crate::index::{Index, Placement};

fn row(template: &str, entity: &Entity) -> Result<Option<String>> {
    let index = Index::keyed("i", Placement::SamePartition, "", template)?;
    let entries = index.entries(&TableName::new("People").unwrap(), entity)?;
    Ok(entries.first().map(|entry| entry.location.key.row().to_owned()))
}

#[test]
fn templates_combine_text_and_properties() {
    let e = Entity::new("p", "r1").unwrap().with("Name", "a_b").with("Age", 7).with("Big", -1i64);
    let row = |template: &str| row(template, &e).unwrap();
    assert_eq!(row("x_{Name}_{RowKey}").unwrap(), "x_a~5Fb_r1");
    assert_eq!(row("{Age:03}-{Name}").unwrap(), "007-a_b");
    assert_eq!(row("{Missing}_{RowKey}"), None);
    assert!(row("{Big}_").unwrap() < row("{Big}_{RowKey}").unwrap());
    assert!(row("{Name#16}{Name}").unwrap().ends_with("a_b"));
}

/// Neither as a plain part nor as a shard.
#[test]
fn a_template_refuses_an_encrypted_property() -> Result<()> {
    let e = Entity::new("p", "r1").unwrap().with_encrypted("Secret", "s3cr3t").with_encrypted("RowKey2", 1);
    for template in ["{Secret}_{RowKey}", "{Secret#16}{RowKey}", "{RowKey2:03}"] {
        let error = row(template, &e).unwrap_err().to_string();
        assert!(error.contains("blind index") && !error.contains("s3cr3t"), "{error}");
    }
    assert_eq!(row("x_{RowKey}", &e)?.unwrap(), "x_r1");
    let index = Index::keyed("i", Placement::SamePartition, "{Secret#16}", "{Age:03}_{RowKey}")?;
    assert_eq!(index.with_condition("Kind eq 'x'")?.properties_read()?, ["Secret", "Age", "Kind"]);
    Ok(())
}
