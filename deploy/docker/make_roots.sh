#!/usr/bin/env bash
# Makes the root file systems of the images. See --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: deploy/docker/make_roots.sh PREFIX ROOTS

Makes the folders orchestrator, verifier, drafter and replica in ROOTS. Each has programs of PREFIX (a
tree of cmake --install), the shared libraries that they load, and what libraries read: users, the
authorities of TLS. The libraries are those of this machine's Debian packages. Each folder says which
packages they come from (var/lib/dpkg/status.d, for scanners), has their copyright files, and a bill of
materials: usr/share/doc/bastion/sbom.json.
END
}
[ $# = 2 ] || { usage; [ "${1:-}" = --help ] && exit 0 || exit 2; }

readonly HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly PREFIX=$(realpath "$1") ROOTS=$2

die() {
  echo "make_roots: $*" >&2
  exit 1
}

# libraries PROGRAM…: prints the paths of the libraries that the programs load, and of the loader.
libraries() {
  local found
  found=$(ldd "$@")
  ! grep 'not found' <<<"$found" >&2 || die "libraries are missing on this machine; run deploy/local/setup.sh"
  sed -nE 's/^\t(.* => )?(\/.*) \(0x.*/\2/p' <<<"$found" | sort -u
}

# add_packages ROOT FILE…: notes in ROOT which Debian packages the files are from.
add_packages() {
  local root=$1 file owners package
  shift
  # Packages may list a file without the /usr that it is found under.
  owners=$(dpkg-query -S "$@" "${@#/usr}" 2>/dev/null) || true
  for file in "$@"; do
    package=$(awk -F ': ' -v long="$file" -v short="${file#/usr}" \
      '$NF == long || $NF == short { sub(/[:,].*/, "", $1); print $1; exit }' <<<"$owners")
    [ -n "$package" ] || die "$file is from no Debian package; images take libraries from packages only"
    [ ! -e "$root/var/lib/dpkg/status.d/$package" ] || continue
    dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$package"
    install -D -m 644 -t "$root/usr/share/doc/$package" "/usr/share/doc/$package/copyright"
  done
}

# add_library ROOT FILE: a library in the place where programs look for it. The loader's path is fixed.
add_library() {
  case $2 in
    "$PREFIX"/*) install -D -m 644 -t "$1/usr/lib/bastion" "$2" ;;
    /lib64/*) install -m 755 -t "$1/usr/lib64" "$2" ;;
    *) install -m 644 -t "$1/usr/lib/x86_64-linux-gnu" "$2" ;;
  esac
}

# make_root NAME FILE…
make_root() {
  local root=$ROOTS/$1 file libraries packaged
  shift
  rm -rf "$root"
  mkdir -p "$root"/{etc/ssl/certs,tmp,usr/bin,usr/lib/x86_64-linux-gnu,usr/lib64,var/lib/dpkg/status.d}
  chmod 1777 "$root/tmp"
  ln -s usr/bin "$root/bin"
  ln -s usr/lib "$root/lib"
  ln -s usr/lib64 "$root/lib64"
  install -m 755 -t "$root/usr/bin" "$@"
  libraries=$(libraries "$@")
  for file in $libraries; do add_library "$root" "$file"; done
  # Scanners and the GPU runtime look for the release; it decides where libraries are.
  cp -L /etc/os-release /etc/debian_version "$root/etc"
  # Those of the package, without those that were added to this machine.
  cat /usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
  mapfile -t packaged < <(printf '%s\n' "$@" $libraries /etc/debian_version /usr/sbin/update-ca-certificates |
    xargs realpath | grep -v "^$PREFIX/")
  add_packages "$root" "${packaged[@]}"
  echo 'bastion:x:10001:10001::/nonexistent:/nonexistent' >"$root/etc/passwd"
  echo 'bastion:x:10001:' >"$root/etc/group"
  echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
  install -D -m 644 -t "$root/usr/share/doc/bastion" "$PREFIX"/share/doc/bastion/{copyright,*.txt}
  "$HERE/../sbom.py" --root "$root" --out "$root/usr/share/doc/bastion/sbom.json"
}

readonly BIN=$PREFIX/bin
# sha256sum checks the models on Kubernetes.
make_root orchestrator "$BIN/bastion-orchestrator" "$BIN/bastionctl" /usr/bin/sha256sum
make_root verifier "$BIN/bastion-verifier" "$BIN/bastionctl"
make_root drafter "$BIN/bastion-drafter" "$BIN/bastionctl"
make_root replica "$BIN"/bastion-{orchestrator,verifier,drafter} "$BIN/bastionctl" \
  /usr/bin/{bash,sleep,sha256sum}
install -m 755 "$HERE/run_replica.sh" "$ROOTS/replica/usr/bin/run_replica"
