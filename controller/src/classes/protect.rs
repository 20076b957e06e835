//! Keeps a class that claims use from going: a finalizer for as long as there is such a claim.

use std::collections::BTreeMap;

use lanemate_api::ResourceClass;
use lanemate_api::names::CLASS_PROTECTION;

use crate::id::Key;
use crate::index::Index;

/// The first claim, by namespace and name, that uses each ResourceClass: one that is allocated, or that an unfinished pod
/// names.
pub fn users(index: &Index) -> BTreeMap<String, Key> {
    let mut users = BTreeMap::<String, Key>::new();
    for claim in index.claims() {
        let key = &claim.id.key;
        let news = claim.classes.iter().filter(|class| {
            index.resource_class(class).is_some() && users.get(*class).is_none_or(|user| key < user)
        });
        let news: Vec<String> = news.cloned().collect();
        let is_used = || claim.grant.is_some() || index.users(key).next().is_some();
        if !news.is_empty() && is_used() {
            users.extend(news.into_iter().map(|class| (class, key.clone())));
        }
    }
    users
}

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
