# etcd, API server, controller manager and scheduler, inside the cluster's namespaces. To be sourced.

# daemon NAME COMMAND…: its output goes to the log of that name, its end to the log of the cluster.
daemon() {
  local name="$1"
  shift
  { "$@" >"$log/$name.log" 2>&1 </dev/null || say "$name ended with status $?"; } &
}

# answers URL: whether a server that the authority vouches for, or that serves itself, says yes.
answers() {
  curl --silent --fail --output /dev/null --max-time 5 --insecure --cert "$keys/admin.crt" --key "$keys/admin.key" "$1"
}

start_control_plane() {
  make_authority
  certificate api-server /CN=kube-apiserver \
    "IP:127.0.0.1,IP:$node_address,IP:$service_address,DNS:localhost,DNS:kubernetes.default.svc,DNS:kubernetes.default"
  kubeconfig admin /O=system:masters/CN=admin
  kubeconfig controller-manager /CN=system:kube-controller-manager
  kubeconfig scheduler /CN=system:kube-scheduler
  # The state of a test needs no disk.
  daemon etcd etcd --data-dir /run/lanemate/etcd --unsafe-no-fsync --log-level warn
  start_api_server
}

start_api_server() {
  wait_for 60 "etcd to be healthy" "$log/etcd.log" answers http://127.0.0.1:2379/health
  daemon kube-apiserver kube-apiserver --etcd-servers http://127.0.0.1:2379 \
    --bind-address 0.0.0.0 --secure-port 443 --advertise-address "$node_address" --service-cluster-ip-range 10.96.0.0/16 \
    --tls-cert-file "$keys/api-server.crt" --tls-private-key-file "$keys/api-server.key" --client-ca-file "$keys/ca.crt" \
    --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$keys/service-accounts.key" \
    --service-account-signing-key-file "$keys/service-accounts.key" \
    --kubelet-client-certificate "$keys/admin.crt" --kubelet-client-key "$keys/admin.key" \
    --kubelet-certificate-authority "$keys/ca.crt" --kubelet-preferred-address-types InternalIP
}

# Both end when the API server does not know their roles yet.
finish_control_plane() {
  wait_for 120 "the API server to be ready" "$log/kube-apiserver.log" answers "https://$node_address:443/readyz"
  daemon kube-controller-manager kube-controller-manager --kubeconfig /run/lanemate/controller-manager.kubeconfig \
    --authentication-kubeconfig /run/lanemate/controller-manager.kubeconfig \
    --authorization-kubeconfig /run/lanemate/controller-manager.kubeconfig \
    --bind-address 127.0.0.1 --leader-elect=false --use-service-account-credentials --root-ca-file "$keys/ca.crt" \
    --service-account-private-key-file "$keys/service-accounts.key" --kube-api-qps 300 --kube-api-burst 300 \
    --node-monitor-grace-period 24h # Nodes that a test makes by hand have no kubelet to keep them ready.
  daemon kube-scheduler kube-scheduler --kubeconfig /run/lanemate/scheduler.kubeconfig \
    --authentication-kubeconfig /run/lanemate/scheduler.kubeconfig \
    --authorization-kubeconfig /run/lanemate/scheduler.kubeconfig --bind-address 127.0.0.1 --leader-elect=false
  wait_for 60 "the controller manager to be healthy" "$log/kube-controller-manager.log" answers https://127.0.0.1:10257/healthz
  wait_for 60 "the scheduler to be healthy" "$log/kube-scheduler.log" answers https://127.0.0.1:10259/healthz
  # The node authorizer can lag by seconds on a busy machine, and kubelet then waits as long before it tries a pod again.
  kubectl create clusterrolebinding nodes-by-role --clusterrole system:node --group system:nodes
  kubectl apply -f "$repository/deploy/crds" -f "$repository/deploy/deviceclasses.yaml"
  wait_for 60 "the default service account" "$log/kube-controller-manager.log" kubectl get serviceaccount default
}
