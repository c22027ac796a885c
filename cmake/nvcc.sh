#!/usr/bin/env bash
# nvcc.sh LOG COMMAND…: runs the compiler, writes its output to LOG, and prints only errors and
# warnings. LOG includes ptxas's report on the registers and spills of every kernel.
set -euo pipefail

readonly LOG=$1
shift
if ! "$@" >"$LOG" 2>&1; then
  grep -vE '^ptxas info|^ +[0-9]+ bytes stack frame' "$LOG" >&2 || true
  exit 1
fi
grep -i 'warning' "$LOG" >&2 || true
