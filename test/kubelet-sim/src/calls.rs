//! Prepare and Unprepare in both versions, with kubelet's checks of the reply.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::generated::{dra_v1, dra_v1beta1};
use crate::{Answers, Claim, Device, KubeletError, Version};

const PREPARE: &str = "NodePrepareResources";
const UNPREPARE: &str = "NodeUnprepareResources";

pub async fn prepare(
    version: Version,
    channel: Channel,
    claims: &[Claim],
    timeout: Duration,
) -> Result<Answers<Vec<Device>>, KubeletError> {
    let answers = match version {
        Version::V1 => prepare_v1(channel, claims, timeout).await,
        Version::V1beta1 => prepare_v1beta1(channel, claims, timeout).await,
    };
    complete(PREPARE, claims, answers.map_err(|status| failed(PREPARE, &status))?)
}

pub async fn unprepare(
    version: Version,
    channel: Channel,
    claims: &[Claim],
    timeout: Duration,
) -> Result<Answers<()>, KubeletError> {
    let answers = match version {
        Version::V1 => unprepare_v1(channel, claims, timeout).await,
        Version::V1beta1 => unprepare_v1beta1(channel, claims, timeout).await,
    };
    complete(UNPREPARE, claims, answers.map_err(|status| failed(UNPREPARE, &status))?)
}

/// An entry for each claim, and no other.
fn complete<T>(
    method: &'static str,
    claims: &[Claim],
    answers: Answers<T>,
) -> Result<Answers<T>, KubeletError> {
    let asked: BTreeSet<&str> = claims.iter().map(|claim| claim.uid.as_str()).collect();
    if let Some(uid) = answers.keys().find(|uid| !asked.contains(uid.as_str())) {
        return Err(KubeletError::UnknownClaim { method, uid: uid.clone() });
    }
    match asked.len() - answers.len() {
        0 => Ok(answers),
        skipped => Err(KubeletError::Skipped { method, skipped }),
    }
}

fn failed(method: &'static str, status: &Status) -> KubeletError {
    let (code, message) = (format!("{:?}", status.code()), status.message().to_owned());
    KubeletError::Call { method, code, message }
}

/// The versions have the same messages under different types.
macro_rules! call_version {
    ($version:ident, $prepare:ident, $unprepare:ident) => {
        async fn $prepare(
            channel: Channel,
            claims: &[Claim],
            timeout: Duration,
        ) -> Result<Answers<Vec<Device>>, Status> {
            let claims = claims.iter().cloned().map(Into::into).collect();
            let mut request = Request::new($version::NodePrepareResourcesRequest { claims });
            request.set_timeout(timeout);
            let mut client = $version::dra_plugin_client::DraPluginClient::new(channel);
            let reply = client.node_prepare_resources(request).await?.into_inner();
            let answers = reply.claims.into_iter().map(|(uid, answer)| {
                let devices = answer.devices.into_iter().map(Device::from).collect();
                (uid, if answer.error.is_empty() { Ok(devices) } else { Err(answer.error) })
            });
            Ok(answers.collect::<BTreeMap<_, _>>())
        }

        async fn $unprepare(
            channel: Channel,
            claims: &[Claim],
            timeout: Duration,
        ) -> Result<Answers<()>, Status> {
            let claims = claims.iter().cloned().map(Into::into).collect();
            let mut request = Request::new($version::NodeUnprepareResourcesRequest { claims });
            request.set_timeout(timeout);
            let mut client = $version::dra_plugin_client::DraPluginClient::new(channel);
            let reply = client.node_unprepare_resources(request).await?.into_inner();
            let answers = reply.claims.into_iter().map(|(uid, answer)| {
                (uid, if answer.error.is_empty() { Ok(()) } else { Err(answer.error) })
            });
            Ok(answers.collect::<BTreeMap<_, _>>())
        }

        impl From<Claim> for $version::Claim {
            fn from(claim: Claim) -> Self {
                Self { namespace: claim.namespace, uid: claim.uid, name: claim.name }
            }
        }
    };
}

call_version!(dra_v1, prepare_v1, unprepare_v1);
call_version!(dra_v1beta1, prepare_v1beta1, unprepare_v1beta1);

impl From<dra_v1::Device> for Device {
    fn from(device: dra_v1::Device) -> Self {
        Self {
            request_names: device.request_names,
            pool: device.pool_name,
            device: device.device_name,
            cdi_ids: device.cdi_device_ids,
            share_id: device.share_id,
        }
    }
}

impl From<dra_v1beta1::Device> for Device {
    fn from(device: dra_v1beta1::Device) -> Self {
        Self {
            request_names: device.request_names,
            pool: device.pool_name,
            device: device.device_name,
            cdi_ids: device.cdi_device_ids,
            share_id: None,
        }
    }
}
