#!/usr/bin/env bash
# Format and lint of the C++ and CUDA files; see --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: tests/lint.sh [--fix | --tidy [FILE…]]

Without arguments: clang-format over all C++ and CUDA files; any difference is an error.
  --fix     reformat them instead
  --tidy    clang-tidy (checks in .clang-tidy, all of them errors) over the given files, or over all
            .cc files that build/release compiles: slow, and needs clang-tidy-14
END
}

die() {
  echo "lint: $*" >&2
  exit 1
}

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly FOLDERS=(common kernels orchestrator drafter_service verifier_service client tests)
sources() {
  find "${FOLDERS[@]}" -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' | sort
}

need_clang_format() {
  command -v clang-format-14 >/dev/null || die "no clang-format-14: run deploy/local/setup.sh"
}

check_format() {
  need_clang_format
  local offenders
  # The first line of each file that is not as clang-format would write it.
  offenders=$(sources | xargs clang-format-14 --dry-run -Werror 2>&1 |
    grep -E '^[^:]+:[0-9]+:[0-9]+: error' | cut -d: -f1,2 | sort -u -t: -k1,1) || true
  if [ -n "$offenders" ]; then
    sed 's/$/: not formatted/' <<<"$offenders" >&2
    die "$(wc -l <<<"$offenders") files are not formatted: tests/lint.sh --fix"
  fi
  echo "lint: $(sources | wc -l) files are formatted"
}

tidy() {
  local database=build/release/compile_commands.json
  command -v clang-tidy-14 >/dev/null || die "no clang-tidy-14: apt-get install clang-tidy-14"
  [ -f "$database" ] || die "no $database: run deploy/local/build.sh first"
  local files=("$@") file
  if [ ${#files[@]} -eq 0 ]; then
    for file in $(sources | grep '\.cc$'); do
      if grep -qF "$PWD/$file\"" "$database"; then files+=("$file"); fi
    done
  fi
  # The precompiled headers are gcc's: clang is to read the headers themselves.
  mkdir -p build/tidy
  sed -E 's/-Winvalid-pch|-fpch-preprocess|-include [^ ]*cmake_pch\.hxx//g' "$database" \
    >build/tidy/compile_commands.json
  clang-tidy-14 -p build/tidy --quiet --extra-arg=-Wno-unknown-warning-option "${files[@]}"
}

case ${1:-} in
  '') check_format ;;
  --fix) need_clang_format && sources | xargs clang-format-14 -i ;;
  --tidy) shift && tidy "$@" ;;
  -h | --help) usage ;;
  *) die "unknown argument '$1' (try --help)" ;;
esac
