# Lanemate in the cluster, as a user installs it: two images and a chart. To be sourced.

# Also install, once the cluster is up.
with_install=""
system=lanemate-system

is_installed() {
  inside kubectl get namespace "$system" >/dev/null 2>&1
}
