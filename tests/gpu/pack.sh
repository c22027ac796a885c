#!/usr/bin/env bash
# Packs the GPU programs into one folder that runs on another machine. See --help.
set -euo pipefail

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly HERE=$ROOT/tests/gpu
readonly BIN=$ROOT/build/cuda/bin
readonly MAX_MB=100 MAX_ARCHIVE_MB=30
readonly MAX_FILE_BYTES=30000000  # Larger files do not travel to every machine.

usage() {
  cat <<'END_OF_USAGE'
usage: tests/gpu/pack.sh [--out DIR] [--archive] [--add PATH]…

Copies the GPU programs from build/cuda/bin into one folder that runs on another machine:
  bastion-verifier, bastion-drafter, bastion-orchestrator, bastion-bench, bastionctl
  cuda_*_test, cuda_*_benchmark   all that are built
  lib/        the shared libraries that they need, except glibc and those in the torch wheel
  env.sh      source it on the other machine: it finds torch's libraries for the programs
  join.sh     joins the parts of files over 30 MB, which are packed as FILE.part.000, …
  added/      what --add names
  built.txt   the commit that the programs were built from

  --out DIR   folder to write. Default: build/cuda/pack
  --archive   also write DIR.tar.xz, which takes a minute. tests/gpu/run.sh accepts either
  --add PATH  also pack this file or folder, e.g. a model, as added/NAME. It does not count as part
              of the folder's size. May be repeated

Build first: deploy/local/build.sh --torch cuda cuda_job (without --torch some tests are missing). The
programs are stripped. The script checks that the folder contains everything they need and is at most
100 MB, and that the archive is at most 30 MB.
The other machine needs x86-64 Linux with glibc 2.36 (Debian 12's) or newer, and a python3 with a torch
wheel for CUDA 13; a build with BASTION_TORCH needs the version of torch that build/venv has. It needs
no network and no installation (tests/gpu/run.sh calls join.sh itself):
  DIR/join.sh && . DIR/env.sh && DIR/bastion-verifier --help
END_OF_USAGE
}

die() {
  echo "pack: $*" >&2
  exit 1
}

out=$ROOT/build/cuda/pack
archive=no
added=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help)
      usage
      exit
      ;;
    --out)
      out=${2:?"--out needs a folder"}
      shift 2
      ;;
    --archive)
      archive=yes
      shift
      ;;
    --add)
      [ -e "${2:?"--add needs a file or a folder"}" ] || die "--add: there is no $2"
      added+=("$2")
      shift 2
      ;;
    *) die "unknown argument '$1' (try --help)" ;;
  esac
done

# Prints the names of the programs to pack.
programs() {
  local name
  for name in bastion-verifier bastion-drafter bastion-orchestrator bastion-bench bastionctl; do
    [ -x "$BIN/$name" ] || die "$BIN/$name is missing; build it with deploy/local/build.sh cuda cuda_job"
    echo "$name"
  done
  (cd "$BIN" && shopt -s nullglob && printf '%s\n' cuda_*_test cuda_*_benchmark) | sed '/^$/d'
}

# Prints the path of every library that the program loads, except those of glibc.
libraries() {
  local found
  found=$(ldd "$1")
  if grep -q 'not found' <<<"$found"; then
    grep 'not found' <<<"$found" >&2
    die "$1 lacks libraries on this machine; run deploy/local/setup.sh --cuda"
  fi
  sed -nE 's/.* => (\/[^ ]+) .*/\1/p' <<<"$found" |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libutil|libresolv|libanl|ld-linux-x86-64)\.so' || true
}

# Makes the program look for libraries only in lib/ beside it, not in this machine's build/venv.
set_rpath() {
  local found
  cmake -DFILE="$1" -P "$HERE/set_rpath.cmake" >/dev/null
  # Not as a pipe: grep -q ends at the first match, and pipefail counts the other end's SIGPIPE.
  found=$(readelf -d "$1")
  grep -qF 'Library rpath: [$ORIGIN/lib]' <<<"$found" ||
    die "$1 does not look for libraries in \$ORIGIN/lib; build it with deploy/local/build.sh cuda cuda_job"
}

