//! Walks documents and Lists, and sorts their objects into [`Objects`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{AllocationResult, ResourceClaim, ResourceClaimTemplate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lanemate_api::validation::ValidationError;
use lanemate_api::validation::claim::{validate_claim, validate_claim_template};
use lanemate_api::validation::format::{is_dns_label, is_dns_subdomain};
use lanemate_api::validation::slice::validate_slice;
use lanemate_driver::pending::{ClaimRef, PodRef, allocation_of};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::documents::{Place, each_document};
use super::kinds::{Kind, Verdict, list_items, verdict};
use super::typed::{self, TypeError, Typed};
use super::{BrokenClaim, FILE_BYTES_MAX, OBJECTS_MAX, Objects, ObjectsError};
use crate::input;

/// Lists in Lists; kubectl writes none, and one more costs nothing.
const LISTS_MAX: usize = 2;

/// Reads all files.
pub fn load(files: &[PathBuf], namespace: &str) -> Result<Objects, ObjectsError> {
    let mut reader = Reader {
        namespace,
        objects: Objects::default(),
        seen: BTreeMap::new(),
        unread: BTreeMap::new(),
    };
    for path in files {
        let file: Arc<str> = Arc::from(input::name(path));
        let text = input::text_of_at_most(path, FILE_BYTES_MAX)?;
        each_document(&file, &text, |place, value| reader.take(place, value, None, LISTS_MAX))?;
    }
    Ok(reader.finish())
}

struct Reader<'a> {
    /// Of objects that name none.
    namespace: &'a str,
    objects: Objects,
    /// Where each object was, by kind, namespace (empty for kinds without) and name.
    seen: BTreeMap<(Kind, String, String), Place>,
    /// How many objects of an unknown kind each file has: file, kind, apiVersion.
    unread: BTreeMap<(Arc<str>, String, String), usize>,
}

/// Who an object is.
struct Identity {
    kind: Kind,
    place: Place,
    namespace: String,
    name: String,
}

/// `apiVersion` and `kind` that a typed list gives to its items.
type Inherited<'a> = Option<(&'a str, &'a str)>;

