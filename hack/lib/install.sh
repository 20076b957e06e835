# Lanemate in the cluster, as a user installs it: two images and a chart. To be sourced.

# Whether `up` installs as well.
with_install=""
system=lanemate-system
programs=(lanemate-controller lanemate-kubelet-plugin)

is_installed() {
  inside kubectl get namespace "$system" >/dev/null 2>&1
}

# Outside: what is installed is built from this checkout, unless LANEMATE_IMAGES is a directory with both images.
install_chart() {
  if [ -z "${LANEMATE_IMAGES:-}" ]; then
    "$repository/hack/image" >&2
    LANEMATE_IMAGES="$target_dir/images"
  fi
  LANEMATE_IMAGES="$(realpath "$LANEMATE_IMAGES")"
  export LANEMATE_IMAGES
  ensure_helm
  inside "$repository/hack/$kind" install-inside "$name" >&2
}

# Inside the namespaces.
install_inside() {
  local program
  for program in "${programs[@]}"; do
    ctr --namespace k8s.io images import "$LANEMATE_IMAGES/$program.tar"
  done
  # kubelet, containerd and the plugin have the usual directories; the hardware alone is elsewhere, and has no NVIDIA library to ask.
  helm install lanemate "$repository/deploy/helm/lanemate" --namespace "$system" --create-namespace \
    --set image.registry=localhost --set plugin.root="$state/host" --set plugin.privileged=false \
    --set "plugin.nodeSelector.kubernetes\.io/hostname=node-1"
  wait_for 120 "slices of node-1: see hack/$kind run $name -- kubectl describe pods --namespace $system" "$logs/kubelet.log" has_slices
  wait_for 60 "the pods in $system on node-1 to be ready" "$logs/kubelet.log" has_ready_pods
}

has_ready_pods() {
  kubectl --namespace "$system" wait --for condition=Ready --timeout 1s pods --field-selector spec.nodeName=node-1
}

has_slices() {
  [ -n "$(kubectl get resourceslices --field-selector spec.driver=lanemate.dev,spec.nodeName=node-1 --output name)" ]
}
