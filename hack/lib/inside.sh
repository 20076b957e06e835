#!/usr/bin/env bash
# The first process of a cluster's namespaces: starts what belongs to it, then collects what ends. All ends when it does.
# inside.sh KIND DIRECTORY LOG CGROUP
set -euo pipefail
here="$(dirname "${BASH_SOURCE[0]}")"
for part in shell sweep isolation keys components control-plane image node hardware; do
  # shellcheck source=/dev/null
  . "$here/$part.sh"
done
kind="$1" directory="$2" log="$3" cgroup="$4"
export PATH="$LANEMATE_CLUSTER_BIN:/usr/sbin:/sbin:$PATH" KUBECONFIG=/run/lanemate/admin.kubeconfig

since() {
  say "$(awk '{ printf "%6.1f s", $1 - '"$began"' }' /proc/uptime)  $1"
}
began="$(cut -d' ' -f1 /proc/uptime)"
make_mounts
make_network
render_hardware
start_control_plane
since "control plane started"
if [ "$kind" = cluster ]; then
  start_containerd
  since "containerd has its image"
fi
finish_control_plane
since "control plane ready"
if [ "$kind" = cluster ]; then
  start_kubelet
  since "node ready"
fi
touch "$directory/ready"
while true; do
  wait -n || true
  sleep 1
done
