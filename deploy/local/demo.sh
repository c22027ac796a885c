#!/usr/bin/env bash
# Builds and runs the whole system on a fresh Debian 12 machine, and streams an answer; see --help.
set -euo pipefail

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly BIN=$ROOT/build/release/bin
readonly CHAT=$ROOT/deploy/chat_model
readonly TINY=$ROOT/deploy/demo_model

usage() {
  cat <<'END'
usage: deploy/local/demo.sh [--tiny | --target PATH --drafter DIR] [--chat]
                            [--prompt TEXT | --prompt-file FILE] [--max-new-tokens N]
                            [--weights bf16|fp32|int8] [--drafter-weights bf16|fp32|int8|auto]
                            [--serve [--http-listen ADDRESS] [--show-text]]

Sets up the machine, builds, and starts verifier, drafter and orchestrator on local sockets with
shared memory. Asks the model a question, and streams its answer. Then compares plain and speculative
decoding through the services, prints a table, and stops the services.
The model is SmolLM2-135M-Instruct, which is downloaded once into build/chat_model, with the drafter of
deploy/chat_model. If that is not possible, the demo runs with the tiny pair.
  --tiny               the pair in deploy/demo_model. It needs no download, and continues Python code
  --target PATH        your target: a model folder, or a GGUF file
  --drafter DIR        the model folder of its drafter
  --chat               with --target: sends the prompt through the target's chat template
  --prompt TEXT        the prompt of the answer and of the table
  --prompt-file FILE   file with the prompt
  --max-new-tokens N   maximum tokens per answer. Default: 128; 64 with --tiny
  --weights FORMAT     format of the target's weights: bf16, fp32 or int8. Default: bf16
  --drafter-weights FORMAT
                       format of the drafter's weights: bf16, fp32, int8, or auto (int8 if the CPU has
                       int8 instructions, else bf16). Default: auto for a pair of the demo in bf16,
                       else the same as --weights. It never changes the text
  --serve              instead of the answer and the table: leaves the services running until Ctrl-C,
                       and prints the address of the live console and example calls
  --http-listen ADDR   host:port of the console, of /metrics and of OpenAI's API. It has no
                       authentication. Default: 127.0.0.1:9070
  --show-text          the console shows the tokens of all requests' draft trees
END
}

pair=chat
target=
drafter=
chat=no
prompt_file=
prompt=
tokens=
weights=bf16
drafter_weights=
serve=no
http=127.0.0.1:9070
http_flags=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help)
      usage
      exit
      ;;
    --target) target=${2:?"$1 needs a value"} pair=own ;;
    --drafter) drafter=${2:?"$1 needs a value"} ;;
    --prompt) prompt=${2:?"$1 needs a value"} ;;
    --prompt-file) prompt_file=${2:?"$1 needs a value"} ;;
    --max-new-tokens) tokens=${2:?"$1 needs a value"} ;;
    --weights | --dtype) weights=${2:?"$1 needs a value"} ;;
    --drafter-weights | --drafter-dtype) drafter_weights=${2:?"$1 needs a value"} ;;
    --http-listen) http=${2:?"$1 needs a value"} ;;
    --tiny | --chat | --serve | --show-text)
      case $1 in
        --tiny) pair=tiny ;;
        --chat) chat=yes ;;
        --serve) serve=yes ;;
        --show-text) http_flags+=(--show_text) ;;
      esac
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
if [ "$pair" = own ] && [ -z "$drafter" ]; then
  echo "demo.sh: --target needs --drafter: the drafter that was trained for it" >&2
  exit 2
fi
programs=(bastion-orchestrator bastion-drafter bastion-verifier bastionctl)
if [ "$serve" = yes ]; then
  programs+=(bastion-doctor)
  http_flags+=(--http_listen "$http")
fi

# First build only the programs that the answer needs. bastion-bench is built after the answer.
build() { "$ROOT/deploy/local/build.sh" --minimal release "$@"; }
build "${programs[@]}"

if [ "$pair" = chat ] && ! "$ROOT/deploy/local/setup.sh" --minimal --chat-model; then
  echo "demo.sh: the chat model cannot be downloaded; going on with the tiny pair (--tiny)" >&2
  pair=tiny
