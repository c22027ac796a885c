#!/usr/bin/env bash
# From a bare Debian 12 to a verdict on the whole test suite; see --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: tests/run.sh [--asan | --tsan | --torch | --cuda] [CTEST-ARGUMENT…]

Sets the machine up, checks the format, builds and runs every test. Exit status 0 only when all
pass; the last line says how many did.
  --asan    with the address and undefined-behaviour sanitizers
  --tsan    with the thread sanitizer
  --torch   with libtorch: builds the target torch_job, runs the tests labelled torch. They compare the
            kernels and engines with those of kernels/torch
  --cuda    with what runs on NVIDIA GPUs: builds the target cuda_job, runs the tests labelled cuda.
            Compiles and links everything for the GPU; tests that need one say so and pass without
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
tests/lint.sh || failed=1

# Whether there are tests for the GPU: ctest knows of one, or the sources name one.
has_cuda_tests() {
  ctest --test-dir build/cuda -N "${selection[@]}" | grep -qE '^Total Tests: [1-9]' ||
    grep -rqE --include=CMakeLists.txt 'LABELS\b.*\bcuda\b' tests
}

# Where there are none, there is nothing to run; where there are, to run none is a failure.
if [ "$preset" = cuda ] && ! has_cuda_tests; then
  echo "tests: none is labelled cuda"
  echo "0 passed, 0 failed"
  exit "$failed"
fi

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
