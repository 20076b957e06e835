//! Keeps a class that claims use from going: a finalizer for as long as there is such a claim.

use lanemate_api::ResourceClass;
use lanemate_api::names::CLASS_PROTECTION;

/// True where the class is being deleted.
pub fn is_deleting(class: &ResourceClass) -> bool {
    class.metadata.deletion_timestamp.is_some()
}

/// True where the finalizer is there.
pub fn is_protected(class: &ResourceClass) -> bool {
    class.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == CLASS_PROTECTION)
}

/// The class with the finalizer, where claims begin to use it; without it, where none does any more; none where nothing
/// has to be written. The API server takes no new finalizer on what is being deleted.
pub fn with_protection(class: &ResourceClass, is_used: bool) -> Option<ResourceClass> {
    if is_protected(class) == is_used || (is_used && is_deleting(class)) {
        return None;
    }
    let mut class = class.clone();
    let finalizers = class.metadata.finalizers.get_or_insert_with(Vec::new);
    if is_used {
        finalizers.push(CLASS_PROTECTION.to_owned());
    } else {
        finalizers.retain(|finalizer| finalizer != CLASS_PROTECTION);
    }
    Some(class)
}
