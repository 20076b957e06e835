//! Objects by path, with the rules of the API server for resourceVersion and UID.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::fault::drop_field;
use crate::resource::Target;

/// Changes kept for watches; tests make some hundred.
const HISTORY: usize = 10_000;

/// All objects.
#[derive(Debug, Default)]
pub(crate) struct Store {
    objects: BTreeMap<String, Value>,
    history: Vec<Change>,
    /// Watches from before this resourceVersion are told 410.
    oldest: u64,
    version: u64,
    uids: u64,
    absent: BTreeSet<String>,
}

/// One change of an object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub(crate) kind: &'static str,
    pub(crate) path: String,
    pub(crate) object: Value,
}

/// Why a request is refused: the HTTP status, the reason and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub code: u16,
    /// One word, such as `NotFound`.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// A write as requested.
#[derive(Debug, Default)]
pub(crate) struct Write<'a> {
    pub(crate) object: Value,
    /// See [`crate::Fault::DropFields`].
    pub(crate) dropped: &'a [&'static str],
}

impl Refusal {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into() }
    }

    fn not_found(path: &str) -> Self {
        Self::new(404, "NotFound", format!("{path} not found"))
    }
}

impl Store {
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    pub(crate) fn is_installed(&self, plural: &str) -> bool {
        !self.absent.contains(plural)
    }

    pub(crate) fn set_installed(&mut self, plural: &str, is_installed: bool) {
        if is_installed {
            self.absent.remove(plural);
        } else {
            self.absent.insert(plural.to_owned());
        }
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.objects.get(path).cloned()
    }

    pub(crate) fn find(&self, target: &Target) -> Result<Value, Refusal> {
        let path = target.path();
        self.get(&path).ok_or_else(|| Refusal::not_found(&path))
    }

    pub(crate) fn below(&self, prefix: &str) -> Vec<Value> {
        let below = self.objects.iter().filter(|(path, _)| path.starts_with(prefix));
        below.map(|(_, object)| object.clone()).collect()
    }

    /// The objects of a collection.
    pub(crate) fn list(&self, collection: &Target) -> Vec<Value> {
        let within = self
            .objects
            .values()
            .filter(|object| Target::of(object).is_some_and(|target| collection.contains(&target)));
        within.cloned().collect()
    }

    pub(crate) fn changes_after(&self, version: u64) -> impl Iterator<Item = &Change> {
        self.history.iter().filter(move |change| change.version > version)
    }

    /// Creates or replaces without any precondition.
    pub(crate) fn put(&mut self, object: Value) -> Result<Value, Refusal> {
        let target = Target::of(&object).ok_or_else(|| {
            let message = "expected apiVersion and kind of a served resource, and a name";
            Refusal::new(400, "BadRequest", message)
        })?;
        let path = target.path();
        match self.get(&path) {
            None => Ok(self.insert(path, object)),
            Some(old) => {
                let mut object = object;
                keep_identity(&mut object, &old);
                Ok(self.store(path, "MODIFIED", object))
            }
        }
    }

    pub(crate) fn remove(&mut self, prefix: &str) -> usize {
        let paths = self.objects.keys().filter(|path| path.starts_with(prefix));
        let paths: Vec<String> = paths.cloned().collect();
        paths.iter().for_each(|path| self.take_out(path));
        paths.len()
    }

    pub(crate) fn create(&mut self, target: &Target, write: Write<'_>) -> Result<Value, Refusal> {
        let Write { mut object, dropped } = write;
        if !object.is_object() {
            return Err(Refusal::new(400, "BadRequest", "expected an object"));
        }
        object["apiVersion"] = json!(target.resource.api_version);
        object["kind"] = json!(target.resource.kind);
        if let Some(namespace) = &target.namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        let Some(of) = Target::of(&object) else {
            return Err(Refusal::new(422, "Invalid", "metadata.name: required"));
        };
        let path = of.path();
        if self.objects.contains_key(&path) {
            return Err(Refusal::new(409, "AlreadyExists", format!("{path} already exists")));
        }
        dropped.iter().for_each(|pointer| drop_field(&mut object, pointer));
        Ok(self.insert(path, object))
    }

    pub(crate) fn replace(&mut self, target: &Target, write: Write<'_>) -> Result<Value, Refusal> {
        let Write { mut object, dropped } = write;
        let path = target.path();
        let old = self.find(target)?;
        check_precondition(&path, &old, &object, "/metadata/resourceVersion")?;
        check_precondition(&path, &old, &object, "/metadata/uid")?;
        dropped.iter().for_each(|pointer| drop_field(&mut object, pointer));
        object["apiVersion"] = json!(target.resource.api_version);
        object["kind"] = json!(target.resource.kind);
        if target.is_status {
            let status = object.get("status").cloned();
            object = old.clone();
            set(&mut object, "status", status);
        } else if target.resource.has_status {
            set(&mut object, "status", old.get("status").cloned());
        }
        check_allocation(&path, &old, &object)?;
        keep_identity(&mut object, &old);
        fill_in(&mut object);
        if object == old {
            return Ok(old);
        }
        Ok(self.store(path, "MODIFIED", object))
    }

