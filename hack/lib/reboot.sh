# A reboot of the node, as far as anything on it can tell; inside the cluster's namespaces. To be sourced after components.sh.
# The control plane goes on, as if it were elsewhere. What stands for the disk stays: /var/lib/kubelet, and containerd's images.

reboot() {
  local program before hierarchy
  touch "$state/kubelet.stopped" "$state/containerd.stopped"
  for program in kubelet containerd; do
    component="$program"
    before="$(cat "$state/$program.pid")"
    end KILL
  done
  end_pods
  while read -r hierarchy; do
    remove_cgroup "$hierarchy/lanemate-$(cat "$runs/$name/supervisor")/kubepods"
  done < <(cgroup_hierarchies)
  unmount_below /var/lib/kubelet/pods /run/containerd /run/netns "$state/containerd"
  rm -rf /run/containerd /run/cdi /run/netns /run/lock
  mkdir -p /run/{containerd,cdi,lock}
  [ ! -e "$state/host" ] || cat /proc/sys/kernel/random/uuid >"$state/host/proc/sys/kernel/random/boot_id"
  rm "$state/containerd.stopped"
  wait_for 30 "containerd to answer" "$logs/containerd.log" ctr version
  rm "$state/kubelet.stopped"
  wait_for 60 "another kubelet to be healthy and to know the pods of its node" "$logs/kubelet.log" another_kubelet "$before"
}

end_pods() {
  local deadline="$((SECONDS + 20))" found
  while true; do
    found="$(pod_processes)"
    [ -n "$found" ] || return 0
    [ "$SECONDS" -lt "$deadline" ] || fail "waited 20 s for the processes of pods to end: $found"
    # Some are gone already.
    # shellcheck disable=SC2086
    kill -KILL $found 2>/dev/null || true
    sleep 0.05
  done
}

# The shims, which are known by their names in this process namespace, and all that is in the cgroups of pods.
pod_processes() {
  local process
  for process in /proc/[0-9]*; do
    if [[ "$(cat "$process/comm" 2>/dev/null)" == containerd-shim* ]] || grep -q kubepods "$process/cgroup" 2>/dev/null; then
      has_exited "${process#/proc/}" || echo "${process#/proc/}"
    fi
  done
}

# unmount_below DIRECTORY…: the last mounted first.
unmount_below() {
  local directory mount
  for directory in "$@"; do
    while read -r mount; do umount --lazy "$mount"; done < <(
      awk -v below="$directory/" 'index($2, below) == 1 { print $2 }' /proc/self/mounts | tac
    )
  done
}
