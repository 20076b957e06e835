# A new kubelet in place of the one that runs; inside the cluster's namespaces. To be sourced.

restart_kubelet() {
  local before
  before="$(cat /run/lanemate/kubelet.pid)"
  kill -TERM "$before"
  wait_for 30 "another kubelet to be healthy and to know the pods of its node" "$logs/kubelet.log" another_kubelet "$before"
}

# another_kubelet PID: whether another than that one is at work. It is healthy before it has heard of its pods.
another_kubelet() {
  local pods uid
  [ "$(cat /run/lanemate/kubelet.pid)" != "$1" ] && curl --silent --fail --output /dev/null http://127.0.0.1:10248/healthz || return 1
  pods="$(kubectl get --raw /api/v1/nodes/node-1/proxy/pods)" || return 1
  for uid in $(kubectl get pods --all-namespaces --field-selector spec.nodeName=node-1 --output 'jsonpath={.items[*].metadata.uid}'); do
    [[ "$pods" == *"$uid"* ]] || return 1
  done
}
