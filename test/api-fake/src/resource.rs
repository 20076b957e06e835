//! The resources that are served, and paths as objects.

use serde_json::Value;

/// One kind of object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) is_namespaced: bool,
    /// Writes of the object leave the status as it is, and writes of `/status` the rest.
    pub(crate) has_status: bool,
}

const RESOURCES: [Resource; 9] = [
    Resource {
        api_version: "resource.k8s.io/v1",
        kind: "ResourceClaim",
        plural: "resourceclaims",
        is_namespaced: true,
        has_status: true,
    },
    Resource {
        api_version: "resource.k8s.io/v1",
        kind: "ResourceSlice",
        plural: "resourceslices",
        is_namespaced: false,
        has_status: false,
    },
    Resource {
        api_version: "resource.k8s.io/v1",
        kind: "DeviceClass",
        plural: "deviceclasses",
        is_namespaced: false,
        has_status: false,
    },
    Resource {
        api_version: "lanemate.dev/v1alpha1",
        kind: "ResourceClass",
        plural: "resourceclasses",
        is_namespaced: false,
        has_status: true,
    },
    Resource {
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        plural: "leases",
        is_namespaced: true,
        has_status: false,
    },
    Resource {
        api_version: "lanemate.dev/v1alpha1",
        kind: "NodeState",
        plural: "nodestates",
        is_namespaced: false,
        has_status: false,
    },
    Resource {
        api_version: "events.k8s.io/v1",
        kind: "Event",
        plural: "events",
        is_namespaced: true,
        has_status: false,
    },
    Resource {
        api_version: "v1",
        kind: "Node",
        plural: "nodes",
        is_namespaced: false,
        has_status: true,
    },
    Resource {
        api_version: "v1",
        kind: "Pod",
        plural: "pods",
        is_namespaced: true,
        has_status: true,
    },
];

/// What a path names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) resource: &'static Resource,
    /// Absent: all namespaces, or none.
    pub(crate) namespace: Option<String>,
    /// Absent: the collection.
    pub(crate) name: Option<String>,
    /// The status of the object alone.
    pub(crate) is_status: bool,
}

impl Target {
    /// Reads a path; absent when nothing is served there.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (api_version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let (plural, name, is_status) = match rest {
            [plural] => (plural, None, false),
            [plural, name] => (plural, Some(*name), false),
            [plural, name, "status"] => (plural, Some(*name), true),
            _ => return None,
        };
        let is_it = |resource: &&Resource| {
            resource.api_version == api_version
                && resource.plural == *plural
                && (resource.is_namespaced || namespace.is_none())
                && (!resource.is_namespaced || namespace.is_some() || name.is_none())
                && (resource.has_status || !is_status)
        };
        Some(Self {
            resource: RESOURCES.iter().find(is_it)?,
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            is_status,
        })
    }

    /// Where an object belongs, by what it says of itself.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let (api_version, kind) = (text("/apiVersion")?, text("/kind")?);
        let resource = RESOURCES
            .iter()
            .find(|resource| resource.api_version == api_version && resource.kind == kind)?;
        let namespace = text("/metadata/namespace").map(str::to_owned);
        Some(Self {
            resource,
            namespace: if resource.is_namespaced { Some(namespace?) } else { None },
            name: Some(text("/metadata/name")?.to_owned()),
            is_status: false,
        })
    }

    /// The path of the object or collection.
    pub(crate) fn path(&self) -> String {
        let group = if self.resource.api_version.contains('/') { "apis" } else { "api" };
        let mut path = format!("/{group}/{}", self.resource.api_version);
        if let Some(namespace) = &self.namespace {
            path += &format!("/namespaces/{namespace}");
        }
        path += &format!("/{}", self.resource.plural);
        if let Some(name) = &self.name {
            path += &format!("/{name}");
        }
        path
    }

    /// True for an object of this collection.
    pub(crate) fn contains(&self, object: &Self) -> bool {
        self.resource == object.resource
            && (self.namespace.is_none() || self.namespace == object.namespace)
    }
}
