#!/usr/bin/env bash
# The way of somebody who has just cloned the repository: a cluster with captured hardware, Lanemate in it, a pod with a GPU
# and its NIC. Needs root; takes images from LANEMATE_IMAGES where that is set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=/dev/null
. hack/lib/shell.sh
name=stranger

is_free() {
  [ -z "$("${inside[@]}" kubectl get nodestates --output 'jsonpath={.items[*].status.held[*].name}')" ]
}

at_exit() {
  hack/cluster down "$name"
}
trap at_exit EXIT

start="$SECONDS"
LANEMATE_CLUSTER_OWNER="$$" hack/cluster up --host dgx-h100 "$name"
say "the cluster is up after $((SECONDS - start)) s"
hack/cluster install "$name"
say "Lanemate is installed after $((SECONDS - start)) s"
kubectl=(hack/cluster run "$name" -- kubectl --namespace pair)
"${kubectl[@]}" apply --filename docs/user/examples/pair.yaml
"${kubectl[@]}" wait --for condition=Ready --timeout 60s pod/trainer || {
  "${kubectl[@]}" describe pods,resourceclaims >&2
  fail "waited 60 s for the pod trainer to run"
}
devices="$("${kubectl[@]}" exec trainer -- sh -c 'ls /dev/infiniband/* /dev/nvidia*')"
say "the pod runs after $((SECONDS - start)) s, with"
echo "$devices"
expected="/dev/infiniband/rdma_cm
/dev/infiniband/uverbs0
/dev/nvidia-uvm
/dev/nvidia-uvm-tools
/dev/nvidia0
/dev/nvidiactl"
[ "$devices" = "$expected" ] || fail "expected the device nodes of a GPU and its NIC: $expected"

# Away again: not while the pod has its devices, and then without a trace but the definitions.
inside=(hack/cluster run "$name" --)
! said="$("${inside[@]}" helm uninstall lanemate --namespace lanemate-system 2>&1)" || fail "helm uninstall: expected it to refuse while a pod holds devices"
"${inside[@]}" kubectl --namespace lanemate-system logs job/lanemate-uninstall | grep "pair/trainer" || fail "the uninstallation does not name the pod: $said"
"${kubectl[@]}" delete pod trainer --wait --timeout 60s
wait_for 60 "the node to hold nothing" /dev/null is_free
"${inside[@]}" helm uninstall lanemate --namespace lanemate-system
for kind in validatingadmissionpolicies mutatingadmissionpolicies deviceclasses clusterroles deployments,daemonsets,jobs,serviceaccounts; do
  left="$("${inside[@]}" kubectl get "$kind" --all-namespaces --output name | grep lanemate || true)"
  [ -z "$left" ] || fail "left behind: $left"
done
say "installed, used and removed after $((SECONDS - start)) s"
