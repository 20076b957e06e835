#!/usr/bin/env bash
# Imports the images that hack/image has built into containerd and runs them under runc, the controller against the API server:
# hack/cluster with image-test -- test/image/runs.sh [DIR]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=/dev/null
. hack/lib/shell.sh
[ -n "${LANEMATE_CLUSTER:-}" ] || fail "runs inside of a cluster: hack/cluster with image-test -- test/image/runs.sh"
images="$(realpath "${1:-$(dirname "$cluster_target")/images}")"
work="$(mktemp -d)"
cgroup="$(sed -n 's/^cgroupRoot: //p' /run/lanemate/kubelet.yaml)"
# What containerd gives unless told otherwise.
drop=()
for capability in CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE; do
  drop+=(--cap-drop "CAP_$capability")
done
started=()

at_exit() {
  local process
  for process in "${started[@]}"; do kill "$process" 2>/dev/null || true; done
  rm -rf "$work"
}
trap at_exit EXIT

in_containerd() {
  timeout 60 ctr --namespace k8s.io "$@"
}

# import FILE: sets $image to the name in it.
import() {
  [ -e "$images/$1" ] || fail "$images/$1 is absent: build it with hack/image"
  in_containerd images import "$images/$1" >/dev/null
  image="$(tar --extract --to-stdout --file "$images/$1" ./index.json | sed 's/.*"io.containerd.image.name": "\([^"]*\)".*/\1/')"
}

# run ID FLAG… -- ARGUMENT…: in a container; without arguments what the image says.
run() {
  local id="$1" flags=()
  shift
  while [ "$1" != -- ]; do
    flags+=("$1")
    shift
  done
  shift
  in_containerd run --cgroup "$cgroup/$id" --read-only "${drop[@]}" "${flags[@]}" "$image" "$id" "$@"
}

# says TEXT ID COMMAND…
says() {
  local expected="$1" id="$2" found
  shift 2
  found="$(run "$id" --rm -- "$@")"
  [ "$found" = "$expected" ] || fail "$*: expected \"$expected\", found \"$found\""
  say "ok: $found"
}

# refuses ID PROGRAM: nothing of that name is in the image.
refuses() {
  ! run "$1" --rm -- "$2" >"$work/refused" 2>&1 || fail "$image has $2"
  grep -q "no such file or directory" "$work/refused" || fail "$image, $2: expected that there is no such file: $(cat "$work/refused")"
  say "ok: no $2"
}

# has_status NAME VALUE: of the process $process.
has_status() {
  local found
  found="$(awk -v name="$1:" '$1 == name { print $2 }' "/proc/$process/status")"
  [ "$found" = "$2" ] || fail "the controller's $1: expected $2, found $found"
}

# works ID: the controller of that name holds the lease and is ready. One that only waits for the lease is ready as well.
works() {
  [[ "$(kubectl --namespace lanemate-system get lease lanemate-controller --output 'jsonpath={.spec.holderIdentity}')" = "$1"_* ]] &&
    curl --fail --silent --max-time 2 http://127.0.0.1:9098/readyz
}

# controller_works ID FLAG…: within a minute, as the user of the image, without any right; and it ends when asked.
controller_works() {
  local id="$1" process
  shift
  # --net-host would also mount the hosts and resolv.conf of the machine.
  run "$id" --with-ns network:/proc/1/ns/net --env KUBECONFIG=/kubeconfig --env "POD_NAME=$id" --mount "type=bind,src=$work/kubeconfig,dst=/kubeconfig,options=rbind:ro" \
    "$@" -- >"$work/$id.log" 2>&1 &
  started+=("$!")
  wait_for 60 "the controller in $id to work" "$work/$id.log" works "$id"
  process="$(in_containerd tasks list | awk -v id="$id" '$1 == id { print $2 }')"
  has_status Uid 65532
  has_status Gid 65532
  has_status CapEff 0000000000000000
  has_status CapBnd 0000000000000000
  in_containerd tasks kill --signal SIGTERM "$id"
  wait_for 30 "the controller in $id to end" "$work/$id.log" has_ended "$id"
  in_containerd containers delete "$id"
  say "ok: controller, $id"
}

has_ended() {
  ! in_containerd tasks list | awk -v id="$1" '$1 == id && $3 == "RUNNING" { found = 1 } END { exit !found }'
}

version="$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml)"
import lanemate-kubelet-plugin.tar
says "lanemate-kubelet-plugin $version" plugin /usr/bin/lanemate-kubelet-plugin version
says "lanemate-kubelet-plugin $version" plugin /usr/bin/lanemate-kubelet-plugin --version
refuses plugin-shell /bin/sh
import lanemate-controller.tar
says "lanemate-controller $version" controller /usr/bin/lanemate-controller version
refuses controller-shell /bin/sh

# The API server by its name in a cluster, so that the static resolver is put to the test.
kubectl config view --raw --minify --flatten --output json |
  TOKEN="$(kubectl --namespace lanemate-system create token lanemate-controller)" \
    jq '.clusters[0].cluster.server = "https://kubernetes.default.svc" | .users[0].user = { token: env.TOKEN }' >"$work/kubeconfig"
chmod 755 "$work"
chmod 644 "$work/kubeconfig"
echo "10.96.0.1 kubernetes.default.svc" >"$work/hosts"
controller_works names-from-hosts --mount "type=bind,src=$work/hosts,dst=/etc/hosts,options=rbind:ro"

perl test/image/name-server.pl kubernetes.default.svc 10.96.0.1 >"$work/name-server.log" 2>&1 &
started+=("$!")
echo "nameserver 127.0.0.1" >"$work/resolv.conf"
controller_works names-from-dns --mount "type=bind,src=$work/resolv.conf,dst=/etc/resolv.conf,options=rbind:ro"
grep -q "kubernetes.default.svc" "$work/name-server.log" || fail "the name server was not asked"