    /// A JSON merge patch; a strategic one with `$patch: delete` in its lists, of which it knows
    /// that entries are told apart by `name`, and no more: other lists are replaced.
    pub(crate) fn patch(&mut self, target: &Target, patch: &Value) -> Result<Value, Refusal> {
        let old = self.find(target)?;
        check_precondition(&target.path(), &old, patch, "/metadata/resourceVersion")?;
        check_precondition(&target.path(), &old, patch, "/metadata/uid")?;
        let mut object = old;
        merge(&mut object, patch);
        self.replace(target, Write { object, dropped: &[] })
    }

    pub(crate) fn delete(&mut self, target: &Target, options: &Value) -> Result<Value, Refusal> {
        let path = target.path();
        let old = self.find(target)?;
        let wanted = json!({ "metadata": options.get("preconditions") });
        check_precondition(&path, &old, &wanted, "/metadata/resourceVersion")?;
        check_precondition(&path, &old, &wanted, "/metadata/uid")?;
        self.take_out(&path);
        Ok(old)
    }

    fn insert(&mut self, path: String, mut object: Value) -> Value {
        self.uids += 1;
        let metadata = &mut object["metadata"];
        if metadata.get("uid").is_none() {
            metadata["uid"] = json!(format!("00000000-0000-4000-8000-{:012x}", self.uids));
        }
        metadata["creationTimestamp"] = json!(jiff::Timestamp::now().to_string());
        fill_in(&mut object);
        self.store(path, "ADDED", object)
    }

    fn store(&mut self, path: String, kind: &'static str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path.clone(), object.clone());
        self.remember(path, kind, object.clone());
        object
    }

    fn take_out(&mut self, path: &str) {
        if let Some(mut object) = self.objects.remove(path) {
            self.version += 1;
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
            self.remember(path.to_owned(), "DELETED", object);
        }
    }

    fn remember(&mut self, path: String, kind: &'static str, object: Value) {
        self.history.push(Change { version: self.version, kind, path, object });
        if self.history.len() > HISTORY {
            self.oldest = self.history.remove(0).version;
        }
    }
}

/// An allocation can be set and cleared, and nothing else.
fn check_allocation(path: &str, old: &Value, new: &Value) -> Result<(), Refusal> {
    let of = |object: &Value| object.pointer("/status/allocation").cloned();
    match (of(old), of(new)) {
        (Some(old), Some(new)) if old != new => {
            let message = format!("{path}: status.allocation: field is immutable");
            Err(Refusal::new(422, "Invalid", message))
        }
        _ => Ok(()),
    }
}

/// A field that the request names must be as stored.
fn check_precondition(
    path: &str,
    old: &Value,
    wanted: &Value,
    pointer: &str,
) -> Result<(), Refusal> {
    let wanted = wanted.pointer(pointer).filter(|wanted| !wanted.is_null());
    match wanted {
        Some(wanted) if old.pointer(pointer) != Some(wanted) => {
            let stored = old.pointer(pointer).unwrap_or(&Value::Null);
            let message = format!("{path}: {pointer} is {stored}, expected {wanted}");
            Err(Refusal::new(409, "Conflict", message))
        }
        _ => Ok(()),
    }
}

fn keep_identity(object: &mut Value, old: &Value) {
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "resourceVersion"] {
        let kept = old.pointer(&format!("/metadata/{field}")).cloned();
        set(&mut object["metadata"], field, kept);
    }
}

/// The API server notes when a taint of a slice was first seen.
fn fill_in(object: &mut Value) {
    if object["kind"] != "ResourceSlice" {
        return;
    }
    let devices = object.pointer_mut("/spec/devices").and_then(Value::as_array_mut);
    for device in devices.into_iter().flatten() {
        let taints = device.get_mut("taints").and_then(Value::as_array_mut);
        for taint in taints.into_iter().flatten() {
            if taint.get("timeAdded").is_none() {
                // Seconds, as stored there.
                let now = jiff::Timestamp::now().as_second();
                let now = jiff::Timestamp::from_second(now).unwrap_or_default();
                taint["timeAdded"] = json!(now.to_string());
            }
        }
    }
}

fn set(object: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => object[field] = value,
        None => remove(object, field),
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Value::Object(fields) = object {
        fields.shift_remove(field);
    }
}

/// RFC 7396.
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    for (field, value) in patch {
        let deleted = deleted_names(value);
        if !deleted.is_empty() {
            if let Some(Value::Array(entries)) = object.get_mut(field) {
                entries.retain(|entry| !deleted.contains(&&entry["name"]));
            }
        } else if value.is_null() {
            remove(object, field);
        } else {
            merge(&mut object[field.as_str()], value);
        }
    }
}

/// The names of the entries that a strategic merge patch deletes from a list.
fn deleted_names(value: &Value) -> Vec<&Value> {
    let entries = value.as_array().into_iter().flatten();
    entries.filter(|entry| entry["$patch"] == "delete").map(|entry| &entry["name"]).collect()
}