impl Reader<'_> {
    /// Takes an object, or the items of a List. `lists` bounds the recursion.
    fn take(
        &mut self,
        place: Place,
        value: Value,
        inherited: Inherited<'_>,
        lists: usize,
    ) -> Result<(), ObjectsError> {
        if value.is_null() {
            return Ok(());
        }
        let Value::Object(mut object) = value else {
            let message = "expected an object with apiVersion and kind".to_owned();
            return Err(no_object(place, message));
        };
        let own = |field: &str| object.get(field).and_then(Value::as_str).map(str::to_owned);
        let inherited = inherited.unwrap_or_default();
        let api_version = own("apiVersion").unwrap_or_else(|| inherited.0.to_owned());
        let kind = own("kind").unwrap_or_else(|| inherited.1.to_owned());
        for (field, text) in [("apiVersion", &api_version), ("kind", &kind)] {
            if text.is_empty() {
                let message = format!("{field}: expected a string that names it");
                return Err(no_object(place, message));
            }
        }
        match (list_items(&kind), object.get_mut("items").map(Value::take)) {
            (Some(item), Some(Value::Array(items))) => self.take_items(
                &place,
                items,
                (!item.is_empty()).then_some((&api_version, item)),
                lists,
            ),
            (Some(""), _) => {
                let message = "items: expected a list of objects".to_owned();
                Err(no_object(place, message))
            }
            (_, items) => {
                if let Some(items) = items {
                    object.insert("items".to_owned(), items);
                }
                self.judge(place, Value::Object(object), api_version, kind)
            }
        }
    }

    fn take_items(
        &mut self,
        place: &Place,
        items: Vec<Value>,
        inherited: Inherited<'_>,
        lists: usize,
    ) -> Result<(), ObjectsError> {
        let Some(lists) = lists.checked_sub(1) else {
            let message = format!("more than {LISTS_MAX} Lists in one another");
            return Err(no_object(place.clone(), message));
        };
        for (index, item) in items.into_iter().enumerate() {
            let mut place = place.clone();
            let dot = if place.item.is_empty() { "" } else { "." };
            place.item += &format!("{dot}items[{index}]");
            self.take(place, item, inherited, lists)?;
        }
        Ok(())
    }

    fn judge(
        &mut self,
        place: Place,
        value: Value,
        api_version: String,
        kind: String,
    ) -> Result<(), ObjectsError> {
        match verdict(&api_version, &kind) {
            Verdict::Read(kind) => self.read(self.identity(kind, place, &value)?, &value),
            Verdict::OtherVersion(expected) => {
                let place = Box::new(place);
                Err(ObjectsError::OtherVersion { place, kind, found: api_version, expected })
            }
            Verdict::NotSupported => {
                let place = Box::new(place);
                Err(ObjectsError::NotSupported { place, kind, api_version })
            }
            Verdict::Skip => Ok(()),
            Verdict::Unknown => {
                *self.unread.entry((place.file, kind, api_version)).or_default() += 1;
                Ok(())
            }
        }
    }

    fn identity(&self, kind: Kind, place: Place, value: &Value) -> Result<Identity, ObjectsError> {
        let field = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let name = field("/metadata/name").to_owned();
        // Without a good name nothing can be said of an object.
        if !is_dns_subdomain(&name) {
            let found = value.pointer("/metadata/name").filter(|found| !found.is_null());
            let found = found.map(|found| format!(", found {found}")).unwrap_or_default();
            let message = format!("{}: metadata.name: expected a name{found}", kind.as_str());
            return Err(no_object(place, message));
        }
        let namespace = match field("/metadata/namespace") {
            _ if !kind.is_namespaced() => "",
            "" => self.namespace,
            namespace if is_dns_label(namespace) => namespace,
            other => {
                let kind = kind.as_str();
                let message =
                    format!("{kind}: metadata.namespace: expected a name, found {other:?}");
                return Err(no_object(place, message));
            }
        };
        Ok(Identity { kind, place, namespace: namespace.to_owned(), name })
    }

    fn read(&mut self, identity: Identity, value: &Value) -> Result<(), ObjectsError> {
        self.note(&identity)?;
        match identity.kind {
            Kind::ResourceSlice => {
                let slice = strict(&identity, value)?;
                validate_slice(&slice)
                    .map_err(|errors| identity.refuse(told(&errors).join("; ")))?;
                self.objects.slices.push(slice);
            }
            Kind::PriorityClass => {
                self.objects.priority_classes.push(lenient(&identity, value)?.object);
            }
            Kind::DeviceClass => self.objects.device_classes.push(strict(&identity, value)?),
            Kind::ResourceClass => self.objects.resource_classes.push(strict(&identity, value)?),
            Kind::Node => self.objects.nodes.push(lenient(&identity, value)?.object),
            Kind::Pod => {
                let mut pod: k8s_openapi::api::core::v1::Pod = lenient(&identity, value)?.object;
                pod.metadata.namespace = Some(identity.namespace);
                self.objects.pods.push(pod);
            }
            Kind::ResourceClaim => self.read_claim(identity, value)?,
            Kind::ResourceClaimTemplate => self.read_template(identity, value),
        }
        Ok(())
    }

    fn note(&mut self, identity: &Identity) -> Result<(), ObjectsError> {
        let Identity { kind, place, namespace, name } = identity;
        if self.seen.len() >= OBJECTS_MAX {
            return Err(ObjectsError::TooMany { place: Box::new(place.clone()) });
        }
        let key = (*kind, namespace.clone(), name.clone());
        match self.seen.insert(key, place.clone()) {
            Some(first) => Err(ObjectsError::Duplicate {
                kind: kind.as_str(),
                name: identity.full_name(),
                first: Box::new(first),
                second: Box::new(place.clone()),
            }),
            None => Ok(()),
        }
    }

    /// A claim that is wrong is set aside, but never its devices: an allocation that cannot be read
    /// would let them be given away twice.
    fn read_claim(&mut self, identity: Identity, value: &Value) -> Result<(), ObjectsError> {
        let (claim, mut errors) = match typed::read::<ResourceClaim>(value) {
            Ok(Typed { object, unknown }) => (Some(object), unknown_fields(&unknown)),
            Err(error) if value.pointer("/status/allocation").is_some_and(|a| !a.is_null()) => {
                return Err(identity.refuse(error.to_string()));
            }
            Err(error) => (None, vec![error.to_string()]),
        };
        let claim = claim.map(|claim| {
            let metadata = ObjectMeta {
                namespace: Some(identity.namespace.clone()),
                ..claim.metadata.clone()
            };
            ResourceClaim { metadata, ..claim }
        });
        match claim.as_ref().map(|claim| (claim, allocation_of(claim))) {
            // The API server has accepted what is allocated, perhaps by newer rules.
            Some((_, Some(allocation))) => {
                nameless_result(allocation).map_or(Ok(()), |error| Err(identity.refuse(error)))?;
            }
            Some((claim, None)) => {
                errors.extend(told(&validate_claim(claim).err().unwrap_or_default()));
            }
            None => {}
        }
        match claim {
            Some(claim) if errors.is_empty() => self.objects.claims.push(claim),
            claim => self.set_aside(identity, errors, claim.map(Box::new)),
        }
        Ok(())
    }

    fn read_template(&mut self, identity: Identity, value: &Value) {
        let (mut template, mut errors) = match typed::read::<ResourceClaimTemplate>(value) {
            Ok(Typed { object, unknown }) => (object, unknown_fields(&unknown)),
            Err(error) => return self.set_aside(identity, vec![error.to_string()], None),
        };
        template.metadata.namespace = Some(identity.namespace.clone());
        errors.extend(told(&validate_claim_template(&template).err().unwrap_or_default()));
        if errors.is_empty() {
            self.objects.templates.push(template);
        } else {
            self.set_aside(identity, errors, None);
        }
    }

    fn set_aside(
        &mut self,
        identity: Identity,
        errors: Vec<String>,
        claim: Option<Box<ResourceClaim>>,
    ) {
        let Identity { kind, place, namespace, name } = identity;
        let name = ClaimRef { namespace, name };
        self.objects.broken_claims.push(BrokenClaim { kind, name, place, errors, claim });
    }

    fn finish(self) -> Objects {
        let mut objects = self.objects;
        objects.places = self.seen;
        objects.warnings = self.unread.into_iter().map(warning).collect();
        objects.slices.sort_by_cached_key(|slice| slice.metadata.name.clone());
        objects.claims.sort_by_cached_key(|claim| ClaimRef::of(&claim.metadata));
        objects.templates.sort_by_cached_key(|template| ClaimRef::of(&template.metadata));
        objects.device_classes.sort_by_cached_key(|class| class.metadata.name.clone());
        objects.resource_classes.sort_by_cached_key(|class| class.metadata.name.clone());
        objects.nodes.sort_by_cached_key(|node| node.metadata.name.clone());
        objects.priority_classes.sort_by_cached_key(|class| class.metadata.name.clone());
        objects.pods.sort_by_cached_key(|pod| PodRef::of(&pod.metadata));
        objects.broken_claims.sort_by_cached_key(|broken| (broken.name.clone(), broken.kind));
        objects
    }
}

