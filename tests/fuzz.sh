#!/usr/bin/env bash
# Runs the fuzz targets; see --help.
set -euo pipefail

usage() {
  cat <<'END_OF_USAGE'
usage: tests/fuzz.sh [--seconds N | --runs N] [--merge] [--coverage] [NAME…]
       tests/fuzz.sh --coverage [NAME…]

Builds the fuzz targets with clang, libFuzzer and the address and undefined-behavior sanitizers, and runs
each from tests/fuzz/corpus. A crash, a leak, or an input that takes longer than a second (for chat
templates and grammars: 5 seconds) or more than 4 GiB (for grammars: 1 GiB) fails, and the input is in
build/fuzz/found. Prints the executions and the time.
  --seconds N  runs each target for N seconds (default: 15)
  --runs N     runs each target until it has executed N inputs
  --merge      afterwards adds inputs with new coverage to the corpus
  --coverage   shows which lines the corpus runs, as a share of the lines of the files that it
               reaches. build/coverage/NAME.txt has a line per file. Without --seconds, --runs or
               --merge, runs no fuzzing
  NAME         runs these targets, e.g. request
END_OF_USAGE
}

limit=
merge=
coverage=
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help)
      usage
      exit
      ;;
    --seconds)
      limit=-max_total_time=$2
      shift
      ;;
    --runs)
      limit=-runs=$2
      shift
      ;;
    --merge) merge=1 ;;
    --coverage) coverage=1 ;;
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
names=("$@")
if [ ${#names[@]} = 0 ]; then
  for target in tests/fuzz/*_fuzz.cc; do
    name=${target#tests/fuzz/}
    names+=("${name%_fuzz.cc}")
  done
fi

show_coverage() {
  local out=build/coverage
  deploy/local/setup.sh --clang
  cmake --preset asan -B "$out" -DBASTION_SANITIZE= \
    -DCMAKE_CXX_FLAGS="-fprofile-instr-generate -fcoverage-mapping" >/dev/null
  cmake --build "$out" --target "${names[@]/%/_fuzz}"
  local name
  for name in "${names[@]}"; do
    LLVM_PROFILE_FILE=$out/$name.profraw "$out/bin/${name}_fuzz" "tests/fuzz/corpus/$name" >/dev/null
    llvm-profdata-19 merge "$out/$name.profraw" -o "$out/$name.profdata"
    # Columns of a file's line: 8 lines, 9 missed lines.
    llvm-cov-19 report "$out/bin/${name}_fuzz" -instr-profile="$out/$name.profdata" \
      -ignore-filename-regex='/(usr|build|tests)/' >"$out/$name.txt"
    awk -v name="$name" '$8 ~ /^[0-9]+$/ && $9 < $8 && $1 != "TOTAL" { lines += $8; missed += $9; files++ }
      END { printf "fuzz: %s: %.1f %% of %d lines in %d files\n", name, 100 * (1 - missed / lines), lines, files }' \
      "$out/$name.txt"
  done
}
if [ -n "$coverage" ] && [ -z "$limit$merge" ]; then
  show_coverage
  exit
fi

deploy/local/build.sh fuzz fuzz_job
mkdir -p build/fuzz/found
passed=0
failed=0
executions=0
start=$SECONDS
for name in "${names[@]}"; do
  new=build/fuzz/new/$name
  mkdir -p "$new"
  log=build/fuzz/$name.log
  timeout=1
  memory=4096
  # A template may loop until its steps are used up, and a grammar until its time is.
  case $name in
    chat_template) timeout=5 ;;
    grammar) timeout=5 memory=1024 ;;
  esac
  began=$SECONDS
  if build/fuzz/bin/"${name}_fuzz" "${limit:--max_total_time=15}" -timeout="$timeout" -rss_limit_mb="$memory" \
    -max_len=65536 -print_final_stats=1 -artifact_prefix=build/fuzz/found/"$name"- \
    "$new" "tests/fuzz/corpus/$name" >"$log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    tail -n 40 "$log" >&2
  fi
  executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  executions=$((executions + ${executed:-0}))
  echo "fuzz: $name: ${executed:-0} executions in $((SECONDS - began)) s," \
    "$(grep -ao 'cov: [0-9]*' "$log" | tail -n 1)"
  if [ -n "$merge" ]; then
    build/fuzz/bin/"${name}_fuzz" -merge=1 "tests/fuzz/corpus/$name" "$new" >>"$log" 2>&1 || true
  fi
done
echo "fuzz: $executions executions of ${#names[@]} targets in $((SECONDS - start)) s"
if [ -n "$coverage" ]; then show_coverage; fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
