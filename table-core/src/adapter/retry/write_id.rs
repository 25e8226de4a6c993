use uuid::Uuid;

use super::job::Job;
use crate::engine;
use crate::model::{Entity, ValueRef};
use crate::query::Page;
use crate::store::{Error, Operation, Result, ServiceProfile};

pub use crate::model::WRITE_ID_PROPERTY;

/// The maximum text that an id adds to one operation of a group.
const JSON: &str = r#""_WriteId@odata.type":"Edm.Guid","_WriteId":"00000000-0000-0000-0000-000000000000","#;

/// Returns the limits that remain for the caller.
pub(super) fn caller_profile(mut profile: ServiceProfile) -> ServiceProfile {
    profile.entity_bytes -= engine::property_size(WRITE_ID_PROPERTY, ValueRef::Guid(Uuid::nil()));
    profile.group_bytes -= profile.group_operations * JSON.len();
    profile.custom_properties -= 1;
    profile
}

/// Sets an id on every entity that the job writes.
///
/// # Errors
/// Fails if the remaining limits leave no space for it in an entity.
pub(super) fn attach(job: &mut Job, profile: &ServiceProfile) -> Result<Uuid> {
    let id = Uuid::new_v4();
    let grouped = matches!(job, Job::Transact(_));
    for (index, operation) in job.operations_mut().iter_mut().enumerate() {
        let checked = attach_one(operation, id, profile);
        checked.map_err(|e| if grouped { Error::in_transaction(index, e) } else { e })?;
    }
    Ok(id)
}

fn attach_one(operation: &mut Operation, id: Uuid, profile: &ServiceProfile) -> Result<()> {
    if let Some(entity) = operation.entity_mut() {
        // An entity that was read past this adapter has the id of an earlier write. It must neither count for the
        // caller's limits nor stay.
        entity.properties_mut().remove(WRITE_ID_PROPERTY);
    }
    engine::check_operation(profile, operation)?;
    if let Some(entity) = operation.entity_mut() {
        entity.properties_mut().set(WRITE_ID_PROPERTY, id);
    }
    Ok(())
}

pub(super) fn carries(entity: Option<&Entity>, id: Uuid) -> bool {
    entity.and_then(|e| e.get(WRITE_ID_PROPERTY)) == Some(ValueRef::Guid(id))
}

pub(super) fn strip(mut entity: Entity) -> Entity {
    entity.properties_mut().remove(WRITE_ID_PROPERTY);
    entity
}

pub(super) fn strip_page(page: Page<Entity>) -> Page<Entity> {
    page.map(strip)
}
