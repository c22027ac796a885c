#!/usr/bin/env bash
# Makes a bare Debian 12. See --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: deploy/docker/bootstrap_debian.sh OUT [MMDEBSTRAP-ARGUMENT…]

Makes a Debian 12 with the essential packages and apt, from the mirrors that this machine's apt uses,
backports included. It trusts the authorities that were added to this machine (/usr/local/share/ca-certificates),
e.g. of a proxy, once it has ca-certificates. OUT is a file OUT.tar, or a folder. Needs root and Debian's
package mmdebstrap.
END
}
[ $# -gt 0 ] && [ "$1" != --help ] || { usage; [ "${1:-}" = --help ] && exit 0 || exit 2; }

out=$1
shift
# One line per mirror, suite and component: "deb URI SUITE COMPONENT".
apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' |
  awk '$2 ~ /^bookworm/ && !seen[$0]++ { print "deb", $1, $2, $3 }' |
  mmdebstrap --quiet --variant=minbase --mode=root \
    --setup-hook='mkdir -p "$1/etc/apt/apt.conf.d" && echo "APT::Install-Recommends no;" >"$1/etc/apt/apt.conf.d/90bastion"' \
    --setup-hook='mkdir -p "$1/usr/local/share" && cp -r /usr/local/share/ca-certificates "$1/usr/local/share"' \
    "$@" bookworm "$out" -
