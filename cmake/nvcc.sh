#!/usr/bin/env bash
# nvcc.sh LOG COMMAND…: compiles, keeps all that is said in LOG (ptxas tells registers and spills of
# every kernel), and shows of it what is an error or a warning.
set -euo pipefail

readonly LOG=$1
shift
if ! "$@" >"$LOG" 2>&1; then
  grep -vE '^ptxas info|^ +[0-9]+ bytes stack frame' "$LOG" >&2 || true
  exit 1
fi
grep -i 'warning' "$LOG" >&2 || true
