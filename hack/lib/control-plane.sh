# etcd, API server, controller manager and scheduler, inside the cluster's namespaces. To be sourced.

# Requests per second that controller manager and scheduler may make: more for benchmarks, see --help.
controller_manager_rate="${LANEMATE_CLUSTER_RATE:-300}" scheduler_rate="${LANEMATE_CLUSTER_RATE:-50}"

# For tests of what happens where a feature is off.
gates=(${LANEMATE_FEATURE_GATES:+--feature-gates "$LANEMATE_FEATURE_GATES"})

# daemon NAME COMMAND…: its output goes to the log of that name, its end to the log of the cluster.
daemon() {
  local name="$1"
  shift
  { "$@" >"$log/$name.log" 2>&1 </dev/null || say "$name ended with status $?"; } &
}

# component NAME ARGUMENT…: a program of the control plane, started again whenever it ends.
component() {
  daemon "$1" keep "$@"
}

start_control_plane() {
  make_authority
  certificate api-server /CN=kube-apiserver \
    "IP:127.0.0.1,IP:$node_address,IP:$service_address,DNS:localhost,DNS:kubernetes.default.svc,DNS:kubernetes.default"
  kubeconfig admin /O=system:masters/CN=admin
  kubeconfig controller-manager /CN=system:kube-controller-manager
  kubeconfig scheduler /CN=system:kube-scheduler
  # The state of a test needs no disk.
  component etcd --data-dir /run/lanemate/etcd --unsafe-no-fsync --log-level warn
  start_api_server
}

start_api_server() {
  wait_for 60 "etcd to be healthy" "$log/etcd.log" is_healthy etcd
  component kube-apiserver --etcd-servers http://127.0.0.1:2379 \
    --bind-address 0.0.0.0 --secure-port 443 --advertise-address "$node_address" --service-cluster-ip-range 10.96.0.0/16 \
    --tls-cert-file "$keys/api-server.crt" --tls-private-key-file "$keys/api-server.key" --client-ca-file "$keys/ca.crt" \
    --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$keys/service-accounts.key" \
    --service-account-signing-key-file "$keys/service-accounts.key" \
    --kubelet-client-certificate "$keys/admin.crt" --kubelet-client-key "$keys/admin.key" \
    --kubelet-certificate-authority "$keys/ca.crt" --kubelet-preferred-address-types InternalIP "${gates[@]}"
}

# The last two end when the API server does not know their roles yet.
finish_control_plane() {
  wait_for 120 "the API server to be ready" "$log/kube-apiserver.log" is_healthy kube-apiserver
  component kube-controller-manager \
    --kubeconfig /run/lanemate/controller-manager.kubeconfig \
    --authentication-kubeconfig /run/lanemate/controller-manager.kubeconfig \
    --authorization-kubeconfig /run/lanemate/controller-manager.kubeconfig \
    --bind-address 127.0.0.1 --leader-elect=false --use-service-account-credentials --root-ca-file "$keys/ca.crt" \
    --service-account-private-key-file "$keys/service-accounts.key" \
    --kube-api-qps "$controller_manager_rate" --kube-api-burst "$controller_manager_rate" \
    "${gates[@]}" --node-monitor-grace-period 24h # Nodes that a test makes by hand have no kubelet to keep them ready.
  cat >/run/lanemate/scheduler.yaml <<YAML
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: /run/lanemate/scheduler.kubeconfig, qps: $scheduler_rate, burst: $((2 * scheduler_rate))}
YAML
  component kube-scheduler --config /run/lanemate/scheduler.yaml \
    --authentication-kubeconfig /run/lanemate/scheduler.kubeconfig \
    --authorization-kubeconfig /run/lanemate/scheduler.kubeconfig --bind-address 127.0.0.1 "${gates[@]}"
  wait_for 60 "the controller manager to be healthy" "$log/kube-controller-manager.log" is_healthy kube-controller-manager
  wait_for 60 "the scheduler to be healthy" "$log/kube-scheduler.log" is_healthy kube-scheduler
  # The node authorizer can lag by seconds on a busy machine, and kubelet then waits as long before it tries a pod again.
  kubectl create clusterrolebinding nodes-by-role --clusterrole system:node --group system:nodes
  [ -n "$hardware" ] || kubectl apply -f "$repository/deploy/crds" -f "$repository/deploy/deviceclasses.yaml" \
    -f "$repository/deploy/rbac" -f "$repository/deploy/admission"
  wait_for 60 "the default service account" "$log/kube-controller-manager.log" kubectl get serviceaccount default
}
