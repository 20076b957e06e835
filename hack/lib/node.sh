# containerd and kubelet, inside the cluster's namespaces. To be sourced.

node=node-1

# filled TEMPLATE: a file of test/cluster with its @words@ replaced.
filled() {
  sed -e "s|@BIN@|$LANEMATE_CLUSTER_BIN|g" -e "s|@CGROUP@|/$cgroup|g" -e "s|@ADDRESS@|$node_address|g" \
    -e "s|@KEYS@|$keys|g" "$repository/test/cluster/$1"
}

start_containerd() {
  make_sysctls
  make_cgroups
  mkdir -p "$state/cni"
  filled containerd.toml >"$state/containerd.toml"
  filled network.conflist >"$state/cni/10-network.conflist"
  component containerd --config "$state/containerd.toml"
  make_image "$state/image.tar"
  wait_for 30 "containerd to answer" "$log/containerd.log" ctr version
  ctr --namespace k8s.io images import "$state/image.tar"
}

start_kubelet() {
  kubeconfig kubelet "/O=system:nodes/CN=system:node:$node"
  certificate kubelet-serving "/O=system:nodes/CN=system:node:$node" "IP:$node_address,DNS:$node"
  filled kubelet.yaml >"$state/kubelet.yaml"
  component kubelet --config "$state/kubelet.yaml" --kubeconfig "$state/kubelet.kubeconfig" \
    --hostname-override "$node" --node-ip "$node_address"
  wait_for 60 "node $node to be Ready" "$log/kubelet.log" node_is_ready
}

node_is_ready() {
  kubectl wait --for condition=Ready --timeout 10s "node/$node"
}
