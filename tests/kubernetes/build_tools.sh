#!/usr/bin/env bash
# Builds the programs that test the Helm chart and the Compose file. See --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: tests/kubernetes/build_tools.sh [--cluster]

Builds helm, kube-score and a reader of Compose files from Go modules into build/kubernetes, and prints that
folder. Takes three minutes the first time and nothing later, until this script changes.
  --cluster   also builds a control plane (etcd, kube-apiserver, kube-controller-manager, kube-scheduler),
              kubectl, and kwok, which plays the nodes. Takes ten minutes and 4 GB of disk the first time
Uses the Go of PATH if it is 1.26 or newer, else installs Go into build/go. The log is
build/kubernetes/build.log.
END
}

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly HERE=$ROOT/tests/kubernetes
readonly OUT=$ROOT/build/kubernetes
readonly LOG=$OUT/build.log
readonly HELM=helm.sh/helm/v4/cmd/helm@v4.2.4
readonly KUBE_SCORE=github.com/zegl/kube-score/cmd/kube-score@v1.20.0
readonly COMPOSE=github.com/compose-spec/compose-go/v2/cmd@v2.14.0
readonly KWOK=sigs.k8s.io/kwok/cmd/kwok@v0.7.0
# The definitions of objects that are no part of Kubernetes: modules, and files of them.
readonly DEFINITIONS=(
  sigs.k8s.io/gateway-api@v1.6.3 config/crd/standard/gateway.networking.k8s.io_grpcroutes.yaml
  sigs.k8s.io/gateway-api@v1.6.3 config/crd/standard/gateway.networking.k8s.io_httproutes.yaml
  sigs.k8s.io/gateway-api-inference-extension@v1.5.0
  config/crd/bases/inference.networking.k8s.io_inferencepools.yaml
  github.com/prometheus-operator/prometheus-operator@v0.85.0
  example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml
  github.com/cert-manager/cert-manager@v1.21.0 deploy/crds/cert-manager.io_certificates.yaml
)
source "$ROOT/deploy/local/use_go.sh"

cluster=no
case ${1:-} in
  '') ;;
  --cluster) cluster=yes ;;
  *)
    usage
    [ "$1" = --help ] && exit 0 || exit 2
    ;;
esac

build_chart_tools() {
  local module
  for module in "$HELM" "$KUBE_SCORE" "$COMPOSE"; do
    CGO_ENABLED=0 GOBIN=$OUT go install -trimpath -ldflags '-s -w' "$module"
  done
  mv "$OUT/cmd" "$OUT/compose"
}

build_cluster() {
  local program version=v1.36.3
  local flags="-s -w -X k8s.io/component-base/version.gitVersion=$version"
  flags+=" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
  CGO_ENABLED=0 GOBIN=$OUT go install -trimpath -ldflags '-s -w' "$KWOK"
  for program in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
    (cd "$HERE/control_plane" && CGO_ENABLED=0 go build -trimpath -ldflags "$flags" -o "$OUT/" \
      "k8s.io/kubernetes/cmd/$program")
  done
  (cd "$HERE/control_plane" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$OUT/etcd" \
    go.etcd.io/etcd/server/v3)
  copy_definitions "${DEFINITIONS[@]}"
}

# copy_definitions MODULE FILE …
copy_definitions() {
  local folder
  rm -rf "$OUT/definitions"
  mkdir "$OUT/definitions"
  while [ $# -gt 0 ]; do
    folder=$(cd "$OUT" && go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p')
    install -m 644 -t "$OUT/definitions" "$folder/$2"
    shift 2
  done
}

# step STAMP WHAT COMMAND FILE…: runs the command unless it has run since the files changed.
step() {
  local stamp=$OUT/$1 what=$2 hash
  hash=$(cat "${@:4}" | sha256sum)
  [ "$(cat "$stamp" 2>/dev/null)" != "$hash" ] || return 0
  echo "building $what (minutes the first time) ..." >&2
  # In the background, because set -e has no effect in a condition.
  (use_go && "$3") >"$LOG" 2>&1 &
  wait $! || {
    tail -n 15 "$LOG" >&2
    echo "build_tools.sh: failed; the full log is $LOG. Check the network and the free disk space" >&2
    exit 1
  }
  echo "$hash" >"$stamp"
}

mkdir -p "$OUT"
step chart-tools.built "helm, kube-score and compose" build_chart_tools "$HERE/build_tools.sh"
[ $cluster = no ] || step cluster.built "a control plane of Kubernetes" build_cluster \
  "$HERE/build_tools.sh" "$HERE"/control_plane/go.*
echo "$OUT"
