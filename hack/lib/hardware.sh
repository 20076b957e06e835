# A node whose hardware is a captured machine. To be sourced.

# The name of the machine, or nothing; how many nodes without a kubelet stand beside.
hardware="" further_nodes=0
test_node="${LANEMATE_TEST_NODE:-$(dirname "$cluster_target")/debug/test-node}"

has_hardware() {
  [ -e "$runs/$name/hardware" ]
}

# Unless LANEMATE_TEST_NODE is one that is built already.
build_test_node() {
  [ -z "${LANEMATE_TEST_NODE:-}" ] || return 0
  command -v cargo >/dev/null || fail "cargo is absent: install rustup, https://rustup.rs"
  (cd "$repository" && cargo build --locked --package lanemate-test-cluster --bin test-node) >&2
}

# Inside the namespaces: the root that the plugin is given.
render_hardware() {
  [ ! -e "$directory/hardware" ] || hardware="$(cat "$directory/hardware")"
  [ -z "$hardware" ] || "$test_node" render "$hardware" "$state/host"
}

# They start at once: the node controller takes seconds to let pods onto each.
add_nodes() {
  local number added=()
  for ((number = 2; number < 2 + further_nodes; number++)); do
    inside "$test_node" add "node-$number" "$hardware" &
    added+=("$!")
  done
  for number in "${added[@]}"; do
    wait "$number" || fail "a node could not be added"
  done
}
