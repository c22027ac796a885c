#!/usr/bin/env bash
# From a bare Debian 12 to a verdict on the whole test suite; see --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: tests/run.sh [--asan | --tsan | --torch | --cuda | --room FOLDER] [--changed] [CTEST-ARGUMENT…]

Sets the machine up, builds, checks the format, and runs every test. The last line says how many passed.
Exit status 0 only if all did. A run with an option does not check the format.
  --asan    with clang, its check of lock annotations, and the address and undefined-behavior sanitizers
  --tsan    with clang and the thread sanitizer: the tests of tests/threaded_tests.txt
  --torch   with libtorch: builds the target torch_job and runs the tests labeled torch, which compare the
            kernels and engines with kernels/torch
  --cuda    for NVIDIA GPUs: builds the target cuda_job and runs the tests labeled cuda. Everything is
            compiled and linked for the GPU; tests that need one skip themselves without one
  --room    only the tests of one folder, and what they need: tests/run.sh --room orchestrator/policy
  --changed runs only what reaches a change, after one of the options above: the tests with a sanitizer,
            or the whole job of torch or cuda. tests/changed.py says what that is. What passes is added to
            tests/passed.txt; commit that file with your change
Further arguments go to ctest: tests/run.sh -R hub_
END
}

preset=release
room=
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
  --room)
    room=room_$(tr / _ <<<"${2:?--room needs a folder, e.g. orchestrator/policy}")
    targets=("$room")
    selection=(-L "^$room\$")
    shift 2
    ;;
  --cuda | --torch)
    preset=${1#--}
    targets=("${preset}_job")
    selection=(-L "^$preset\$")
    shift
    ;;
esac

changed=
if [ "${1:-}" = --changed ]; then
  [ "$preset" != release ] || {
    echo "tests: --changed needs one of --asan, --tsan, --torch and --cuda before it" >&2
    exit 1
  }
  changed=build/$preset/changed.txt
  shift
fi

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"
if [ -n "$changed" ]; then
  deploy/local/build.sh --configure "$preset"
  python3 tests/changed.py "$preset" >"$changed"
  if [ ! -s "$changed" ]; then
    echo "tests: all that preset $preset runs has passed with the same sources (tests/passed.txt)"
    exit
  fi
  echo "tests: $(wc -l <"$changed") of preset $preset reach a change"
  if [ ${#targets[@]} = 0 ]; then
    mapfile -t targets < <(python3 tests/changed.py "$preset" --targets <"$changed")
    selection=(-I "$ROOT/build/$preset/changed_numbers.txt")
  fi
fi
deploy/local/build.sh "$preset" "${targets[@]}"
# numbers NAMES: prints the numbers of the tests in the file NAMES, in the form of ctest -I.
numbers() {
  ctest --test-dir "build/$preset" --show-only | sed -nE 's/^ *Test +#([0-9]+): (\S+)$/\2 \1/p' |
    awk 'NR == FNR { wanted[$1]; next } $1 in wanted { list = list "," $2 } END { print "0,0,0" list }' "$1" -
}
[ -z "$changed" ] || numbers "$changed" >"build/$preset/changed_numbers.txt"

failed=0
[ "$preset" != release ] || [ -n "$room" ] || tests/lint.sh || failed=1

report=build/$preset/ctest.log
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error "${selection[@]}" "$@" |
  tee "$report" || true
summary=$(grep -E '^[0-9]+% tests passed, [0-9]+ tests failed out of [0-9]+' "$report") || {
  echo "tests: ctest did not finish" >&2
  exit 1
}
read -r failures total < <(sed -E 's/.* ([0-9]+) tests failed out of ([0-9]+).*/\1 \2/' <<<"$summary")
[ "$failures" = 0 ] || failed=1
if [ -n "$changed" ]; then
  if [ ${#targets[@]} = 1 ] && [ "${targets[0]}" = "${preset}_job" ]; then
    # A selection of tests leaves out a part of the job.
    [ "$failed" != 0 ] || [[ " $*" == *" -"[RELI]* ]] || cat "$changed"
  else
    sed -nE 's/^ *[0-9]+\/[0-9]+ +Test +#[0-9]+: (\S+) \.+ +Passed .*/\1/p' "$report"
  fi | python3 tests/changed.py "$preset" --record
fi
echo "$((total - failures)) passed, $failures failed"
exit "$failed"
