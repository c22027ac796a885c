#!/usr/bin/env bash
# Trains the demo pair from scratch: corpus, tokenizer, target, teacher text, drafter, prompts,
# transition prior and model card. Needs Debian 12 and two CPU cores. If it is interrupted, the same
# command continues where it stopped.
#   run.sh [--work DIR] [--target-minutes N] [--teacher-minutes N] [--drafter-minutes N]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
model=$(dirname "$here")/demo_model
work=$here/../../build/train target_minutes=128 teacher_minutes=32 drafter_minutes=65
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
export MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=17179869184 OMP_WAIT_POLICY=passive
cd "$here/.."
stage() { say "$1"; shift; nice -n 19 "$python" -m "demo_training.$1" "${@:2}"; }
[ -f "$work/corpus/heldout.jsonl" ] || stage "corpus" corpus --work "$work" --record "$model/split.json"
[ -f "$work/train.npy" ] || stage "tokenizer" tokenizer --work "$work"
stage "target ($target_minutes min)" target --work "$work" --max-minutes "$target_minutes"
[ -f "$work/teacher/done" ] || stage "teacher text ($teacher_minutes min)" \
  teacher --work "$work" --max-minutes "$teacher_minutes"
touch "$work/teacher/done"
stage "drafter ($drafter_minutes min)" dflash_drafter --work "$work" --max-minutes "$drafter_minutes"
stage "export" export --work "$work" --out "$model"
stage "prompts" prompts --work "$work" --out "$model/prompts.jsonl"
trainer=$here/../../build/release/bin/bastion-train
if [ -x "$trainer" ]; then
  stage "transition prior" teacher_tokens --work "$work"
  nice -n 19 "$trainer" prior --target "$model/target" --out "$model/drafter" "$work/teacher_tokens.jsonl"
else
  say "transition prior skipped: build bastion-train first with deploy/local/build.sh release bastion-train"
fi
stage "evaluation" dflash_evaluation --work "$work" --prompts "$model/prompts.jsonl" --nodes 4 8 16 32 64 --exact
stage "model card" demo_card --work "$work" --out "$model"
say "the pair is in $model"
