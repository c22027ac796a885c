#!/usr/bin/env bash
# From a fresh Debian 12 machine to a streamed answer of the whole system; see --help.
set -euo pipefail

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly BIN=$ROOT/build/release/bin

usage() {
  cat <<'END'
usage: deploy/local/demo.sh [--target DIR] [--drafter DIR] [--prompt TEXT | --prompt-file FILE]
                            [--max-new-tokens N] [--dtype bf16|fp32]
                            [--drafter-dtype bf16|fp32|int8|auto]

Sets the machine up, builds, starts verifier, drafter and orchestrator on local sockets and shared
memory, streams one answer, then measures plain against speculative decoding through the services and prints the table.
The services are stopped at the end. Without arguments the demo pair of this repository is used, the
target in bf16; its drafter, whose rounding may cost a guess and never changes the text, in int8 where
the CPU has instructions for it (auto).
END
}

target=$ROOT/deploy/demo_model/target
demo_drafter=$ROOT/deploy/demo_model/drafter
drafter=$demo_drafter
prompt_file=$ROOT/deploy/local/demo_prompt.txt
prompt=
tokens=64
dtype=bf16
drafter_dtype=
own_prompt=no
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help)
      usage
      exit
      ;;
    --target) target=${2:?"$1 needs a value"} ;;
    --drafter) drafter=${2:?"$1 needs a value"} ;;
    --prompt) prompt=${2:?"$1 needs a value"} own_prompt=yes ;;
    --prompt-file) prompt_file=${2:?"$1 needs a value"} own_prompt=yes ;;
    --max-new-tokens) tokens=${2:?"$1 needs a value"} ;;
    --dtype) dtype=${2:?"$1 needs a value"} ;;
    --drafter-dtype) drafter_dtype=${2:?"$1 needs a value"} ;;
    *)
      echo "demo.sh: unknown argument $1 (see --help)" >&2
      exit 2
      ;;
  esac
  shift 2
done
[ -n "$prompt" ] || prompt=$(cat "$prompt_file")
if [ -z "$drafter_dtype" ]; then
  drafter_dtype=$dtype
  if [ "$dtype" = bf16 ] && [ "$drafter" = "$demo_drafter" ]; then drafter_dtype=auto; fi
fi

# Only what the answer needs; bastion-bench is built when that has been streamed.
build() { "$ROOT/deploy/local/build.sh" --minimal release "$@"; }
build bastion-orchestrator bastion-drafter bastion-verifier bastionctl

run=$(mktemp -d "${TMPDIR:-/tmp}/bastion-demo.XXXXXX")
pids=()
stop() {
  local status=$?
  trap - EXIT
  if [ ${#pids[@]} -gt 0 ]; then
    kill "${pids[@]}" 2>/dev/null || true
    wait "${pids[@]}" 2>/dev/null || true
  fi
  [ "$status" = 0 ] || { echo "demo.sh: failed; the services said:" >&2; tail -n 5 "$run"/*.log >&2 || true; }
  rm -rf "$run"
  exit "$status"
}
trap stop EXIT
trap 'exit 130' INT TERM

start() { # name arguments…
  local name=$1
  shift
  "$BIN/bastion-$name" "$@" --listen "unix://$run/$name.sock" 2>"$run/$name.log" &
  pids+=($!)
}

# One prompt as a line of JSON.
json_line() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\n'/\\n}
  text=${text//$'\t'/\\t}
  printf '{"id": "prompt", "text": "%s"}\n' "${text//$'\r'/\\r}"
}

echo "== starting verifier, drafter and orchestrator"
start verifier --target "$target" --dtype "$dtype" --shared_memory "$run/shm"
start drafter --target "$target" --drafter "$drafter" --dtype "$drafter_dtype" \
  --verifier "unix://$run/verifier.sock" --shared_memory "$run/shm"
prior=()
if [ -f "$drafter/transition_prior.safetensors" ]; then prior=(--prior "$drafter"); fi
start orchestrator --target "$target" --verifier "unix://$run/verifier.sock" \
  --drafter "unix://$run/drafter.sock" "${prior[@]}"
endpoint=unix://$run/orchestrator.sock
printf '   calibrating the latency model through the verifier '
until "$BIN/bastionctl" health --endpoint "$endpoint" >/dev/null 2>&1; do
  for pid in "${pids[@]}"; do kill -0 "$pid" || exit 1; done
  printf .
  sleep 0.5
done
echo " ready"
"$BIN/bastionctl" models --endpoint "$endpoint"

printf '\n== the answer, streamed\n%s' "$prompt"
"$BIN/bastionctl" generate --endpoint "$endpoint" --prompt "$prompt" --max-new-tokens "$tokens"

prompts=$ROOT/deploy/demo_model/prompts.jsonl
if [ "$own_prompt" = yes ] || [ ! -f "$prompts" ]; then
  prompts=$run/prompts.jsonl
  json_line "$prompt" >"$prompts"
fi
printf '\n\n'
build bastion-bench
printf '\n== plain (ar) against speculative decoding (default), the same prompts in turns\n'
"$BIN/bastion-bench" --endpoint "$endpoint" --target "$target" --drafter "$drafter" \
  --prompts "$prompts" --policies ar,default --max-new-tokens "$tokens"
