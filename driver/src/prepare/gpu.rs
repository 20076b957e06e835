//! What a GPU adds to a container. NVIDIA: the device of the vendor's own CDI spec where there is
//! one, since it knows more of the driver than we do, else control nodes, the GPU's node and the
//! driver's libraries. AMD: the compute node and the GPU's DRM nodes; its libraries are in the image.

use crate::discovery::Facts;
use crate::discovery::facts::NvmlGpu;

use super::grant::Grant;
use super::{Needs, PrepareError, PrepareOptions, nodes};

const NVIDIA: u16 = 0x10de;
const AMD: u16 = 0x1002;

const NVIDIA_REMEDY: &str = "run nvidia-modprobe -u -c 0, or load nvidia and nvidia-uvm";
const AMD_REMEDY: &str = "is amdgpu loaded?";

pub(super) fn needs(
    grant: &Grant<'_>,
    facts: &Facts,
    options: &PrepareOptions,
    notes: &mut Vec<String>,
) -> Result<Needs, PrepareError> {
    match grant.function.vendor {
        Some(NVIDIA) => nvidia(grant, facts, options, notes),
        Some(AMD) => amd(grant, facts),
        _ => Err(PrepareError::UnknownGpu(grant.device.to_owned())),
    }
}

fn nvidia(
    grant: &Grant<'_>,
    facts: &Facts,
    options: &PrepareOptions,
    notes: &mut Vec<String>,
) -> Result<Needs, PrepareError> {
    let gpu = facts.nvml.as_ref().and_then(|nvml| nvml.gpus.get(&grant.address));
    if let Some(id) = gpu.and_then(|gpu| vendor_device(gpu, options, notes)) {
        return Ok(Needs { vendor_ids: vec![id], ..Needs::default() });
    }
    let minor = gpu
        .and_then(|gpu| gpu.minor)
        .ok_or_else(|| PrepareError::UnknownMinor(grant.device.to_owned()))?;
    let mut needs = Needs::default();
    let nodes = &mut needs.edits.device_nodes;
    for path in [&*format!("dev/nvidia{minor}"), "dev/nvidiactl", "dev/nvidia-uvm"] {
        nodes.push(nodes::required(facts, grant, path, NVIDIA_REMEDY)?);
    }
    for path in ["dev/nvidia-uvm-tools", "dev/nvidia-modeset"] {
        nodes.extend(nodes::existing(facts, path));
    }
    needs.edits.mounts = options.nvidia_libraries.mounts().to_vec();
    if needs.edits.mounts.is_empty() {
        notes.push(
            "no NVIDIA driver libraries were found on the host and no CDI spec of NVIDIA's \
             toolkit lists the GPU: the image has to bring libcuda of the driver's version"
                .to_owned(),
        );
    }
    Ok(needs)
}

/// The device of NVIDIA's own spec for a GPU. Minor numbers change when the driver is loaded anew, and
/// a spec that was written before would then open another GPU.
fn vendor_device(
    gpu: &NvmlGpu,
    options: &PrepareOptions,
    notes: &mut Vec<String>,
) -> Option<String> {
    let id = format!("nvidia.com/gpu={}", gpu.uuid.as_deref()?);
    let paths = options.vendor_cdi.device_nodes(&id)?;
    let mut gpus = paths.iter().filter_map(|path| {
        let name = path.rsplit('/').next()?;
        nodes::is_numbered(name, "nvidia").then_some(name)
    });
    let own = gpu.minor.map(|minor| format!("nvidia{minor}"));
    let Some((own, other)) = own.and_then(|own| {
        let other = gpus.find(|name| *name != own)?;
        Some((own, other))
    }) else {
        return Some(id);
    };
    notes.push(format!(
        "the CDI device {id} opens /dev/{other}, but the GPU is /dev/{own}: it is out of date and \
         not used; nvidia-ctk cdi generate writes it anew"
    ));
    None
}

fn amd(grant: &Grant<'_>, facts: &Facts) -> Result<Needs, PrepareError> {
    let mut needs = Needs::default();
    let nodes = &mut needs.edits.device_nodes;
    nodes.push(nodes::required(facts, grant, "dev/kfd", AMD_REMEDY)?);
    let drm = &grant.function.drm;
    let render: Vec<&String> =
        drm.iter().filter(|name| nodes::is_numbered(name, "renderD")).collect();
    if render.is_empty() {
        return Err(PrepareError::MissingNode {
            device: grant.device.to_owned(),
            node: "dev/dri/renderDN".to_owned(),
            remedy: AMD_REMEDY,
        });
    }
    for name in drm.iter().filter(|name| nodes::is_numbered(name, "card")).chain(render) {
        nodes.push(nodes::required(facts, grant, &format!("dev/dri/{name}"), AMD_REMEDY)?);
    }
    Ok(needs)
}
