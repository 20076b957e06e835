# What is left of clusters that have died: found, and removed. To be sourced.

runs="$cluster_target/run"

# One path per cgroup hierarchy of the machine, version 1 or 2.
cgroup_hierarchies() {
  awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/mounts | sort -u
}

# is_supervisor PID: whether the process is the supervisor of a cluster, not another with a number used again.
is_supervisor() {
  { tr '\0' ' ' <"/proc/$1/cmdline" | grep -q '^unshare .*/hack/lib/inside.sh '; } 2>/dev/null
}

# is_running NAME
is_running() {
  local pid
  pid="$(cat "$runs/$1/supervisor" 2>/dev/null)" && is_supervisor "$pid"
}

# locked COMMAND…: one at a time among all that start and remove clusters here.
locked() {
  mkdir -p "$runs"
  (
    flock --timeout 60 9 || fail "waited 60 s for the lock $cluster_target/lock"
    "$@"
  ) 9>"$cluster_target/lock"
}

# Removes the cgroups of every cluster on this machine, and the directories of every cluster of this checkout, that have no supervisor.
sweep() {
  local group directory
  while read -r group; do
    is_supervisor "${group##*/lanemate-}" || remove_cgroup "$group"
  done < <(cgroup_hierarchies | while read -r group; do compgen -G "$group/lanemate-[0-9]*" || true; done)
  for directory in "$runs"/*/; do
    is_running "$(basename "$directory")" || rm -rf "$directory"
  done
}

# Its processes were killed with the namespace; the last may take a moment to go.
remove_cgroup() {
  local deadline="$((SECONDS + 10))"
  until find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || [ ! -e "$1" ]; do
    [ "$SECONDS" -lt "$deadline" ] || fail "waited 10 s for the processes in $1 to end"
    sleep 0.05
  done
}
