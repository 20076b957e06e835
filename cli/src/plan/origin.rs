//! Where the object at fault stands, so that an error names its file.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use lanemate_api::names::POD_CLAIM_NAME_ANNOTATION;
use lanemate_driver::claim::{ClaimError, ClassError};
use lanemate_driver::pending::{ClaimRef, PodRef, Refusal};

use crate::objects::{Kind, Objects, Place};

/// Places of objects.
#[derive(Clone, Copy)]
pub struct Origins<'a> {
    objects: &'a Objects,
}

impl<'a> Origins<'a> {
    /// Of objects that were read.
    pub fn of(objects: &'a Objects) -> Self {
        Self { objects }
    }

    /// The error with the file of the claim, or of its template, and with that of the class where
    /// the class is at fault.
    pub fn explain(self, claim: &ResourceClaim, pod: Option<&Pod>, error: &ClaimError) -> String {
        let mut text = match self.claim(claim, pod) {
            Some(place) => format!("{place}: {error}"),
            None => error.to_string(),
        };
        if let ClaimError::Class { source, .. } = error
            && let Some(place) = self.class(source)
        {
            text += &format!(" ({place})");
        }
        text
    }

    /// Why a claim cannot be decided, with the file of the claim, or else of the pod, at fault.
    pub fn refusal(self, refusal: &Refusal) -> String {
        let Refusal { claim, pod, reason } = refusal;
        // What is wrong with the claim itself begins with its file.
        if let Some(own) = reason.strip_prefix(&format!("claim {claim}: ")) {
            return own.to_owned();
        }
        let place =
            pod.as_ref().and_then(|pod| self.objects.place(Kind::Pod, &pod.namespace, &pod.name));
        match place {
            Some(place) => format!("{place}: {reason}"),
            None => reason.clone(),
        }
    }

    /// The file of a claim, or of its template.
    pub fn claim(self, claim: &ResourceClaim, pod: Option<&Pod>) -> Option<&'a Place> {
        let name = ClaimRef::of(&claim.metadata);
        let own = self.objects.place(Kind::ResourceClaim, &name.namespace, &name.name);
        own.or_else(|| self.template(claim, pod?))
    }

    fn template(self, claim: &ResourceClaim, pod: &Pod) -> Option<&'a Place> {
        let in_pod = claim.metadata.annotations.as_ref()?.get(POD_CLAIM_NAME_ANNOTATION)?;
        let mut entries = pod.spec.as_ref()?.resource_claims.as_ref()?.iter();
        let entry = entries.find(|entry| entry.name == *in_pod)?;
        let template = entry.resource_claim_template_name.as_ref()?;
        let namespace = PodRef::of(&pod.metadata).namespace;
        self.objects.place(Kind::ResourceClaimTemplate, &namespace, template)
    }

    fn class(self, error: &ClassError) -> Option<&'a Place> {
        let (kinds, name): (&[Kind], &String) = match error {
            ClassError::Missing(_) => return None,
            ClassError::Member { source, class, .. } => {
                return self.class(source).or_else(|| self.place(&[Kind::ResourceClass], class));
            }
            ClassError::NameTaken(name) => (&[Kind::DeviceClass], name),
            ClassError::Nested { class, .. } => (&[Kind::ResourceClass], class),
            ClassError::Invalid { class, .. } | ClassError::Selector { class, .. } => {
                (&[Kind::ResourceClass, Kind::DeviceClass], class)
            }
        };
        self.place(kinds, name)
    }

    fn place(self, kinds: &[Kind], name: &str) -> Option<&'a Place> {
        kinds.iter().find_map(|kind| self.objects.place(*kind, "", name))
    }
}
