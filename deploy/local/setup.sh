#!/usr/bin/env bash
# Brings a bare Debian 12 to the point where the project builds; see --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: deploy/local/setup.sh [--minimal] [--clang] [--torch] [--cuda]

Installs what the build and the tests need, and nothing that is already there:
  1. Debian packages   deploy/local/debian-packages.txt and debian-packages-tests.txt; needs root or
                       sudo if any is missing
  2. Rust              Debian's cargo-web and rustc-web, unless cargo 1.85 or newer is found
  3. Python packages   deploy/local/requirements.txt into build/venv: matplotlib and numpy
  4. Rust crates       common/hub/rust/Cargo.lock into cargo's own cache
  --minimal            only what the programs need to build: leaves out step 3 and the packages in
                       debian-packages-tests.txt
  --clang              also deploy/local/debian-packages-clang.txt: clang and clang-tidy, 65 MB to
                       download. Presets asan and tsan need them
  --torch              also deploy/local/requirements-torch.txt into build/venv: libtorch, 0.5 GiB to
                       download and 1.2 GiB on the disk. Preset torch needs it
  --cuda               also deploy/local/requirements-cuda.txt into build/venv: the CUDA compiler, its
                       runtime and cuBLAS, 0.5 GiB to download and 0.8 GiB on the disk. Needs neither
                       GPU nor driver. Preset cuda needs it
Prints one line a step. Run it as often as you like: where all is in place it takes a second.
What apt, pip and cargo say goes to build/setup.log.
END
}

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly HERE=$ROOT/deploy/local
readonly VENV=$ROOT/build/venv
readonly LOG=$ROOT/build/setup.log
readonly NEEDED_GIB=4         # The environment, cargo's cache and one build, with room to unpack.
readonly NEEDED_WHEELS_GIB=4  # What --torch or --cuda adds: wheels, unpacked too, and a second build.

die() {
  echo "setup: $*" >&2
  exit 1
}

# step NAME COMMAND…: runs it with its output in the log; says how long it took or what went wrong.
step() {
  local name=$1 start=$SECONDS
  shift
  printf 'setup: %s ... ' "$name"
  echo "== $name: $*" >>"$LOG"
  if ! "$@" >>"$LOG" 2>&1; then
    echo "FAILED after $((SECONDS - start)) s"
    tail -n 15 "$LOG" | sed 's/^/  | /' >&2
    die "$name failed; the whole story is in $LOG. Is there a network, and room on the disk?"
  fi
  echo "$((SECONDS - start)) s"
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    sudo "$@"
  fi
}

listed() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$1"; }

# Those of the arguments that dpkg does not have.
missing_packages() {
  local package
  for package in "$@"; do
    case $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) in
      installed) ;;
      *) echo "$package" ;;
    esac
  done
}

check_system() {
  local id version
  id=$(. /etc/os-release 2>/dev/null && echo "${ID:-}")
  version=$(. /etc/os-release 2>/dev/null && echo "${VERSION_ID:-}")
  if [ "$id" != debian ] || [ "$version" != 12 ]; then
    die "this is ${id:-an unknown system} ${version}, not Debian 12: its packages are not known." \
      "Install the equivalents of $HERE/debian-packages*.txt, then build with cmake --preset release"
  fi
  [ "$(uname -m)" = x86_64 ] || die "the pinned wheels are for x86_64, this is $(uname -m)"
}

# check_disk GIB WHAT: stops where the environment's disk has less left than WHAT needs.
check_disk() {
  local available where=$ROOT/build
  [ ! -d "$VENV" ] || where=$VENV
  available=$(df --output=avail -B1G "$where" | tail -n 1 | tr -d ' ')
  if [ "$available" -lt "$1" ]; then
    die "$where has $available GiB left; $2 needs about $1"
  fi
}

apt_install() {
  # One unreachable source among several is no reason to stop: the install says what is missing.
  as_root apt-get update || true
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "$@"
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    die "missing Debian packages, and neither root nor sudo to install them: ${missing[*]}"
  fi
  step "installing ${#missing[@]} Debian packages" apt_install "${missing[@]}"
}

cargo_is_new_enough() {
  local version
  command -v cargo >/dev/null || return 1
  version=$(cargo --version | cut -d' ' -f2)
  [ "$(printf '1.85.0\n%s\n' "$version" | sort -V | head -n 1)" = 1.85.0 ]
}

# install_requirements FILE GIB WHAT: unless build/venv's stamp says that FILE as it stands is there.
install_requirements() {
  local stamp=$VENV/${1%.txt}.sha256 hash
  hash=$(sha256sum <"$HERE/$1")
  [ "$(cat "$stamp" 2>/dev/null)" != "$hash" ] || return 0
  check_disk "$2" "installing $3 and building with it"
  # Debian's own interpreter: the pinned wheels are for its version.
  [ -x "$VENV/bin/python" ] || step "making build/venv" /usr/bin/python3 -m venv "$VENV"
  step "installing $3 into build/venv" "$VENV/bin/pip" install \
    --disable-pip-version-check --no-deps --only-binary :all: --require-hashes -r "$HERE/$1"
  echo "$hash" >"$stamp"
}

fetch_crates() {
  local manifest=$ROOT/common/hub/rust/Cargo.toml
  cargo fetch --quiet --locked --offline --manifest-path "$manifest" 2>>"$LOG" && return 0
  step "fetching Rust crates" cargo fetch --locked --manifest-path "$manifest"
}

main() {
  local minimal=no clang=no torch=no cuda=no
  for argument in "$@"; do
    case $argument in
      --minimal) minimal=yes ;;
      --clang) clang=yes ;;
      --torch) torch=yes ;;
      --cuda) cuda=yes ;;
      -h | --help)
        usage
        return
        ;;
      *) die "unknown argument '$argument' (try --help)" ;;
    esac
  done
  mkdir -p "$ROOT/build"
  : >"$LOG"
  check_system
  export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
  local packages
  packages=$(listed "$HERE/debian-packages.txt")
  # Wheels are unpacked by the environment's own pip: it is made by python3-venv.
  if [ "$minimal$torch$cuda" != yesnono ]; then
    packages+=" $(listed "$HERE/debian-packages-tests.txt")"
  fi
  if [ "$clang" = yes ]; then
    packages+=" $(listed "$HERE/debian-packages-clang.txt")"
  fi
  # shellcheck disable=SC2086  # One word a package is meant.
  install_packages $packages
  cargo_is_new_enough || install_packages cargo-web rustc-web
  cargo_is_new_enough || die "no cargo 1.85 or newer on PATH, and cargo-web did not bring one"
  if [ "$minimal" = no ]; then
    install_requirements requirements.txt "$NEEDED_GIB" "matplotlib and numpy"
  fi
  if [ "$torch" = yes ]; then
    install_requirements requirements-torch.txt "$NEEDED_WHEELS_GIB" "libtorch"
  fi
  if [ "$cuda" = yes ]; then
    install_requirements requirements-cuda.txt "$NEEDED_WHEELS_GIB" "the CUDA compiler and cuBLAS"
  fi
  fetch_crates
  echo "setup: complete ($SECONDS s)"
}

main "$@"
