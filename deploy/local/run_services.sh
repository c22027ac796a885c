# Starts and stops services in the background, for the scripts in this folder. Sourced by them.
# Sets `run`, a folder for sockets and logs, which exists until the script ends.

run=$(mktemp -d "${TMPDIR:-/tmp}/bastion.XXXXXX")
pids=()

stop_all() {
  local status=$?
  trap - EXIT
  if [ ${#pids[@]} -gt 0 ]; then
    kill "${pids[@]}" 2>/dev/null || true
    wait "${pids[@]}" 2>/dev/null || true
  fi
  if [ "$status" != 0 ]; then
    echo "$(basename "$0"): failed; the last log lines of the services:" >&2
    tail -n 5 "$run"/*.log >&2 || true
  fi
  rm -rf "$run"
  exit "$status"
}
trap stop_all EXIT
trap 'exit 130' INT TERM

# start NAME COMMAND…: starts a program in the background. Its log is $run/NAME.log.
start() {
  local name=$1
  shift
  "$@" 2>"$run/$name.log" >&2 &
  pids+=($!)
}

# start_services TARGET DRAFTER WEIGHTS DRAFTER_WEIGHTS FLAG…: starts the three services on sockets in
# $run. The flags are the orchestrator's.
start_services() {
  local target=$1 drafter=$2 weights=$3 drafter_weights=$4 prior=()
  shift 4
  if [ -f "$drafter/transition_prior.safetensors" ]; then prior=(--prior "$drafter"); fi
  start verifier "$BIN/bastion-verifier" --target "$target" --weights "$weights" \
    --listen "unix://$run/verifier.sock" --shared_memory "$run/shm"
  start drafter "$BIN/bastion-drafter" --target "$target" --drafter "$drafter" \
    --weights "$drafter_weights" --verifier "unix://$run/verifier.sock" \
    --listen "unix://$run/drafter.sock" --shared_memory "$run/shm"
  start orchestrator "$BIN/bastion-orchestrator" --target "$target" "${prior[@]}" \
    --verifier "unix://$run/verifier.sock" --drafter "unix://$run/drafter.sock" \
    --listen "unix://$run/orchestrator.sock" "$@"
  endpoint=unix://$run/orchestrator.sock
}

# await_services: waits until the orchestrator serves. Prints a dot per half second. Ends the script
# if a program ends.
await_services() {
  local pid
  until "$BIN/bastionctl" health --endpoint "$endpoint" >/dev/null 2>&1; do
    for pid in "${pids[@]}"; do kill -0 "$pid" || exit 1; done
    printf .
    sleep 0.5
  done
}