# Checks that the program finds every library in the folder, in glibc or in the wheels.
check_program() {
  local found
  found=$(env -i LD_LIBRARY_PATH="$wheels" "$(command -v ldd)" "$1")
  if grep 'not found' <<<"$found" >&2; then
    die "$1 needs libraries that another machine would not have"
  fi
}

if [ -e "$out" ] && [ ! -e "$out/env.sh" ] && [ -n "$(ls -A "$out")" ]; then
  die "$out was not created by this script; choose another folder"
fi
names=$(programs)
site=$(echo "$ROOT"/build/venv/lib/python3*/site-packages)
wheels=$(printf '%s:' "$site"/torch/lib "$site"/nvidia/*/lib)

rm -rf "$out"
mkdir -p "$out/lib"
out=$(cd "$out" && pwd)
for name in $names; do
  cp "$BIN/$name" "$out/$name"
  strip --strip-all "$out/$name"
  set_rpath "$out/$name"
done
loaded=$(for name in $names; do libraries "$BIN/$name"; done | sort -u)
grep -v /site-packages/ <<<"$loaded" | xargs cp -L -t "$out/lib"
chmod u+w "$out"/lib/*
strip --strip-unneeded "$out"/lib/*
needed=$(sed -n 's|.*/site-packages/.*/||p' <<<"$loaded" | paste -sd ' ')
torch=
case $needed in
  *libtorch_cpu.so*) torch=$(sed -nE "s/^__version__ = '(.*)'/\1/p" "$site/torch/version.py") ;;
esac
sed "s/@TORCH_VERSION@/$torch/g; s/@LIBRARIES@/$needed/g" "$HERE/env.sh.in" >"$out/env.sh"
commit=$(git -C "$ROOT" rev-parse --short HEAD 2>/dev/null || echo unknown)
[ -z "$(git -C "$ROOT" status --porcelain 2>/dev/null)" ] || commit+=", with changes"
echo "$commit" >"$out/built.txt"
for name in $names; do check_program "$out/$name"; done

# check_size PATH MB: prints the size of PATH. Fails if it is larger than MB.
check_size() {
  local bytes
  bytes=$(du -sb "$1" | cut -f1)
  awk -v bytes="$bytes" 'BEGIN { printf "%.1f MB\n", bytes / 1e6 }'
  [ "$bytes" -le $(($2 * 1000000)) ] || die "$1 is larger than $2 MB; its largest files: $(du -b "$out"/* |
    sort -rn | head -n 5 | awk '{ printf "%s %d MB, ", $2, $1 / 1e6 }')"
}

# Replaces each large file by parts, which have its mode.
split_files() {
  local file
  find "$out" -type f -size "+${MAX_FILE_BYTES}c" | while read -r file; do
    split -b "$MAX_FILE_BYTES" -d -a 3 "$file" "$file.part."
    chmod --reference="$file" "$file".part.*
    rm "$file"
  done
}

size=$(check_size "$out" "$MAX_MB")
cp "$HERE/join.sh" "$out/join.sh"
if [ ${#added[@]} -gt 0 ]; then
  mkdir "$out/added"
  cp -RL "${added[@]}" "$out/added"
fi
split_files
echo "pack: $out has $(wc -w <<<"$names") programs and $(find "$out/lib" -type f | wc -l) libraries, $size"
rm -f "$out.tar.xz"
if [ "$archive" = yes ]; then
  # One thread, so that xz compresses all files as one block: the programs share much of their code.
  tar -C "$out" -c . | xz -T1 -9 >"$out.tar.xz"
  size=$(check_size "$out.tar.xz" "$MAX_ARCHIVE_MB")
  echo "pack: $out.tar.xz, $size"
fi
