#!/usr/bin/env bash
# Trains the GPT-NeoX pair from scratch: corpus, tokens, target, teacher text, drafter, export, prompts, evaluation
# and model card. Needs Debian 12. Uses one core at low priority. If it is interrupted, the same command continues where it
# stopped.
#   run.sh [--work DIR] [--target-minutes N] [--teacher-minutes N] [--drafter-minutes N]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pair=$(dirname "$here")/demo_model_neox
first=$pair/../demo_model
work=$here/../../build/train_neox target_minutes=38 teacher_minutes=9 drafter_minutes=13
while [ $# -gt 0 ]; do
  case $1 in
    --work) work=$2 ;;
    --target-minutes) target_minutes=$2 ;;
    --teacher-minutes) teacher_minutes=$2 ;;
    --drafter-minutes) drafter_minutes=$2 ;;
    *) echo "usage: $0 [--work DIR] [--target-minutes N] [--teacher-minutes N] [--drafter-minutes N]" >&2; exit 2 ;;
  esac
  shift 2
done
mkdir -p "$work"
work=$(cd "$work" && pwd)
say() { echo "== $*" >&2; }

packages=(libpython3.11-stdlib libpython3.11-testsuite python3.11-doc python3-venv)
if ! dpkg -s "${packages[@]}" >/dev/null 2>&1; then
  say "installing the training text: ${packages[*]}"
  sudo=$([ "$(id -u)" = 0 ] || echo sudo)
  $sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends "${packages[@]}"
fi
python=$work/venv/bin/python
if ! "$python" -c 'import torch, transformers, safetensors, tqdm' 2>/dev/null; then
  say "installing a Python environment in $work/venv"
  python3 -m venv "$work/venv"
  # PyPI's torch for Linux loads CUDA's libraries even without a GPU. The environment takes 5 GB.
  "$python" -m pip install -r "$here/requirements.txt"
fi

# Keep large buffers for reuse instead of returning them to the system after every operation.
export MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=17179869184 OMP_NUM_THREADS=1
cd "$here/.."
stage() { say "$1"; shift; nice -n 19 "$python" -m "demo_training.$1" "${@:2}"; }
[ -f "$work/corpus/heldout.jsonl" ] || stage "corpus" corpus --work "$work" --record "$work/split.json"
[ -f "$work/tokens.json" ] || stage "tokens" neox_tokens --work "$work" --tokenizer "$first/target"
stage "target ($target_minutes min)" neox_target --work "$work" --max-minutes "$target_minutes"
[ -f "$work/neox_teacher/done" ] || stage "teacher text ($teacher_minutes min)" \
  neox_teacher --work "$work" --max-minutes "$teacher_minutes"
touch "$work/neox_teacher/done"
stage "drafter ($drafter_minutes min)" autoregressive_drafter --work "$work" --max-minutes "$drafter_minutes"
stage "export" neox_export --work "$work" --out "$pair"
stage "prompts" neox_prompts --work "$work" --out "$pair/prompts.jsonl"
stage "evaluation" autoregressive_evaluation --work "$work" --prompts "$pair/prompts.jsonl"
stage "model card" neox_card --work "$work" --out "$pair" --teacher-minutes "$teacher_minutes"
say "the pair is in $pair"
