#!/usr/bin/env bash
# Checks the format of the sources, lints Python and runs clang-tidy; see --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: tests/lint.sh [--fix | --tidy [--changed | FILE…]]

Checks all C++ and CUDA files with clang-format, and all Python files with ruff and mypy (pyproject.toml, which
names the folders that mypy does not check yet). Every difference and every finding is an error.
  --fix     reformats them instead, and mends what ruff can mend
  --tidy    runs clang-tidy (.clang-tidy, every finding is an error) over the given files, or over all .cc
            files outside tests/ that the build compiles without libtorch and CUDA. Only with FILE does it
            find a missing #include, which precompiled headers hide from the builds.
            --changed checks only the sources that a change reaches (tests/changed.py), and records in
            tests/passed.txt those without a finding
END
}

die() {
  echo "lint: $*" >&2
  exit 1
}

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly VENV=build/venv/bin

sources() {
  git ls-files --cached --others --exclude-standard -- '*.cc' '*.h' '*.cu' '*.cuh' | while read -r file; do
    [ ! -e "$file" ] || echo "$file"
  done
}

need_clang_format() {
  command -v clang-format-14 >/dev/null || die "no clang-format-14: run deploy/local/setup.sh"
}

check_format() {
  need_clang_format
  local offenders
  # For each file that clang-format would change: the first line that it would change.
  offenders=$(sources | xargs clang-format-14 --dry-run -Werror 2>&1 |
    grep -E '^[^:]+:[0-9]+:[0-9]+: error' | cut -d: -f1,2 | sort -u -t: -k1,1) || true
  if [ -n "$offenders" ]; then
    sed 's/$/: not formatted/' <<<"$offenders" >&2
    die "$(wc -l <<<"$offenders") files are not formatted: run tests/lint.sh --fix"
  fi
  echo "lint: $(sources | wc -l) files are formatted"
}

need_python_tools() {
  local tool
  for tool in ruff mypy; do
    [ -x "$VENV/$tool" ] || die "no $VENV/$tool: run deploy/local/setup.sh"
  done
}

check_python() {
  need_python_tools
  "$VENV/ruff" format --quiet --check || die "Python files are not formatted: run tests/lint.sh --fix"
  "$VENV/ruff" check --quiet || die "ruff found errors in Python files; see above"
  "$VENV/mypy" --no-error-summary ||
    die "mypy found type errors in Python files; see above. Mend the code or its annotations"
  echo "lint: Python files are formatted, and ruff and mypy found nothing"
}

fix() {
  need_clang_format
  need_python_tools
  sources | xargs clang-format-14 -i
  "$VENV/ruff" check --quiet --fix
  "$VENV/ruff" format --quiet
}

tidy() {
  local build=build/tidy unity=ON
  # The files that put the sources together include them, which this check forbids everywhere else.
  local checks=-bugprone-suspicious-include
  command -v clang-tidy-19 >/dev/null || die "no clang-tidy-19: run deploy/local/setup.sh --clang"
  # clang-tidy spends most of its time on headers. So it reads all the sources of a library as one file.
  local changed=
  [ "${1:-}" != --changed ] || { changed=yes && shift; }
  if [ $# -gt 0 ]; then
    build=build/tidy-files unity=OFF checks=
  fi
  cmake --preset tidy -B "$build" -DBASTION_UNITY=$unity >/dev/null || die "cannot configure preset tidy"
  cmake --build "$build" --target generated_files >/dev/null || die "cannot generate the sources in $build"
  local files=("$@")
  if [ -n "$changed" ]; then
    mapfile -t files < <(python3 tests/changed.py tidy)
    if [ ${#files[@]} -eq 0 ]; then
      echo "lint: clang-tidy has read all sources as they are (tests/passed.txt)"
      return
    fi
  elif [ ${#files[@]} -eq 0 ]; then
    mapfile -t files < <(sed -n 's/^ *"file": "\(.*\)",\?$/\1/p' "$build/compile_commands.json" |
      grep -v "$build/generated/")
  fi
  # Clang reports deprecated functions of libstdc++ 12 where templates of <algorithm> are instantiated.
  # Findings go to stdout; stderr only counts suppressed warnings in system headers.
  local clean=$build/clean.txt failed=
  : >"$clean"
  printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -I '{}' bash -c \
    'clang-tidy-19 -p "$1" --checks="$2" --quiet "$4" 2>/dev/null && echo "$4" >>"$3"' \
    _ "$build" "$checks" "$clean" '{}' || failed=yes
  [ -z "$changed" ] || python3 tests/changed.py tidy --record <"$clean"
  [ -z "$failed" ] || die "clang-tidy found errors; see above"
  echo "lint: clang-tidy found nothing in ${#files[@]} files"
}

case ${1:-} in
  '') check_format && check_python ;;
  --fix) fix ;;
  --tidy) shift && tidy "$@" ;;
  -h | --help) usage ;;
  *) die "unknown argument '$1' (try --help)" ;;
esac
