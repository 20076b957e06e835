# From the command line to a command. To be sourced after command-line.sh.

usage() {
  local what="etcd, API server, controller manager and scheduler"
  [ "$kind" = control-plane ] || what="$what, and one node with kubelet, containerd and runc"
  cat <<TEXT
hack/$kind COMMAND [NAME]

$what,
in network, mount and process namespaces of their own. Several can run side by side, each with a NAME ($kind unless given).

  up [NAME]               start it, and print what to type next
  down [NAME]             stop it; nothing stays but its logs
  status [NAME]           say whether it runs, with its nodes; status 1 when it does not
  run [NAME] -- COMMAND…  run a command in its namespaces, with KUBECONFIG and PATH set
  with [NAME] -- COMMAND… start it, run a command in its namespaces, stop it; it also ends when this process is killed
  VERB [NAME] COMPONENT   restart, kill (SIGKILL; it starts again), stop, start, pause or resume one of etcd, kube-apiserver,
                          kube-controller-manager, kube-scheduler; returns when what shall run is healthy
TEXT
  [ "$kind" = control-plane ] || cat <<TEXT
  restart-kubelet [NAME]  stop kubelet and wait until another one is at work
  reboot [NAME]           end all that runs on the node, empty /run, and start again under another boot id
  install [NAME]          install images and chart in a cluster with hardware; images are built, or taken from LANEMATE_IMAGES

\`up\` takes, before NAME:
  --host HOST             the hardware of the node is this machine of test/hosts/captures, in /run/lanemate/host; nothing of
                          deploy/ is applied then: the chart brings it
  --nodes N               N nodes more, without a kubelet, that publish the same devices; a taint keeps pods away from them
  --install               and then \`install\`
TEXT
  cat <<TEXT

Programs are built from test/cluster/go.mod into target/cluster/bin, or taken from LANEMATE_CLUSTER_BIN.
With LANEMATE_CLUSTER_RATE, controller manager and scheduler may make so many requests per second (else 300 and 50).
With LANEMATE_FEATURE_GATES, the control plane gets these: NAME=false,…
With LANEMATE_CLUSTER_OWNER, a process id, \`up\` starts what ends when that process does. More: docs/dev/cluster.md.
TEXT
}

print_next_steps() {
  cat <<TEXT
$name is ready. Inside of its namespaces, KUBECONFIG is /run/lanemate/admin.kubeconfig:
  hack/$kind run $name -- kubectl get nodes,pods --all-namespaces
TEXT
  ! has_hardware || print_next_with_hardware
  cat <<TEXT
  hack/$kind run $name -- bash
  hack/$kind down $name
TEXT
}

print_next_with_hardware() {
  if ! is_installed; then
    echo "  hack/$kind install $name"
    return
  fi
  local words
  for words in "get resourceslices" "apply -f docs/user/examples/pair.yaml" "get pods --namespace pair --watch"; do
    echo "  hack/$kind run $name -- kubectl $words"
  done
}

# up_options WORD…: sets the options of `up` and the rest of the words.
up_options() {
  while [[ "${1:-}" == --?* ]]; do
    [ "$kind" = cluster ] || fail "$1: a control plane has no node"
    case "$1" in
      --host)
        [ -e "$repository/test/hosts/captures/${2:-}.yaml" ] ||
          fail "--host ${2:-}: expected one of $(cd "$repository/test/hosts/captures" && printf '%s ' *.yaml | sed 's/\.yaml//g')"
        hardware="$2"
        shift 2
        ;;
      --nodes)
        [[ "${2:-}" =~ ^[0-9]{1,3}$ ]] || fail "--nodes ${2:-}: expected a number up to 999"
        further_nodes="$2"
        shift 2
        ;;
      --install)
        with_install=yes
        shift
        ;;
      *) fail "no option $1; see hack/$kind --help" ;;
    esac
  done
  [ -n "$hardware" ] || [ "$further_nodes$with_install" = 0 ] || fail "--nodes and --install need a --host"
  rest=("$@")
}

# Ends the cluster whatever becomes of the command, and with the command's status.
with() {
  ! is_running "$name" || fail "$name is running already: hack/$kind run $name -- COMMAND…"
  trap stop EXIT
  up "$$"
  inside "$@"
}

dispatch() {
  local command="${1:---help}"
  shift || true
  local component='' verb=''
  case "$command" in
    restart | kill | stop | start | pause | resume | treat-inside)
      [ $# -gt 0 ] || fail "expected hack/$kind $command [NAME] COMPONENT"
      component="${*: -1}"
      set -- "${@:1:$#-1}"
      ;;
  esac
  if [ "$command" = up ]; then
    up_options "$@"
    set -- "${rest[@]}"
  fi
  name="$kind"
  if [ $# -gt 0 ] && [ "$1" != -- ]; then
    name="$1"
    shift
  fi
  [[ "$name" =~ ^[a-z0-9][a-z0-9-]{0,30}$ ]] || fail "the name $name: expected up to 31 of a-z, 0-9 and -"
  logs="$cluster_target/log/$name"
  case "$command" in
    treat-inside)
      verb="$1"
      shift
      ;;
    run | with)
      { [ "${1:-}" = -- ] && [ $# -gt 1 ]; } || fail "expected hack/$kind $command [NAME] -- COMMAND…"
      shift
      ;;
    *) [ $# -eq 0 ] || fail "not understood: $*; see hack/$kind --help" ;;
  esac
  case "$command" in
    up)
      up "${LANEMATE_CLUSTER_OWNER:-0}"
      add_nodes
      [ -z "$with_install" ] || install_chart
      print_next_steps
      ;;
    down) stop ;;
    status) status ;;
    run) inside "$@" ;;
    with) with "$@" ;;
    restart | kill | stop | start | pause | resume) inside "$0" treat-inside "$name" "$command" "$component" ;;
    treat-inside) treat "$verb" "$component" ;;
    restart-kubelet)
      [ "$kind" = cluster ] || fail "a control plane has no kubelet"
      inside "$0" restart-kubelet-inside "$name"
      ;;
    restart-kubelet-inside) restart_kubelet ;;
    reboot)
      [ "$kind" = cluster ] || fail "a control plane has no node"
      inside "$0" reboot-inside "$name"
      ;;
    reboot-inside) reboot ;;
    install)
      has_hardware || fail "$name has no hardware: expected one that was started with hack/$kind up --host HOST $name"
      install_chart
      print_next_steps
      ;;
    install-inside) install_inside ;;
    -h | --help | help) usage ;;
    *) fail "no command $command; see hack/$kind --help" ;;
  esac
}
