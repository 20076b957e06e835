#!/usr/bin/env bash
# Stays outside of a cluster's namespaces: makes them, waits for their end, and removes what is left.
# supervise.sh KIND DIRECTORY LOG OWNER: with an OWNER other than 0 the cluster ends when that process does.
set -euo pipefail
here="$(dirname "${BASH_SOURCE[0]}")"
for part in shell sweep; do
  # shellcheck source=/dev/null
  . "$here/$part.sh"
done
kind="$1" directory="$2" log="$3" owner="$4"

(exec unshare --net --mount --pid --fork --kill-child --mount-proc \
  bash "$here/inside.sh" "$kind" "$directory" "$log" "lanemate-$BASHPID") &
supervisor="$!"
echo "$supervisor" >"$directory/supervisor.new"
mv "$directory/supervisor.new" "$directory/supervisor"
if [ "$owner" -ne 0 ]; then
  while kill -0 "$supervisor" 2>/dev/null; do
    kill -0 "$owner" 2>/dev/null || kill -KILL "$supervisor"
    sleep 0.5
  done &
fi
wait "$supervisor" || say "the cluster ended with status $?"
locked sweep
