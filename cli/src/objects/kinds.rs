//! Which kinds of objects are read, and what becomes of the others.

/// A kind that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    ResourceSlice,
    ResourceClaim,
    ResourceClaimTemplate,
    DeviceClass,
    ResourceClass,
    Node,
    PriorityClass,
    Pod,
}

/// What to do with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Read it.
    Read(Kind),
    /// The kind is read, but only in the version named.
    OtherVersion(&'static str),
    /// It would change the answer, and is not understood yet.
    NotSupported,
    /// It says nothing that matters here.
    Skip,
    /// It is not known.
    Unknown,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::ResourceSlice,
        Self::ResourceClaim,
        Self::ResourceClaimTemplate,
        Self::DeviceClass,
        Self::ResourceClass,
        Self::Node,
        Self::PriorityClass,
        Self::Pod,
    ];

    /// As in the field `kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ResourceSlice => "ResourceSlice",
            Self::ResourceClaim => "ResourceClaim",
            Self::ResourceClaimTemplate => "ResourceClaimTemplate",
            Self::DeviceClass => "DeviceClass",
            Self::ResourceClass => "ResourceClass",
            Self::Node => "Node",
            Self::PriorityClass => "PriorityClass",
            Self::Pod => "Pod",
        }
    }

    /// Whether its objects live in namespaces.
    pub fn is_namespaced(self) -> bool {
        matches!(self, Self::ResourceClaim | Self::ResourceClaimTemplate | Self::Pod)
    }

    /// The one `apiVersion` that is read.
    fn api_version(self) -> &'static str {
        match self {
            Self::ResourceSlice
            | Self::ResourceClaim
            | Self::ResourceClaimTemplate
            | Self::DeviceClass => "resource.k8s.io/v1",
            Self::ResourceClass => lanemate_api::names::API_VERSION,
            Self::PriorityClass => "scheduling.k8s.io/v1",
            Self::Node | Self::Pod => "v1",
        }
    }
}

/// Judges an object by its `apiVersion` and `kind`.
pub fn verdict(api_version: &str, kind: &str) -> Verdict {
    let group = group(api_version);
    let known = Kind::ALL
        .into_iter()
        .find(|known| known.as_str() == kind && self::group(known.api_version()) == group);
    match (known, group, kind) {
        (Some(known), ..) if known.api_version() == api_version => Verdict::Read(known),
        (Some(known), ..) => Verdict::OtherVersion(known.api_version()),
        (None, "resource.k8s.io", "DeviceTaintRule") => Verdict::NotSupported,
        (None, "scheduling.k8s.io", "PodGroup" | "CompositePodGroup") => Verdict::NotSupported,
        // A question about pools, and the answer to it.
        (None, "resource.k8s.io", "ResourcePoolStatusRequest") => Verdict::Skip,
        (None, ..) => Verdict::Unknown,
    }
}

/// The kind of a list's items: empty for a plain `List`, whose items name their own.
pub fn list_items(kind: &str) -> Option<&str> {
    kind.strip_suffix("List")
}

/// `resource.k8s.io` of `resource.k8s.io/v1`; empty for `v1`.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_judged_by_group_version_and_kind() {
        use Verdict::{NotSupported, OtherVersion, Read, Skip, Unknown};
        for (api_version, kind, expect) in [
            ("resource.k8s.io/v1", "ResourceSlice", Read(Kind::ResourceSlice)),
            ("resource.k8s.io/v1", "ResourceClaim", Read(Kind::ResourceClaim)),
            ("resource.k8s.io/v1", "ResourceClaimTemplate", Read(Kind::ResourceClaimTemplate)),
            ("resource.k8s.io/v1", "DeviceClass", Read(Kind::DeviceClass)),
            ("lanemate.dev/v1alpha1", "ResourceClass", Read(Kind::ResourceClass)),
            ("v1", "Node", Read(Kind::Node)),
            ("v1", "Pod", Read(Kind::Pod)),
            ("scheduling.k8s.io/v1", "PriorityClass", Read(Kind::PriorityClass)),
            ("resource.k8s.io/v1beta1", "ResourceClaim", OtherVersion("resource.k8s.io/v1")),
            ("resource.k8s.io/v1beta2", "ResourceSlice", OtherVersion("resource.k8s.io/v1")),
            ("lanemate.dev/v1", "ResourceClass", OtherVersion("lanemate.dev/v1alpha1")),
            ("v2", "Pod", OtherVersion("v1")),
            ("resource.k8s.io/v1", "DeviceTaintRule", NotSupported),
            ("resource.k8s.io/v1beta2", "DeviceTaintRule", NotSupported),
            ("scheduling.k8s.io/v1alpha3", "PodGroup", NotSupported),
            ("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest", Skip),
            ("resource.k8s.io/v1alpha2", "ResourceClass", Unknown),
            ("metrics.k8s.io/v1", "Node", Unknown),
            ("scheduling.volcano.sh/v1beta1", "PodGroup", Unknown),
            ("apps/v1", "Deployment", Unknown),
            ("", "", Unknown),
        ] {
            assert_eq!(verdict(api_version, kind), expect, "{api_version} {kind}");
        }
    }
}
