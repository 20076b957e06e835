# The commands of hack/cluster and hack/control-plane. To be sourced; the caller sets $kind to its own name.

for part in shell sweep isolation keys binaries helm components hardware install restart-kubelet reboot; do
  # shellcheck source=/dev/null
  . "$repository_lib/$part.sh"
done

start() {
  ! is_running "$name" || fail "$name is running already: hack/$kind down $name"
  sweep
  mkdir -p "$runs/$name" "$logs"
  echo "$kind" >"$runs/$name/kind"
  [ -z "$hardware" ] || echo "$hardware" >"$runs/$name/hardware"
  rm -f "$logs"/*.log
  setsid bash "$repository_lib/supervise.sh" "$kind" "$runs/$name" "$logs" "$1" </dev/null >"$logs/$kind.log" 2>&1 9>&- &
  wait_for 10 "the supervisor of $name to start" "$logs/$kind.log" is_running "$name"
}

ready_or_ended() {
  [ -e "$runs/$name/ready" ] || ! is_running "$name"
}

# up OWNER
up() {
  [ "$(id -u)" -eq 0 ] || fail "needs root: it makes namespaces, mounts and cgroups"
  case "$cluster_target/" in
    /etc/* | /run/* | /var/lib/* | /var/log/*) fail "$cluster_target lies where a cluster has its own files: set CARGO_TARGET_DIR to another directory" ;;
  esac
  local need
  for need in curl:curl ip:iproute2 openssl:openssl busybox:busybox-static; do
    [ "$kind" != control-plane ] || [ "$need" != busybox:busybox-static ] || continue
    need_package "${need%:*}" "${need#*:}"
  done
  ensure_binaries
  [ -z "$hardware" ] || build_test_node
  locked start "$1"
  wait_for 240 "$name to be ready" "$logs/$kind.log" ready_or_ended
  if ! is_running "$name"; then
    tail -n 40 "$logs/$kind.log" >&2
    fail "$name ended while it started; its logs are in $logs"
  fi
}

stop() {
  ! is_running "$name" || end_processes
  locked sweep
}

# The first process of the namespaces is killed, and its parent ends when nothing of them is left.
end_processes() {
  local supervisor first
  supervisor="$(cat "$runs/$name/supervisor")"
  read -r first _ <"/proc/$supervisor/task/$supervisor/children" || true
  kill -KILL "${first:-$supervisor}" 2>/dev/null || true
  wait_for 20 "the processes of $name to end" "$logs/$kind.log" has_ended
}

has_ended() {
  ! is_running "$name"
}

# inside COMMAND…: in the namespaces of the cluster, from there as from outside.
inside() {
  if [ "${LANEMATE_CLUSTER:-}" = "$name" ]; then
    "$@"
    return
  fi
  is_running "$name" || fail "$name is not running: hack/$kind up $name"
  [ -n "${LANEMATE_CLUSTER_BIN:-}" ] || LANEMATE_CLUSTER_BIN="$cluster_target/bin"
  local supervisor
  supervisor="$(cat "$runs/$name/supervisor")"
  nsenter --net="/proc/$supervisor/ns/net" --mount="/proc/$supervisor/ns/mnt" --pid="/proc/$supervisor/ns/pid_for_children" \
    env --chdir "$PWD" PATH="$LANEMATE_CLUSTER_BIN:$PATH" KUBECONFIG=/run/lanemate/admin.kubeconfig \
    LANEMATE_CLUSTER="$name" LANEMATE_CLUSTER_BIN="$LANEMATE_CLUSTER_BIN" LANEMATE_CLUSTER_LOGS="$logs" \
    LANEMATE_CLUSTER_COMMAND="$repository/hack/$kind" "$@"
}

status() {
  if ! is_running "$name"; then
    echo "$name is not running"
    return 1
  fi
  echo "$name is running, supervisor $(cat "$runs/$name/supervisor"), logs in $logs"
  inside kubectl get nodes
}
