# What makes the inside of a cluster its own: mounts, network, sysctls, cgroups. To be sourced.

state=/run/lanemate
node_address=10.77.0.1
service_address=10.96.0.1

# Directories of the host that kubelet, containerd and plugins write to become the cluster's own: what is written
# there lies in memory and goes with the mount namespace.
make_mounts() {
  mount --make-rshared /
  mount -t tmpfs -o size=8g,mode=755 lanemate /run
  mkdir -p "$state"/{kubelet,pod-logs,containerd} /run/{containerd,cdi,lock}
  local path upper
  for path in /etc /var/lib /var/log; do
    upper="$state/overlay$path"
    mkdir -p "$upper" "$upper.work"
    mount -t overlay -o "lowerdir=$path,upperdir=$upper,workdir=$upper.work" lanemate "$path"
  done
  mkdir -p /etc/cdi /var/lib/kubelet
  mount --bind "$state/kubelet" /var/lib/kubelet
}

# kubelet sets these when they differ; the machine's own are left alone.
make_sysctls() {
  local setting file
  for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    file="$state/sysctl/${setting%=*}"
    mkdir -p "${file%/*}"
    echo "${setting#*=}" >"$file"
    mount --bind "$file" "/proc/sys/${setting%=*}"
  done
}

# One group per hierarchy, named after the supervisor, so that a sweep knows whose it is.
make_cgroups() {
  local hierarchy controller file
  # With version 2 alone, kubelet wants every controller in its group, and they come from the group above.
  for controller in $(cat /sys/fs/cgroup/cgroup.controllers 2>/dev/null); do
    echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control || say "cgroup controller $controller is not to be had"
  done
  while read -r hierarchy; do
    mkdir -p "$hierarchy/$cgroup"
    [ ! -e "$hierarchy/cgroup.controllers" ] || continue
    # Version 1 leaves a new group without processors and memory nodes, and such a group takes no process.
    for file in cpuset.cpus cpuset.mems; do
      [ ! -e "$hierarchy/$file" ] || cat "$hierarchy/$file" >"$hierarchy/$cgroup/$file"
    done
  done < <(cgroup_hierarchies)
}

# A service address that is an address of the node leads pods to the API server without any translation.
make_network() {
  ip link set lo up
  ip address add "$service_address/32" dev lo
  ip link add node0 type veth peer name node1
  ip address add "$node_address/24" dev node0
  ip link set node0 up
  ip link set node1 up
  ip route add default dev node0
}
