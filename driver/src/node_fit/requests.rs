//! What a pod asks of a node's resources, summed and rounded as kube-scheduler does it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use lanemate_api::Quantity;

/// Amounts by name of the resource; what is absent is not asked for.
pub type Amounts = BTreeMap<Arc<str>, Quantity>;

/// One thousandth of a unit, the step in which CPU is counted.
const NANOS_PER_MILLI: i128 = 1_000_000;
const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// The resources of one object, rounded; what is no quantity counts as absent.
pub fn list(wire: &BTreeMap<String, WireQuantity>) -> Amounts {
    let mut amounts = Amounts::new();
    add(&mut amounts, Some(wire));
    round(amounts)
}

/// What a pod asks for (`PodRequests` of k8s.io/component-helpers, resource): the greater of its containers together
/// with its sidecars, and of each init container beside the sidecars started before it; what the pod as a whole
/// asks for in place of those; and the overhead.
pub fn of_pod(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let mut running = Amounts::new();
    for container in &spec.containers {
        add_amounts(&mut running, &of_container(pod, container));
    }
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut own = of_container(pod, container);
        if is_sidecar(container) {
            add_amounts(&mut running, &own);
            add_amounts(&mut sidecars, &own);
            own = sidecars.clone();
        } else {
            add_amounts(&mut own, &sidecars);
        }
        raise(&mut starting, own);
    }
    raise(&mut running, starting);
    for (name, quantity) in of_pod_level(spec) {
        running.insert(name, quantity);
    }
    add(&mut running, spec.overhead.as_ref());
    let counted = running.into_iter().filter(|(name, _)| is_counted(name)).collect();
    round(counted)
}

/// A container that is started before the others and runs beside them.
pub fn is_sidecar(init_container: &Container) -> bool {
    init_container.restart_policy.as_deref() == Some("Always")
}

/// Amounts of a container: while a running one is resized, the greatest of those in the spec and in the status, so
/// that the node has room for either.
fn of_container(pod: &Pod, container: &Container) -> Amounts {
    let mut wanted = Amounts::new();
    add(&mut wanted, container.resources.as_ref().and_then(|it| it.requests.as_ref()));
    let Some(ContainerStatus { resources: Some(actual), allocated_resources, .. }) =
        status_of(pod, &container.name)
    else {
        return wanted;
    };
    if resize_is_infeasible(pod) {
        wanted.clear();
    }
    for seen in [actual.requests.as_ref(), allocated_resources.as_ref()] {
        let mut amounts = Amounts::new();
        add(&mut amounts, seen);
        raise(&mut wanted, amounts);
    }
    wanted
}

fn status_of<'p>(pod: &'p Pod, name: &str) -> Option<&'p ContainerStatus> {
    let status = pod.status.as_ref()?;
    let ordinary = status.container_statuses.iter().flatten();
    let mut all = ordinary.chain(status.init_container_statuses.iter().flatten());
    all.find(|status| status.name == name)
}

fn resize_is_infeasible(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut pending = conditions.filter(|condition| condition.type_ == "PodResizePending");
    pending.any(|condition| condition.reason.as_deref() == Some("Infeasible"))
}

/// Resources that a pod can ask for as a whole: CPU, memory and hugepages.
fn of_pod_level(spec: &PodSpec) -> Amounts {
    let mut amounts = Amounts::new();
    add(&mut amounts, spec.resources.as_ref().and_then(|it| it.requests.as_ref()));
    let supported = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    amounts.retain(|name, _| supported(name));
    amounts
}

/// Resources that kube-scheduler compares; it looks away from others, such as `storage`.
fn is_counted(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || ["hugepages-", "attachable-volumes-"].iter().any(|prefix| name.starts_with(prefix))
        || name.contains('/')
}

fn add(amounts: &mut Amounts, wire: Option<&BTreeMap<String, WireQuantity>>) {
    for (name, quantity) in wire.into_iter().flatten() {
        if let Ok(quantity) = Quantity::try_from(quantity) {
            let sum = amounts.entry(Arc::from(name.as_str())).or_insert(Quantity::ZERO);
            *sum = plus(*sum, quantity);
        }
    }
}

fn add_amounts(amounts: &mut Amounts, others: &Amounts) {
    for (name, quantity) in others {
        let sum = amounts.entry(Arc::clone(name)).or_insert(Quantity::ZERO);
        *sum = plus(*sum, *quantity);
    }
}

/// Sums beyond what a quantity holds stay at the greater part: such a pod fits nowhere.
fn plus(a: Quantity, b: Quantity) -> Quantity {
    a.checked_add(b).unwrap_or_else(|| a.max(b))
}

fn raise(amounts: &mut Amounts, others: Amounts) {
    for (name, quantity) in others {
        let most = amounts.entry(name).or_insert(quantity);
        if *most < quantity {
            *most = quantity;
        }
    }
}

/// CPU is counted in thousandths and all else in units, rounded up, and nothing beyond the integers that
/// kube-scheduler counts with: sums over the pods of a node then never overflow.
fn round(mut amounts: Amounts) -> Amounts {
    for (name, quantity) in &mut amounts {
        let (step, suffix) =
            if &**name == "cpu" { (NANOS_PER_MILLI, "m") } else { (NANOS_PER_UNIT, "") };
        let nanos = quantity.nanos();
        if nanos.rem_euclid(step) != 0 {
            let steps = nanos.div_euclid(step) + 1;
            *quantity = format!("{steps}{suffix}").parse().unwrap_or(*quantity);
        }
        *quantity = (*quantity).clamp(Quantity::ZERO, Quantity::from_units(i64::MAX));
    }
    amounts.retain(|_, quantity| quantity.sign() > 0);
    amounts
}
