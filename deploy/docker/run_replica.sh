#!/bin/bash
# Runs the services of a replica in one container. See --help.
set -uo pipefail

usage() {
  cat <<'END'
usage: run_replica VERIFIER-COMMAND… -- DRAFTER-COMMAND… -- ORCHESTRATOR-COMMAND…

Starts the commands in this order and waits. A verifier or drafter that ends is started again after a
second; the orchestrator can wait for it. If the orchestrator ends, the others are stopped, and the exit
status is the orchestrator's.
On SIGTERM, the orchestrator drains while the others still serve it. They are stopped when it has ended.
END
}

die() {
  echo "run_replica: $*" >&2
  exit 2
}

verifier=() drafter=() orchestrator=()
parts=(verifier drafter orchestrator)
[ "${1:-}" != --help ] || { usage; exit; }
declare -n part=${parts[0]}
index=0
for word in "$@"; do
  if [ "$word" = -- ]; then
    index=$((index + 1))
    [ $index -le 2 ] || die "there are more than three commands (try --help)"
    declare -n part=${parts[index]}
  else
    part+=("$word")
  fi
done
[ ${#orchestrator[@]} -gt 0 ] && [ ${#verifier[@]} -gt 0 ] && [ ${#drafter[@]} -gt 0 ] ||
  die "a command is missing (try --help)"

"${verifier[@]}" &
verifier_pid=$!
"${drafter[@]}" &
drafter_pid=$!
"${orchestrator[@]}" &
orchestrator_pid=$!
trap 'kill -TERM "$orchestrator_pid"' TERM INT

# A signal ends `wait` early, without a pid.
while :; do
  wait -n -p ended "$verifier_pid" "$drafter_pid" "$orchestrator_pid"
  status=$?
  case ${ended:-} in
    "$orchestrator_pid") break ;;
    "$verifier_pid")
      echo "run_replica: the verifier ended with status $status; it is started again" >&2
      sleep 1
      "${verifier[@]}" &
      verifier_pid=$!
      ;;
    "$drafter_pid")
      echo "run_replica: the drafter ended with status $status; it is started again" >&2
      sleep 1
      "${drafter[@]}" &
      drafter_pid=$!
      ;;
  esac
done
kill -TERM "$drafter_pid" && wait "$drafter_pid"
kill -TERM "$verifier_pid" && wait "$verifier_pid"
exit "$status"