impl Identity {
    fn full_name(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }

    fn refuse(&self, error: String) -> ObjectsError {
        let (kind, name, place) =
            (self.kind.as_str(), self.full_name(), Box::new(self.place.clone()));
        ObjectsError::Field { place, kind, name, error }
    }
}

fn no_object(place: Place, message: String) -> ObjectsError {
    ObjectsError::NoObject { place: Box::new(place), message }
}

/// The first result that does not say which device it is.
fn nameless_result(allocation: &AllocationResult) -> Option<String> {
    let results = allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten());
    results.enumerate().find_map(|(index, result)| {
        let names =
            [("driver", &result.driver), ("pool", &result.pool), ("device", &result.device)];
        let (field, _) = names.into_iter().find(|(_, name)| name.is_empty())?;
        Some(format!("status.allocation.devices.results[{index}].{field}: required: a name"))
    })
}

/// Reads an object in which an unknown field may change the answer.
fn strict<T: DeserializeOwned>(identity: &Identity, value: &Value) -> Result<T, ObjectsError> {
    let Typed { object, unknown } = lenient(identity, value)?;
    if unknown.is_empty() {
        return Ok(object);
    }
    Err(identity.refuse(unknown_fields(&unknown).join("; ")))
}

/// Reads an object of which only a part matters.
fn lenient<T: DeserializeOwned>(
    identity: &Identity,
    value: &Value,
) -> Result<Typed<T>, ObjectsError> {
    typed::read(value).map_err(|error: TypeError| identity.refuse(error.to_string()))
}

/// What is wrong, the first few errors in full.
fn told(errors: &[ValidationError]) -> Vec<String> {
    first_few(errors.iter().map(ToString::to_string).collect(), "errors")
}

fn unknown_fields(paths: &[String]) -> Vec<String> {
    let errors = paths.iter().map(|path| format!("{path}: unknown field")).collect();
    first_few(errors, "unknown fields")
}

/// The first errors, and how many more there are.
fn first_few(mut errors: Vec<String>, what: &str) -> Vec<String> {
    const NAMED: usize = 5;
    let more = errors.len().saturating_sub(NAMED);
    if more > 0 {
        errors.truncate(NAMED);
        errors.push(format!("{more} more {what}"));
    }
    errors
}

fn warning(((file, kind, api_version), count): ((Arc<str>, String, String), usize)) -> String {
    let hint = if kind == "HostCapture" { "; give captured machines with --host" } else { "" };
    match count {
        1 => format!("{file}: {kind} ({api_version}) is not read{hint}"),
        count => format!("{file}: {kind} ({api_version}) is not read: {count} objects{hint}"),
    }
}
