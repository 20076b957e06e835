# Helm, built from test/helm/go.mod beside the programs of the cluster. To be sourced after binaries.sh.

# Leaves helm in LANEMATE_CLUSTER_BIN, which `ensure_binaries` has set or the caller brings.
ensure_helm() {
  local key
  : "${LANEMATE_CLUSTER_BIN:=$cluster_target/bin}"
  key="$({ cat "$repository"/test/helm/go.{mod,sum} && declare -f ensure_helm; } | sha256sum | cut -d' ' -f1)"
  mkdir -p "$LANEMATE_CLUSTER_BIN"
  (
    flock 9
    [ "$(cat "$LANEMATE_CLUSTER_BIN/helm-built-from" 2>/dev/null)" != "$key" ] || exit 0
    command -v go >/dev/null || fail "go is absent: install the version that test/helm/go.mod names, https://go.dev/dl"
    say "building helm: two minutes the first time, then from Go's cache"
    (cd "$repository/test/helm" && CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -trimpath -buildvcs=false -ldflags "-s -w" \
      -o "$LANEMATE_CLUSTER_BIN/helm" helm.sh/helm/v4/cmd/helm) >&2 || fail "building helm failed"
    echo "$key" >"$LANEMATE_CLUSTER_BIN/helm-built-from"
  ) 9>"$LANEMATE_CLUSTER_BIN/helm-lock"
}
