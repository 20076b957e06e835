# Where things are, how to speak and how to wait. To be sourced first by every script here.

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
target_dir="${CARGO_TARGET_DIR:-$repository/target}"
mkdir -p "$target_dir"
cluster_target="$(cd "$target_dir" && pwd)/cluster"

say() {
  echo "$*" >&2
}

fail() {
  say "$(basename "$0"): $*"
  exit 1
}

# need_package PROGRAM PACKAGE: installs the Debian package when the program is absent.
need_package() {
  command -v "$1" >/dev/null || install_packages "$2"
}

install_packages() {
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    fail "needs the packages $* (names of Debian): install them"
  fi
  say "installing $*"
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"; } >&2 || fail "apt-get install $* failed"
}

# wait_for SECONDS WHAT LOG COMMAND…: until the command succeeds; at the end of the time, says what was awaited, with the end of the log.
wait_for() {
  local seconds="$1" what="$2" log="$3" deadline
  deadline="$((SECONDS + $1))"
  shift 3
  until "$@" >/dev/null 2>&1; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      say "--- the end of $log"
      tail -n 30 "$log" >&2 || true
      fail "waited $seconds s for $what; see $log"
    fi
    sleep 0.05
  done
}
