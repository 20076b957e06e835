#!/usr/bin/env bash
# Kills clusters in the ways in which they can die, and looks for what they leave: processes, cgroups, mounts, links, files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
for part in shell sweep; do
  # shellcheck source=/dev/null
  . "hack/lib/$part.sh"
done
name=left-behind
log="$cluster_target/log/$name/cluster.log"

# outside: what every cluster could change on the machine, in one comparable text.
outside() {
  cat /proc/self/mounts
  ip -oneline link show | sed 's/:.*//' | sort
  find /etc/cdi /var/lib/kubelet /var/run/cdi /var/run/netns /var/log/pods /var/log/containers -maxdepth 1 2>/dev/null || true
}

# members NETWORK: the processes in a network namespace.
members() {
  local process
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/ns/net" 2>/dev/null)" != "$1" ] || echo "$process $(tr '\0' ' ' <"$process/cmdline")"
  done
}

no_members() {
  [ -z "$(members "$network")" ]
}

# gone: nothing of the cluster is there. Says what is, for the log.
gone() {
  local found
  found="$(
    members "$network"
    cgroup_hierarchies | while read -r group; do compgen -G "$group/lanemate-$supervisor" || true; done
    ls -d "$runs/$name" 2>/dev/null
  )" || true
  echo "$found" >"$log"
  [ -z "$found" ]
}

# A cluster with a running pod: shims, cgroups, mounts and a network of a pod are there.
start_with_pod() {
  hack/cluster up "$name" >/dev/null
  supervisor="$(cat "$runs/$name/supervisor")"
  network="$(readlink "/proc/$supervisor/ns/net")"
  watcher="$(awk '{ print $4 }' "/proc/$supervisor/stat")"
  hack/cluster run "$name" -- kubectl run pod --image localhost/busybox:1
  hack/cluster run "$name" -- kubectl wait --for condition=Ready --timeout 60s pod/pod
  [ "$(members "$network" | wc -l)" -gt 8 ] || fail "expected the processes of a cluster and a pod, found: $(members "$network")"
  ! gone || fail "the cluster was not seen while it ran"
}

# expect_gone HOW
expect_gone() {
  wait_for 15 "nothing to be left after $1" "$log" gone
  [ "$(outside)" = "$before" ] || fail "after $1 the machine differs: $(diff <(echo "$before") <(outside))"
  say "nothing is left after $1"
}

before="$(outside)"
start_with_pod
kill -KILL "$supervisor"
expect_gone "a kill of the supervisor"

start_with_pod
kill -KILL "$watcher" "$supervisor"
wait_for 15 "the processes to end" "$log" no_members
hack/cluster down "$name"
expect_gone "a kill of the supervisor and its watcher, and down"

sleep 600 &
owner="$!"
LANEMATE_CLUSTER_OWNER="$owner" start_with_pod
kill -KILL "$owner"
expect_gone "a kill of the owner"
