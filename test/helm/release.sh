#!/usr/bin/env bash
# A release of the chart from its installation to its end, inside a control plane: `hack/control-plane with NAME -- test/helm/release.sh`.
# There is no node, so that no pod runs; the hook of an uninstallation is tested where pods do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. hack/lib/shell.sh
chart=deploy/helm/lanemate
namespace=lanemate-system
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# quietly COMMAND…: says what it has said only when it fails.
quietly() {
  "$@" >"$work/said" 2>&1 || fail "$*: $(grep -v symbolic "$work/said")"
}

# refused WORDS COMMAND…
refused() {
  local words="$1"
  shift
  ! "$@" >"$work/said" 2>&1 || fail "$*: expected it to be refused"
  grep -q "$words" "$work/said" || fail "$*: expected \"$words\" in $(grep -v symbolic "$work/said")"
}

is_absent() {
  ! kubectl get "$@" >/dev/null 2>&1
}

# The control plane has them by hand.
quietly kubectl delete --wait --timeout 60s -f deploy/admission -f deploy/rbac -f deploy/deviceclasses.yaml -f deploy/crds
wait_for 60 "the namespace $namespace to go" /dev/null is_absent namespace "$namespace"

# The API server takes each set as it is; the kind ServiceMonitor is not served here.
for set in default scheduler; do
  kubectl create namespace "$namespace" --dry-run=client --output yaml | quietly kubectl apply --filename -
  # Objects of kinds that the set itself defines cannot be tried before they are.
  awk 'BEGIN { RS = "---\n" } !/kind: ResourceClass\n/ && NF { print "---\n" $0 }' "test/helm/golden/$set.yaml" >"$work/$set.yaml"
  quietly kubectl apply --dry-run=server --filename "$work/$set.yaml"
done

quietly helm install lanemate "$chart" --namespace "$namespace" --create-namespace
for object in crd/resourceclasses.lanemate.dev deviceclass/gpu.lanemate.dev clusterrole/lanemate-controller \
  validatingadmissionpolicy/lanemate-allocation mutatingadmissionpolicy/lanemate-placement-gate resourceclass/gpu-rdma-pair; do
  quietly kubectl get "$object"
done
quietly kubectl --namespace "$namespace" get deployment/lanemate-controller daemonset/lanemate-kubelet-plugin
is_absent --namespace "$namespace" serviceaccount lanemate-uninstall || fail "the account of the uninstallation is there before its time"

# What would make two allocators.
refused "exists and cannot be imported" helm install another "$chart" --namespace another --create-namespace

# A definition that has changed arrives by an upgrade, in a chart as it is packaged.
quietly helm package "$chart" --destination "$work" --version 0.1.1
tar --extract --file "$work/lanemate-0.1.1.tgz" --directory "$work"
sed -i 's/description: What the node holds\.$/description: What the node holds now./' "$work/lanemate/files/crds/nodestates.lanemate.dev.yaml"
quietly helm upgrade lanemate "$work/lanemate" --namespace "$namespace"
kubectl get crd nodestates.lanemate.dev --output yaml | grep -q "What the node holds now." || fail "the upgrade did not reach the definition"
quietly kubectl get resourceclass gpu-rdma-pair

# Back again, and to the other mode.
quietly helm rollback lanemate 1 --namespace "$namespace"
quietly helm upgrade lanemate "$chart" --namespace "$namespace" --set mode=scheduler
is_absent validatingadmissionpolicy lanemate-allocation || fail "the fence is there in mode scheduler"
is_absent --namespace "$namespace" deployment lanemate-controller || fail "the controller is there in mode scheduler"
quietly kubectl get validatingadmissionpolicy lanemate-node

quietly helm uninstall lanemate --namespace "$namespace" --no-hooks
for object in deviceclass/gpu.lanemate.dev clusterrole/lanemate-kubelet-plugin validatingadmissionpolicy/lanemate-node; do
  is_absent "$object" || fail "$object is left behind"
done
# With their objects.
quietly kubectl get crd/resourceclasses.lanemate.dev resourceclass/gpu-rdma-pair
