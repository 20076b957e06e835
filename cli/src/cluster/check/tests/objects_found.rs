//! Objects that are wrong, one at a time.

use super::*;

fn check(change: impl FnOnce(&mut Value), expect: &[&str]) {
    check_after(change, None, expect);
}

#[test]
fn a_cluster_that_is_as_it_ought_to_be_has_nothing_to_mend() {
    check(|_| (), &[]);
}

#[test]
fn devices_states_grants_and_classes_that_are_wrong_are_named() {
    check(|value| value["slices"] = json!([]), &["F Devices: no slice of lanemate.dev offers any"]);
    check(|value| value["states"] = json!([]), &["F NodeStates: none of n1"]);
    check(|value| value["states"] = Value::Null, &["F NodeStates: the kind is not served"]);
    check(
        |value| value["claims"] = json!([claim("a", "gpu-0"), claim("b", "gpu-0")]),
        &["F Grants: in two claims: n1/gpu-0 (ml/a, ml/b)"],
    );
    check(
        |value| value["classes"][0]["metadata"]["generation"] = json!(4),
        &["F ResourceClasses: not ready: pair (Compiled)"],
    );
    check(
        |value| value["classes"][0]["status"] = Value::Null,
        &["F ResourceClasses: not ready: pair (no condition yet)"],
    );
    check(
        |value| value["deviceClasses"] = json!([]),
        &["F DeviceClasses: not there: gpu.lanemate.dev, nic.lanemate.dev"],
    );
}

#[test]
fn a_pool_that_does_not_count_is_named() {
    check(
        |value| value["slices"][0]["spec"]["pool"]["resourceSliceCount"] = json!(2),
        &[
            "F Pools: n1: incomplete: 1 of 2 slices of generation 1 are published",
            "F Trial: gpu.lanemate.dev: node n1: request gpu: needs 1 device; none of the 0 here matches; pool n1: incomplete: 1 of 2 slices of \
             generation 1 are published; pair: node n1: request pair (gpu): needs 1 device; none of the 0 here matches; pool n1: incomplete: 1 of 2 slices of \
             generation 1 are published",
        ],
    );
    let older = |value: &mut Value| {
        let mut second = value["slices"][0].clone();
        second["metadata"]["name"] = json!("t");
        second["spec"]["pool"]["generation"] = json!(2);
        second["spec"]["pool"]["resourceSliceCount"] = json!(2);
        value["slices"].as_array_mut().unwrap().push(second);
    };
    check(
        older,
        &[
            "F Pools: n1: incomplete: 1 of 2 slices of generation 2 are published",
            "F Trial: gpu.lanemate.dev: node n1: request gpu: needs 1 device; none of the 0 here matches; pool n1: incomplete: 1 of 2 slices of \
             generation 2 are published; pair: node n1: request pair (gpu): needs 1 device; none of the 0 here matches; pool n1: incomplete: 1 of 2 slices of \
             generation 2 are published",
        ],
    );
    check(
        |value| value["nodes"] = json!([]),
        &["F Pools: node n1 is gone, and its slices are not"],
    );
    check(
        |value| {
            let mut second = value["slices"][0].clone();
            second["spec"]["nodeName"] = json!("n2");
            second["spec"]["pool"]["name"] = json!("n2");
            second["spec"]["devices"] = json!([]);
            value["slices"].as_array_mut().unwrap().push(second);
            value["nodes"].as_array_mut().unwrap().push(node("n2"));
            value["states"].as_array_mut().unwrap().push(json!({
                "apiVersion": "lanemate.dev/v1alpha1", "kind": "NodeState", "metadata": { "name": "n2" } }));
        },
        &["N Pools: nothing is offered by n2"],
    );
}

#[test]
fn others_that_have_our_devices_are_named() {
    let foreign = |driver: &str, node: &str, pci: &str| {
        json!([{ "metadata": { "name": "f" }, "spec": { "driver": driver, "nodeName": node,
            "pool": { "name": "n1", "generation": 1, "resourceSliceCount": 1 },
            "devices": [{ "name": "gpu-7", "attributes":
                { "resource.kubernetes.io/pciBusID": { "string": pci } } }] } }])
    };
    check(
        |value| value["foreign"] = foreign("gpu.nvidia.com", "n1", "0000:1B:00.0"),
        &["F Other drivers: also offered by gpu.nvidia.com on n1: 0000:1b:00.0"],
    );
    check(
        |value| value["foreign"] = foreign("dra.net", "n1", "0000:1d:00.0"),
        &["F Other drivers: also offered by dra.net on n1: 0000:1d:00.0"],
    );
    check(|value| value["foreign"] = foreign("gpu.nvidia.com", "n2", "0000:1b:00.0"), &[]);
    check(|value| value["foreign"] = foreign("dra.net", "n1", "0000:99:00.0"), &[]);
    let counted = |resource: &'static str, count: &'static str| {
        move |value: &mut Value| {
            value["nodes"][0]["status"]["allocatable"] = json!({ "cpu": "8", resource: count });
        }
    };
    for resource in ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "amd.com/gpu", "rdma/hca_shared"] {
        let words = format!("F Device plugins: allocatable beside our devices on n1 ({resource})");
        check(counted(resource, "8"), &[&words]);
        check(counted(resource, "0"), &[]);
    }
    check(counted("example.com/fpga", "8"), &[]);
    check(
        |value| {
            counted("rdma/hca", "8")(value);
            value["slices"][0]["spec"]["devices"].as_array_mut().unwrap().pop();
            value["classes"] = json!([]);
        },
        &[],
    );
}

#[test]
fn a_claim_that_would_not_fit_is_refused_in_words() {
    let all = json!([claim("a", "gpu-0"), claim("b", "gpu-1")]);
    let unfit = |why: &str| {
        let why = format!("node n1: the pod cannot run here: {why}");
        format!("F Trial: gpu.lanemate.dev: {why}; pair: {why}")
    };
    check(
        |value| value["claims"] = all.clone(),
        &["N Trial: all in use now: gpu.lanemate.dev, pair"],
    );
    check(
        |value| value["claims"].as_array_mut().unwrap().push(claim("b", "nic-0")),
        &["N Trial: all in use now: pair"],
    );
    check(
        |value| {
            value["slices"][0]["spec"]["devices"][2]["attributes"]["pciePath"] =
                json!({ "string": "pci0000:55/01.0/56:00.0" });
            value["claims"] = all;
        },
        &[
            "F Trial: pair: node n1: needs 1 GPU-NIC pair within PXB; 0 left; no GPU is near enough to nic-0; no NIC is near \
           enough to gpu-0, gpu-1",
        ],
    );
    // One class serves, so that another may be for machines to come.
    check(
        |value| {
            let mut other = value["classes"][0].clone();
            other["metadata"]["name"] = json!("other");
            other["spec"]["members"][1]["selectors"] =
                json!([{ "cel": { "expression": "false" } }]);
            value["classes"].as_array_mut().unwrap().push(other);
        },
        &[
            "N Trial: other: node n1: request other (nic): needs 1 device; none of the 3 here matches",
        ],
    );
    check(
        |value| value["nodes"][0]["spec"] = json!({ "unschedulable": true }),
        &[&unfit("cordoned")],
    );
    check(
        |value| value["nodes"][0]["status"]["conditions"][0]["status"] = json!("Unknown"),
        &[&unfit("NotReady")],
    );
}