fi
prompts=
case $pair in
  chat)
    target=$(echo "$ROOT"/build/chat_model/*.gguf) drafter=${drafter:-$CHAT/drafter} chat=yes
    tokens=${tokens:-128}
    question="What is the capital of France?"
    prompts=$CHAT/prompts.jsonl
    ;;
  tiny)
    target=$TINY/target drafter=${drafter:-$TINY/drafter} chat=no
    question=$(cat "$ROOT/deploy/local/demo_prompt.txt")
    prompts=$TINY/prompts.jsonl
    ;;
  own) question=$(cat "$ROOT/deploy/local/demo_prompt.txt") ;;
esac
tokens=${tokens:-64}
if [ -n "$prompt$prompt_file" ]; then prompts=; fi
if [ -n "$prompt_file" ]; then prompt=$(cat "$prompt_file"); fi
prompt=${prompt:-$question}
if [ -z "$drafter_weights" ]; then
  drafter_weights=$weights
  if [ "$weights" = bf16 ] && [ "$pair" != own ]; then drafter_weights=auto; fi
fi

. "$ROOT/deploy/local/run_services.sh"

# json TEXT: prints a text as a string of JSON.
json() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\n'/\\n}
  text=${text//$'\t'/\\t}
  printf '"%s"' "${text//$'\r'/\\r}"
}

echo "== starting verifier, drafter and orchestrator"
start_services "$target" "$drafter" "$weights" "$drafter_weights" "${http_flags[@]}"
printf '   measuring verify times for the latency model '
await_services
echo " ready"
"$BIN/bastionctl" models --endpoint "$endpoint"

if [ "$serve" = yes ]; then
  if [ "$chat" = yes ]; then
    ask="bastionctl chat --endpoint \$BASTION --max_new_tokens 256"
    api=chat/completions body='{"messages": [{"role": "user", "content": "Hello!"}]}'
  else
    ask="bastionctl generate --endpoint \$BASTION --prompt \"def f(\""
    api=completions body='{"prompt": "def f("}'
  fi
  cat <<END

== serving until Ctrl-C
   console   http://$http/console
   metrics   curl -s http://$http/metrics
   OpenAI    curl -s http://$http/v1/$api -H 'Content-Type: application/json' -d '$body'

   export PATH=$BIN:\$PATH BASTION=$endpoint
   $ask
   bastionctl explain --endpoint \$BASTION --prompt "def f("
   bastionctl timeline --endpoint \$BASTION --seconds 5 -o timeline.json
   bastionctl doctor --endpoint \$BASTION
END
  trap 'exit 0' INT TERM
  wait -n "${pids[@]}" || true
  echo "demo.sh: a service has ended" >&2
  exit 1
fi

if [ "$chat" = yes ]; then
  printf '\n== asking: %s\n' "$prompt"
  printf '%s\n' "${prompt//$'\n'/ }" |
    "$BIN/bastionctl" chat --endpoint "$endpoint" --max_new_tokens "$tokens"
else
  printf '\n== streaming the answer\n%s' "$prompt"
  "$BIN/bastionctl" generate --endpoint "$endpoint" --prompt "$prompt" --max_new_tokens "$tokens"
fi

if [ -z "$prompts" ]; then
  prompts=$run/prompts.jsonl
  if [ "$chat" = yes ]; then
    printf '{"id": "prompt", "messages": [{"role": "user", "content": %s}]}\n' "$(json "$prompt")"
  else
    printf '{"id": "prompt", "text": %s}\n' "$(json "$prompt")"
  fi >"$prompts"
fi
printf '\n\n'
build bastion-bench
printf '\n== comparing plain (ar) and speculative decoding (default) on the same prompts\n'
"$BIN/bastion-bench" --endpoint "$endpoint" --target "$target" --drafter "$drafter" \
  --prompts "$prompts" --policies ar,default --max_new_tokens "$tokens"
cat <<END

== what to try next
   deploy/local/demo.sh --serve                             a live console, and OpenAI's API
   deploy/local/demo.sh --prompt "Write a haiku."           your own question
   deploy/local/demo.sh --weights int8                      twice as fast, other texts
   deploy/local/demo.sh --target PATH --drafter DIR --chat  your own models
END
