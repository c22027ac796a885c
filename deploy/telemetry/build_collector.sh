#!/usr/bin/env bash
# Builds the OpenTelemetry Collector; see --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: deploy/telemetry/build_collector.sh

Builds the Collector that collector-builder.yaml describes, from Go modules, as
build/collector/otelcol. Takes a few minutes the first time and nothing later, until that file changes.
Uses the Go of PATH if it is 1.26 or newer, else installs Go into build/go. Prints the path of the program.
The log is in build/collector/build.log.
END
}
[ $# = 0 ] || { usage; [ "$1" = --help ] && exit 0 || exit 2; }

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly MANIFEST=$ROOT/deploy/telemetry/collector-builder.yaml
readonly OUT=$ROOT/build/collector
readonly LOG=$OUT/build.log
readonly VERSION=v0.159.0

source "$ROOT/deploy/local/use_go.sh"

build() {
  use_go
  GOBIN=$OUT go install "go.opentelemetry.io/collector/cmd/builder@$VERSION"
  "$OUT/builder" --config "$MANIFEST" --skip-compilation
  (cd dist && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$OUT/otelcol.new" .)
  mv otelcol.new otelcol
  cp "$MANIFEST" built-from.yaml
}

mkdir -p "$OUT"
cd "$OUT"
if [ ! -x otelcol ] || ! cmp -s "$MANIFEST" built-from.yaml; then
  echo "building the OpenTelemetry Collector (a few minutes the first time) ..." >&2
  (build) >"$LOG" 2>&1 || {
    tail -n 15 "$LOG" >&2
    echo "build_collector.sh: failed; the full log is $LOG. Check the network and the free disk space" >&2
    exit 1
  }
fi
echo "$OUT/otelcol"
