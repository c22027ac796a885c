#!/usr/bin/env bash
# Tests that need large tools; see --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: tests/slow.sh [--all | NAME…]

Runs the tests in tests/slow. They need tools that take minutes to install or build: Chromium, the
OpenTelemetry Collector, Prometheus, libFuzzer, Envoy, buildah, Helm, Kubernetes. Each test names the files
that it depends on, in a line "watches: PATH…". By default, only those tests run whose files differ from
those of the last run that passed; tests/slow/passed.txt remembers their hashes. Commit that file with your
change.
A test with a line "takes: N minutes" runs only if it is named, or with --all.
  --all   runs all tests, for hours
  NAME    runs these tests, e.g. collector
Installs what the tests need. Those of images and packages need root. They write logs and pictures to build/slow.
END
}
[ "${1:-}" != --help ] || { usage; exit; }

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"
readonly PASSED=tests/slow/passed.txt

# A hash of the committed and uncommitted content of the files that a test depends on, and its own.
state_of() {
  local test=tests/slow/$1_test.py paths
  read -ra paths < <(sed -n 's/^watches: //p' "$test")
  git ls-files -z --cached --others --exclude-standard -- "$test" "${paths[@]}" | sort -z |
    xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1
}

all=()
for test in tests/slow/*_test.py; do
  name=${test#tests/slow/}
  all+=("${name%_test.py}")
done
selected=()
if [ "${1:-}" = --all ]; then
  selected=("${all[@]}")
elif [ $# -gt 0 ]; then
  selected=("$@")
else
  for name in "${all[@]}"; do
    ! grep -q '^takes: ' "tests/slow/${name}_test.py" || continue
    grep -qxF "$name $(state_of "$name")" "$PASSED" || selected+=("$name")
  done
fi
if [ ${#selected[@]} = 0 ]; then
  echo "slow tests: nothing that they depend on has changed"
  exit
fi

deploy/local/build.sh release bastion-orchestrator bastion-drafter bastion-verifier bastionctl \
  bastion-bench seeded-faults
deploy/local/setup.sh --slow-tests
failed=0
mkdir -p build/slow
for name in "${selected[@]}"; do
  echo "slow tests: $name"
  if build/venv/bin/python "tests/slow/${name}_test.py" --bin build/release/bin --out build/slow; then
    { grep -v "^$name " "$PASSED" || true; echo "$name $(state_of "$name")"; } | sort >build/slow/passed.txt
    cp build/slow/passed.txt "$PASSED"
  else
    echo "slow tests: $name FAILED" >&2
    failed=1
  fi
done
exit "$failed"
