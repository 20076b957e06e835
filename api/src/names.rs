//! The driver's name, the shipped classes and the taints: every string that appears in a cluster.

/// The DRA driver name, and the domain of its attributes, labels and API group.
pub const DRIVER: &str = "lanemate.dev";
/// `apiVersion` of the custom resources and of the opaque configuration kinds.
pub const API_VERSION: &str = "lanemate.dev/v1alpha1";
/// DeviceClass that selects whole GPUs of this driver.
pub const GPU_CLASS: &str = "gpu.lanemate.dev";
/// DeviceClass that selects RDMA NICs of this driver.
pub const NIC_CLASS: &str = "nic.lanemate.dev";
/// Key of the taint that keeps kube-scheduler away from our devices in mode `controller`.
pub const ALLOCATOR_TAINT_KEY: &str = "lanemate.dev/allocator";
/// Value of [`ALLOCATOR_TAINT_KEY`].
pub const ALLOCATOR_TAINT_VALUE: &str = "controller";
/// Key of the taint on a NIC of which no port is up.
pub const PORT_DOWN_TAINT_KEY: &str = "lanemate.dev/port-down";
/// Annotation that kube-controller-manager puts on a claim made from a template: the name of the
/// claim within the pod.
pub const POD_CLAIM_NAME_ANNOTATION: &str = "resource.kubernetes.io/pod-claim-name";
/// Finalizer of a ResourceClass that claims use.
pub const CLASS_PROTECTION: &str = "lanemate.dev/class-protection";
/// Label that says which program keeps an object.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY_LABEL`] on what our controller keeps.
pub const MANAGED_BY: &str = "lanemate";
/// Scheduling gate of a pod that waits for devices of ours.
pub const PLACEMENT_GATE: &str = "lanemate.dev/placement";
/// Label of a namespace or a pod, with the value `enabled`: pods with claims get [`PLACEMENT_GATE`].
pub const PLACEMENT_LABEL: &str = "lanemate.dev/placement";
/// Annotation of a pod that says what it holds, for people and dashboards.
pub const DEVICE_ASSIGNMENT_ANNOTATION: &str = "lanemate.dev/device-assignment";
/// Finalizer that keeps a claim while it is allocated; kube-controller-manager takes it off after the last pod.
pub const DELETE_PROTECTION: &str = "resource.kubernetes.io/delete-protection";
