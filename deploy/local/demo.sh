#!/usr/bin/env bash
# Builds and runs the whole system on a fresh Debian 12 machine, and streams an answer; see --help.
set -euo pipefail

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly BIN=$ROOT/build/release/bin

usage() {
  cat <<'END'
usage: deploy/local/demo.sh [--target DIR] [--drafter DIR] [--prompt TEXT | --prompt-file FILE]
                            [--max-new-tokens N] [--dtype bf16|fp32]
                            [--drafter-dtype bf16|fp32|int8|auto]
                            [--serve [--http-listen ADDRESS] [--show-text]]

Sets up the machine, builds, and starts verifier, drafter and orchestrator on local sockets with
shared memory. Streams one answer. Then compares plain and speculative decoding through the services,
prints a table, and stops the services.
  --target DIR         model folder of the target. Default: the demo pair's target
  --drafter DIR        model folder of the drafter. Default: the demo pair's drafter
  --prompt TEXT        prompt to continue, in the answer and in the table
  --prompt-file FILE   file with the prompt. Default: deploy/local/demo_prompt.txt
  --max-new-tokens N   maximum tokens per answer. Default: 64
  --dtype TYPE         type of the target's weights: bf16 or fp32. Default: bf16
  --drafter-dtype TYPE type of the drafter's weights: bf16, fp32, int8, or auto (int8 if the CPU has
                       int8 instructions, else bf16). Default: auto for the demo pair in bf16, else
                       the same as --dtype. It never changes the text
  --serve              instead of the answer and the table: leaves the services running until Ctrl-C,
                       and prints the address of the live console and example calls
  --http-listen ADDR   host:port of the console and of /metrics. It has no authentication.
                       Default: 127.0.0.1:9070
  --show-text          the console shows the tokens of all requests' draft trees
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
serve=no
http=127.0.0.1:9070
http_flags=()
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
    --http-listen) http=${2:?"$1 needs a value"} ;;
    --serve | --show-text)
      if [ "$1" = --serve ]; then serve=yes; else http_flags+=(--show_text); fi
      shift
      continue
      ;;
    *)
      echo "demo.sh: unknown argument '$1' (try --help)" >&2
      exit 2
      ;;
  esac
  shift 2
done
programs=(bastion-orchestrator bastion-drafter bastion-verifier bastionctl)
if [ "$serve" = yes ]; then
  programs+=(bastion-doctor)
  http_flags+=(--http_listen "$http")
fi
[ -n "$prompt" ] || prompt=$(cat "$prompt_file")
if [ -z "$drafter_dtype" ]; then
  drafter_dtype=$dtype
  if [ "$dtype" = bf16 ] && [ "$drafter" = "$demo_drafter" ]; then drafter_dtype=auto; fi
fi

# First build only the programs that the answer needs. bastion-bench is built after the answer.
build() { "$ROOT/deploy/local/build.sh" --minimal release "$@"; }
build "${programs[@]}"

. "$ROOT/deploy/local/run_services.sh"

# json_line TEXT: prints a prompt as one line of JSON.
json_line() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\n'/\\n}
  text=${text//$'\t'/\\t}
  printf '{"id": "prompt", "text": "%s"}\n' "${text//$'\r'/\\r}"
}

echo "== starting verifier, drafter and orchestrator"
start_services "$target" "$drafter" "$dtype" "$drafter_dtype" "${http_flags[@]}"
printf '   measuring verify times for the latency model '
await_services
echo " ready"
"$BIN/bastionctl" models --endpoint "$endpoint"

if [ "$serve" = yes ]; then
  cat <<END

== serving until Ctrl-C
   console   http://$http/console
   metrics   curl -s http://$http/metrics

   export PATH=$BIN:\$PATH BASTION=$endpoint
   bastionctl generate --endpoint \$BASTION --prompt "def f("
   bastionctl explain --endpoint \$BASTION --prompt "def f("
   bastionctl timeline --endpoint \$BASTION --seconds 5 -o timeline.json
   bastionctl doctor --endpoint \$BASTION
END
  trap 'exit 0' INT TERM
  wait -n "${pids[@]}" || true
  echo "demo.sh: a service has ended" >&2
  exit 1
fi

printf '\n== streaming the answer\n%s' "$prompt"
"$BIN/bastionctl" generate --endpoint "$endpoint" --prompt "$prompt" --max-new-tokens "$tokens"

prompts=$ROOT/deploy/demo_model/prompts.jsonl
if [ "$own_prompt" = yes ] || [ ! -f "$prompts" ]; then
  prompts=$run/prompts.jsonl
  json_line "$prompt" >"$prompts"
fi
printf '\n\n'
build bastion-bench
printf '\n== comparing plain (ar) and speculative decoding (default) on the same prompts\n'
"$BIN/bastion-bench" --endpoint "$endpoint" --target "$target" --drafter "$drafter" \
  --prompts "$prompts" --policies ar,default --max-new-tokens "$tokens"
