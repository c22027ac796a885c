#!/usr/bin/env bash
# Runs the fuzz targets; see --help.
set -euo pipefail

usage() {
  cat <<'END_OF_USAGE'
usage: tests/fuzz.sh [--seconds N] [--merge] [NAME…]

Builds the fuzz targets with clang, libFuzzer and the address and undefined-behavior sanitizers, and runs
each for N seconds (default 15), starting from tests/fuzz/corpus. A crash, a leak, or an input that takes
longer than a second fails, and the input is in build/fuzz/found.
  --merge  afterwards adds inputs with new coverage to the corpus
  NAME     runs these targets, e.g. request
END_OF_USAGE
}

seconds=15
merge=
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help)
      usage
      exit
      ;;
    --seconds)
      seconds=$2
      shift
      ;;
    --merge) merge=1 ;;
    -*)
      echo "fuzz: unknown argument '$1' (try --help)" >&2
      exit 1
      ;;
    *) break ;;
  esac
  shift
done

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"
deploy/local/build.sh fuzz fuzz_job
names=("$@")
if [ ${#names[@]} = 0 ]; then
  for target in tests/fuzz/*_fuzz.cc; do
    name=${target#tests/fuzz/}
    names+=("${name%_fuzz.cc}")
  done
fi
mkdir -p build/fuzz/found
passed=0
failed=0
for name in "${names[@]}"; do
  new=build/fuzz/new/$name
  mkdir -p "$new"
  log=build/fuzz/$name.log
  if build/fuzz/bin/"${name}_fuzz" -max_total_time="$seconds" -timeout=1 -rss_limit_mb=4096 \
    -max_len=65536 -print_final_stats=1 -artifact_prefix=build/fuzz/found/"$name"- \
    "$new" "tests/fuzz/corpus/$name" >"$log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    tail -n 40 "$log" >&2
  fi
  echo "fuzz: $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") executions," \
    "$(grep -o 'cov: [0-9]*' "$log" | tail -n 1)"
  if [ -n "$merge" ]; then
    build/fuzz/bin/"${name}_fuzz" -merge=1 "tests/fuzz/corpus/$name" "$new" >>"$log" 2>&1 || true
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
