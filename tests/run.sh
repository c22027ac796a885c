#!/usr/bin/env bash
# From a bare Debian 12 to a verdict on the whole test suite; see --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: tests/run.sh [--asan | --tsan | --torch | --cuda] [CTEST-ARGUMENT…]

Sets the machine up, builds, checks the format, and runs every test. The last line says how many passed.
Exit status 0 only if all did. A run with an option does not check the format.
  --asan    with clang, its check of lock annotations, and the address and undefined-behavior sanitizers
  --tsan    with clang and the thread sanitizer: the tests of tests/threaded_tests.txt
  --torch   with libtorch: builds the target torch_job and runs the tests labeled torch, which compare the
            kernels and engines with kernels/torch
  --cuda    for NVIDIA GPUs: builds the target cuda_job and runs the tests labeled cuda. Everything is
            compiled and linked for the GPU; tests that need one skip themselves without one
Further arguments go to ctest: tests/run.sh -R hub_
END
}

preset=release
targets=()
selection=()
case ${1:-} in
  -h | --help)
    usage
    exit
    ;;
  --asan | --tsan)
    preset=${1#--}
    shift
    ;;
  --cuda | --torch)
    preset=${1#--}
    targets=("${preset}_job")
    selection=(-L "^$preset\$")
    shift
    ;;
esac

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"
deploy/local/build.sh "$preset" "${targets[@]}"

failed=0
[ "$preset" != release ] || tests/lint.sh || failed=1

report=build/$preset/ctest.log
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error "${selection[@]}" "$@" |
  tee "$report" || true
summary=$(grep -E '^[0-9]+% tests passed, [0-9]+ tests failed out of [0-9]+' "$report") || {
  echo "tests: ctest did not finish" >&2
  exit 1
}
read -r failures total < <(sed -E 's/.* ([0-9]+) tests failed out of ([0-9]+).*/\1 \2/' <<<"$summary")
[ "$failures" = 0 ] || failed=1
echo "$((total - failures)) passed, $failures failed"
exit "$failed"
