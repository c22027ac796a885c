#!/usr/bin/env bash
# Sets up the machine and builds one preset; see --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: deploy/local/build.sh [--minimal] [--torch] [--configure] [PRESET] [TARGET…]

Runs deploy/local/setup.sh with the flag that PRESET needs (--cuda, --torch or --clang), then
configures and builds PRESET (default: release; see CMakePresets.json) in build/PRESET. The programs
are in build/PRESET/bin. The first build takes several minutes; it also compiles the Rust crates.
  --minimal   installs only what the build of the programs needs, and does not build the tests
  --torch     builds any preset with libtorch. Preset cuda needs it for the tests that compare a GPU
              with kernels/torch
  --configure configures only, and builds nothing
END
}

die() {
  echo "build: $*" >&2
  exit 1
}

setup_arguments=()
configure_arguments=()
only_configure=
while :; do
  case ${1:-} in
    --minimal) setup_arguments+=("$1") configure_arguments+=(-DBASTION_TESTS=OFF) ;;
    --torch) setup_arguments+=("$1") configure_arguments+=(-DBASTION_TORCH=ON) ;;
    --configure) only_configure=yes ;;
    *) break ;;
  esac
  shift
done
case ${1:-} in
  -h | --help)
    usage
    exit
    ;;
  -*) die "unknown argument '$1' (try --help)" ;;
esac

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly PRESET=${1:-release}
shift || true

case $PRESET in
  cuda | torch) setup_arguments+=("--$PRESET") ;;
  asan | fuzz | tsan) setup_arguments+=(--clang) ;;
esac
"$ROOT/deploy/local/setup.sh" "${setup_arguments[@]}"
cd "$ROOT"
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
export NINJA_STATUS='[%f/%t %es] '
start=$SECONDS
if ! configured=$(cmake --preset "$PRESET" "${configure_arguments[@]}" 2>&1); then
  echo "$configured" >&2
  die "cannot configure preset '$PRESET'; see the errors above"
fi
[ -z "$only_configure" ] || exit 0
echo "build: $PRESET, with $(nproc) jobs"
cmake --build "build/$PRESET" ${1:+--target "$@"} || die "cannot build preset '$PRESET'; see the errors above"
echo "build: the programs are in build/$PRESET/bin ($((SECONDS - start)) s)"
