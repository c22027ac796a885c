#!/usr/bin/env bash
# Sets the machine up and builds one preset; see --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: deploy/local/build.sh [PRESET] [TARGET…]

Runs deploy/local/setup.sh (for preset cuda with --cuda), then configures and builds PRESET (default:
release; see CMakePresets.json) into build/PRESET. Binaries land in build/PRESET/bin.
The first build takes minutes, most of them for the Rust crates and torch's headers.
END
}

die() {
  echo "build: $*" >&2
  exit 1
}

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

setup_arguments=()
[ "$PRESET" != cuda ] || setup_arguments=(--cuda)
"$ROOT/deploy/local/setup.sh" "${setup_arguments[@]}"
cd "$ROOT"
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
export NINJA_STATUS='[%f/%t %es] '
start=$SECONDS
if ! configured=$(cmake --preset "$PRESET" 2>&1); then
  echo "$configured" >&2
  die "cmake could not configure preset '$PRESET'"
fi
echo "build: $PRESET, with $(nproc) jobs"
cmake --build "build/$PRESET" ${1:+--target "$@"} || die "preset '$PRESET' did not build"
echo "build: $PRESET is in build/$PRESET/bin ($((SECONDS - start)) s)"
