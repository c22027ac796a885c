#!/usr/bin/env bash
# Everything that wants a GPU, in one go; see --help.
set -euo pipefail

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly HERE=$ROOT/tests/gpu

usage() {
  cat <<'END_OF_USAGE'
usage: tests/gpu/run.sh [--pack DIR|FILE] [--out DIR] [--only PART,…] [--quick] [--device cuda|cpu]
                        [--deadline SECONDS] [--work DIR] [--shape JSON]

Runs what tests/gpu/pack.sh packed, on a machine with a GPU and a python3 that has torch and numpy:
  kernels    the tests of the device's kernels and of the engines on it; there a skipped one failed
  sweep      how fast kernels are: products of Qwen3-4B and 8B, attention, launches
  pairs      grows the demo pair to these two shapes, beside the two above: 28 GB of memory or disk
  roofline   plain steps and verifies of 1 to 512 rows after 16 to 16384 tokens, both pairs
  decode     policies on the same prompts in process, both pairs
  services   three services over shared memory: the demo pair in fp32, and the 8B pair
A part has its time; one that fails or runs out of it keeps no other from running. What is left at
the deadline (525 s) is skipped, and the report says so.
  --pack     folder or archive of pack.sh (default build/cuda/pack)
  --out      gets gpu_results.json, gpu_results.md, gpu_raw.tar.gz and, with matplotlib, two plots
             (default build/gpu/results); rewritten after every step
  --quick    fewer prompts, rows and contexts
  --device   cpu tries the script where there is no GPU: pairs are tiny, tests of kernels are skipped
             and no figure says anything
  --work     folder for pairs and raw output, kept; by default one that goes with the script, in
             memory where there is enough
  --shape    changes of both pairs' shapes, as inflate.py takes them
PYTHON names another interpreter than build/venv's or python3. Reports of several runs are made one by
  tests/gpu/report.py --out DIR FIRST/gpu_raw.tar.gz SECOND/gpu_raw.tar.gz
Exit status: 0 only if every part ran and every test passed. Missed bars are told, not counted.
END_OF_USAGE
}

die() {
  echo "run: $*" >&2
  exit 1
}

pack=$ROOT/build/cuda/pack
arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help)
      usage
      exit
      ;;
    --pack)
      pack=${2:?"--pack needs a folder or an archive"}
      shift 2
      ;;
    *)
      arguments+=("$1")
      shift
      ;;
  esac
done

python=${PYTHON:-}
if [ -z "$python" ]; then
  python=python3
  if [ -x "$ROOT/build/venv/bin/python" ]; then python=$ROOT/build/venv/bin/python; fi
fi

# Archives are read by tar where there is an xz, else by Python.
unpack() {
  local folder=$ROOT/build/gpu/pack
  rm -rf "$folder"
  mkdir -p "$folder"
  tar -C "$folder" -xJf "$1" 2>/dev/null ||
    "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$1" "$folder" ||
    die "$1 is no archive of tests/gpu/pack.sh"
  pack=$folder
}

if [ -f "$pack" ]; then unpack "$pack"; fi
[ -f "$pack/env.sh" ] || die "$pack is no folder of programs: tests/gpu/pack.sh makes one"
PYTHON=$python
. "$pack/env.sh" || die "no libraries for the programs: see above"
export BASTION_TEST_SOURCE_DIR=$ROOT PYTHONDONTWRITEBYTECODE=1
exec "$python" "$HERE/run.py" --pack "$pack" "${arguments[@]}"
