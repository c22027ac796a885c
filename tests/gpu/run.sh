#!/usr/bin/env bash
# Tests and measures everything that needs a GPU. It starts deploy/measure/gpu_run.py. See --help.
set -euo pipefail

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly RUN=$ROOT/deploy/measure/gpu_run.py
export BASTION_TEST_SOURCE_DIR=$ROOT PYTHONDONTWRITEBYTECODE=1

die() {
  echo "run: $*" >&2
  exit 1
}

python=${PYTHON:-}
if [ -z "$python" ]; then
  python=python3
  if [ -x "$ROOT/build/venv/bin/python" ]; then python=$ROOT/build/venv/bin/python; fi
fi

pack=$ROOT/build/cuda/pack
arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) exec "$python" "$RUN" --help ;;
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

# Unpacks the archive with tar and xz or, if that fails, with Python.
unpack() {
  local folder=$ROOT/build/gpu/pack
  rm -rf "$folder"
  mkdir -p "$folder"
  tar -C "$folder" -xJf "$1" 2>/dev/null ||
    "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$1" "$folder" ||
    die "$1 is not an archive from tests/gpu/pack.sh"
  pack=$folder
}

if [ -f "$pack" ]; then unpack "$pack"; fi
[ -f "$pack/env.sh" ] || die "$pack is not a folder from tests/gpu/pack.sh"
bash "$pack/join.sh" || die "the parts of the files in $pack could not be joined; is the folder read-only?"
PYTHON=$python
. "$pack/env.sh" || die "the libraries of the programs were not found; see above"
exec "$python" "$RUN" --pack "$pack" "${arguments[@]}"
