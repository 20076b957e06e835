# The programs of a cluster, built from test/cluster/go.mod. To be sourced; sets and exports LANEMATE_CLUSTER_BIN.

kubernetes_programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl)
containerd_programs=(containerd containerd-shim-runc-v2 ctr)
network_programs=(main/ptp main/loopback ipam/host-local)
built_programs=("${kubernetes_programs[@]}" "${containerd_programs[@]}" "${network_programs[@]##*/}" runc etcd)

version_of() {
  awk -v module="$1" '$1 == module && $2 ~ /^v/ { print $2; exit }' "$repository/test/cluster/go.mod"
}

# Leaves in the directory what go.mod and this file say, and nothing that is built already.
ensure_binaries() {
  local program
  if [ -n "${LANEMATE_CLUSTER_BIN:-}" ]; then
    LANEMATE_CLUSTER_BIN="$(realpath "$LANEMATE_CLUSTER_BIN")"
    for program in "${built_programs[@]}"; do
      [ -x "$LANEMATE_CLUSTER_BIN/$program" ] ||
        fail "LANEMATE_CLUSTER_BIN=$LANEMATE_CLUSTER_BIN has no program $program: leave the variable unset, and it is built"
    done
  else
    LANEMATE_CLUSTER_BIN="$cluster_target/bin"
    mkdir -p "$LANEMATE_CLUSTER_BIN"
    local key
    key="$({ cat "$repository"/test/cluster/go.{mod,sum} && declare -f build_binaries build; } | sha256sum | cut -d' ' -f1)"
    # Two that start at once build once; the lock ends with the subshell.
    (
      flock 9
      [ "$(cat "$LANEMATE_CLUSTER_BIN/built-from" 2>/dev/null)" = "$key" ] || build_binaries
      echo "$key" >"$LANEMATE_CLUSTER_BIN/built-from"
    ) 9>"$LANEMATE_CLUSTER_BIN/lock"
  fi
  export LANEMATE_CLUSTER_BIN
}

build_binaries() {
  rm -f "$LANEMATE_CLUSTER_BIN/built-from"
  command -v go >/dev/null || fail "go is absent: install the version that test/cluster/go.mod names, https://go.dev/dl"
  need_package cc gcc
  need_package pkg-config pkg-config
  pkg-config --exists libseccomp || install_packages libseccomp-dev
  local kubernetes program stamp=k8s.io/component-base/version
  kubernetes="$(version_of k8s.io/kubernetes)"
  local minor="${kubernetes#v1.}"
  local flags="-s -w -X $stamp.gitVersion=$kubernetes -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*}"
  say "building the programs of the cluster in $LANEMATE_CLUSTER_BIN: about ten minutes the first time, then from Go's cache"
  for program in "${network_programs[@]}"; do
    build "${program##*/}" 0 "-s -w" github.com/containernetworking/plugins/plugins/"$program"
  done
  # runc enters namespaces in C, and kubelet asks it for seccomp.
  build runc 1 "-s -w -X main.version=$(version_of github.com/opencontainers/runc)" -tags seccomp github.com/opencontainers/runc
  for program in "${containerd_programs[@]}"; do
    build "$program" 0 "-s -w" -tags no_btrfs,no_devmapper,no_zfs github.com/containerd/containerd/v2/cmd/"$program"
  done
  build etcd 0 "-s -w" go.etcd.io/etcd/server/v3
  for program in "${kubernetes_programs[@]}"; do
    build "$program" 0 "$flags" k8s.io/kubernetes/cmd/"$program"
  done
}

# build PROGRAM CGO LINKER-FLAGS ARGUMENT…
build() {
  local start="$SECONDS" program="$1" cgo="$2" flags="$3"
  shift 3
  (cd "$repository/test/cluster" &&
    CGO_ENABLED="$cgo" GOFLAGS=-mod=readonly go build -trimpath -buildvcs=false -ldflags "$flags" -o "$LANEMATE_CLUSTER_BIN/$program" "$@") >&2 ||
    fail "building $program failed"
  say "$(printf '%5d s  %s' "$((SECONDS - start))" "$program")"
}
