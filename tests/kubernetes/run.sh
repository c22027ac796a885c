#!/usr/bin/env bash
# Installs the Helm chart through a real control plane. See --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: tests/kubernetes/run.sh

Builds the programs of a control plane (build_tools.sh --cluster), starts etcd, the API server, the
controllers and the scheduler on loopback, and nodes that kwok plays. Installs the chart, and checks
rollout, claims, updates, uninstall, and that the API server refuses mistakes (cluster_test.py).
No container runs. Logs are in build/kubernetes/logs.
END
}
[ $# = 0 ] || { usage; [ "$1" = --help ] && exit 0 || exit 2; }

cd "$(dirname "${BASH_SOURCE[0]}")"
tools=$(./build_tools.sh --cluster)
exec python3 cluster_test.py "$tools"
