# The programs of the control plane, kept running, and ended by hand; inside the cluster's namespaces. To be sourced after keys.sh.

components=(etcd kube-apiserver kube-controller-manager kube-scheduler)

# keep COMPONENT ARGUMENT…: as an init system would, starts it again whenever it ends; not while it is stopped by hand.
keep() {
  local component="$1"
  while true; do
    while [ -e "$state/$component.stopped" ]; do sleep 0.05; done
    "$@" &
    echo "$!" >"$state/$component.pid"
    wait "$!" || echo "$component ended with status $?"
    # One that cannot start must not take the machine.
    sleep 0.2
  done
}

# answers URL: whether a server that the authority vouches for, or that serves itself, says yes.
answers() {
  curl --silent --fail --output /dev/null --max-time 5 --insecure --cert "$keys/admin.crt" --key "$keys/admin.key" "$1"
}

is_healthy() {
  case "$1" in
    etcd) answers http://127.0.0.1:2379/health ;;
    kube-apiserver) answers "https://$node_address:443/readyz" ;;
    kube-controller-manager) answers https://127.0.0.1:10257/healthz ;;
    kube-scheduler) answers https://127.0.0.1:10259/healthz ;;
  esac
}

# treat VERB COMPONENT: returns when it is done, and when what shall run is healthy.
treat() {
  local verb="$1" component="$2" before
  [[ " ${components[*]} " == *" $component "* ]] || fail "no component $component: expected one of ${components[*]}"
  before="$(cat "$state/$component.pid")"
  case "$verb" in
    restart) end TERM && await_healthy ;;
    kill) end KILL && await_healthy ;;
    stop) touch "$state/$component.stopped" && end TERM ;;
    start) rm -f "$state/$component.stopped" && await_healthy ;;
    pause) kill -STOP "$before" ;;
    resume) kill -CONT "$before" && await_healthy ;;
  esac
}

# end SIGNAL: what has not ended after 5 s is killed. An API server would wait a minute for its watches, etcd 7 s for the API server.
end() {
  local deadline="$((SECONDS + 5))"
  kill "-$1" "$before" || fail "$component does not run: hack/$kind start $name $component"
  until has_exited "$before" || [ "$SECONDS" -ge "$deadline" ]; do sleep 0.05; done
  kill -KILL "$before" 2>/dev/null || true
  wait_for 10 "$component to end" "$logs/$component.log" has_exited "$before"
}

# has_exited PID: a process that was not collected yet has ended, too.
has_exited() {
  [[ "$(cut -d' ' -f3 "/proc/$1/stat" 2>/dev/null || echo Z)" == Z ]]
}

await_healthy() {
  wait_for 60 "$component to be healthy" "$logs/$component.log" runs_healthy
}

runs_healthy() {
  ! has_exited "$(cat "$state/$component.pid")" && is_healthy "$component"
}
