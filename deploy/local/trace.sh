#!/usr/bin/env bash
# Traces one request through all services with a real OpenTelemetry Collector; see --help.
set -euo pipefail

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly BIN=$ROOT/build/release/bin

usage() {
  cat <<'END'
usage: deploy/local/trace.sh [--prompt TEXT] [--max-new-tokens N] [--traces FILE]

Builds the services and an OpenTelemetry Collector, starts them with the demo models, streams one
answer, and prints the request's trace: the spans of all three services as one tree.
  --prompt TEXT        prompt to continue. Default: "def fibonacci(n):"
  --max-new-tokens N   maximum tokens of the answer. Default: 24
  --traces FILE        file for the spans that the Collector receives, as lines of JSON.
                       Default: build/traces.jsonl
END
}

prompt='def fibonacci(n):'
tokens=24
traces=$ROOT/build/traces.jsonl
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help)
      usage
      exit
      ;;
    --prompt) prompt=${2:?"$1 needs a value"} ;;
    --max-new-tokens) tokens=${2:?"$1 needs a value"} ;;
    --traces) traces=${2:?"$1 needs a value"} ;;
    *)
      echo "trace.sh: unknown argument '$1' (try --help)" >&2
      exit 2
      ;;
  esac
  shift 2
done

"$ROOT/deploy/local/build.sh" --minimal release bastion-orchestrator bastion-drafter bastion-verifier bastionctl
collector=$("$ROOT/deploy/telemetry/build_collector.sh")

. "$ROOT/deploy/local/run_services.sh"

# A free port for the Collector.
BASTION_COLLECTOR=127.0.0.1:$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export BASTION_COLLECTOR BASTION_TRACES=$traces
export OTEL_EXPORTER_OTLP_ENDPOINT=http://$BASTION_COLLECTOR OTEL_BSP_SCHEDULE_DELAY=200
rm -f "$traces"

models=$ROOT/deploy/demo_model
start collector "$collector" --config "$ROOT/deploy/telemetry/collector.yaml"
start_services "$models/target" "$models/drafter" bf16 auto
await_services

printf '\n== the answer\n%s' "$prompt"
"$BIN/bastionctl" generate --endpoint "$endpoint" --prompt "$prompt" --max-new-tokens "$tokens"
# The services export the rest of their spans when they stop; the Collector stops last.
kill "${pids[@]:1}"
wait "${pids[@]:1}" || true
sleep 0.5
kill "${pids[0]}"
wait "${pids[0]}" || true
pids=()
printf '\n== its trace\n'
"$ROOT/deploy/telemetry/show_trace.py" "$traces"
echo "All spans are in $traces. For a tracing system of your own: docs/tracing.md"
