#!/usr/bin/env bash
# From a bare Debian 12 to a verdict on the whole test suite; see --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: tests/run.sh [--asan | --tsan] [CTEST-ARGUMENT…]

Sets the machine up, checks the format, builds and runs every test. Exit status 0 only when all
pass; the last line says how many did.
  --asan    with the address and undefined-behaviour sanitizers
  --tsan    with the thread sanitizer: everything that does not link libtorch
Further arguments go to ctest: tests/run.sh -R hub_
END
}

preset=release
case ${1:-} in
  -h | --help)
    usage
    exit
    ;;
  --asan | --tsan)
    preset=${1#--}
    shift
    ;;
esac

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"
deploy/local/build.sh "$preset"

failed=0
tests/lint.sh || failed=1

report=build/$preset/ctest.log
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error "$@" | tee "$report" || true
summary=$(grep -E '^[0-9]+% tests passed, [0-9]+ tests failed out of [0-9]+' "$report") || {
  echo "tests: ctest did not finish" >&2
  exit 1
}
read -r failures total < <(sed -E 's/.* ([0-9]+) tests failed out of ([0-9]+).*/\1 \2/' <<<"$summary")
[ "$failures" = 0 ] || failed=1
echo "$((total - failures)) passed, $failures failed"
exit "$failed"
