#!/usr/bin/env bash
# Trains a demo pair from scratch: corpus, tokenizer, target, teacher text, drafter, prompts, transition prior, evaluation
# and model card. Needs Debian 12. If it is interrupted, the same command continues where it stopped.
#   run.sh --pair demo|neox [--work DIR] [--target-minutes N] [--teacher-minutes N] [--drafter-minutes N]
set -euo pipefail
deploy=$(cd "$(dirname "$0")/.." && pwd)
pair='' work='' target_minutes='' teacher_minutes='' drafter_minutes=''
usage() {
  echo "usage: $0 --pair demo|neox [--work DIR] [--target-minutes N] [--teacher-minutes N] [--drafter-minutes N]" >&2
  exit 2
}
while [ $# -gt 1 ]; do
  case $1 in
    --pair) pair=$2 ;;
    --work) work=$2 ;;
    --target-minutes) target_minutes=$2 ;;
    --teacher-minutes) teacher_minutes=$2 ;;
    --drafter-minutes) drafter_minutes=$2 ;;
    *) usage ;;
  esac
  shift 2
done
[ $# -eq 0 ] || usage
case $pair in
  demo) model=$deploy/demo_model kind=dflash default=train ;;
  neox) model=$deploy/demo_model_neox kind=autoregressive default=train_neox ;;
  *) usage ;;
esac
work=${work:-$deploy/../build/$default}
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
  "$python" -m pip install -r "$deploy/demo_training/requirements.txt"
fi

# Keep large buffers for reuse instead of returning them to the system after every operation.
export MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=17179869184 OMP_WAIT_POLICY=passive
cd "$deploy"
# stage MODULE [OPTION…]
stage() {
  say "$*"
  nice -n 19 "$python" -m "demo_training.$1" --pair "$pair" --work "$work" "${@:2}"
}
[ -f "$work/corpus/heldout.jsonl" ] || stage corpus
[ -f "$work/tokens.json" ] || stage tokenizer
stage target ${target_minutes:+--max-minutes "$target_minutes"}
[ -f "$work/teacher/done" ] || stage teacher ${teacher_minutes:+--max-minutes "$teacher_minutes"}
touch "$work/teacher/done"
stage "${kind}_drafter" ${drafter_minutes:+--max-minutes "$drafter_minutes"}
stage export
stage prompts
trainer=$deploy/../build/release/bin/bastion-train
if [ "$kind" = dflash ] && [ ! -x "$trainer" ]; then
  say "transition prior skipped: build bastion-train first with deploy/local/build.sh release bastion-train"
elif [ "$kind" = dflash ]; then
  stage teacher_tokens
  nice -n 19 "$trainer" prior --target "$model/target" --out "$model/drafter" "$work/teacher_tokens.jsonl"
fi
stage "${kind}_evaluation"
stage card ${teacher_minutes:+--teacher-minutes "$teacher_minutes"}
say "the pair is in $model"
