#!/usr/bin/env bash
# Builds the container images without a daemon. See --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: deploy/docker/build_images.sh [--cuda | --from-source] [IMAGE…]

Builds the images orchestrator, verifier, drafter and replica (default: all) with buildah, and writes them
as OCI archives: build/images/bastion-IMAGE.tar. Prints their sizes.
  --cuda         verifier, drafter and replica with the programs of preset cuda, and the CUDA libraries:
                 bastion-IMAGE-cuda.tar
  --from-source  compiles the programs in a fresh Debian 12 made by mmdebstrap, which takes half an hour,
                 as "docker build" does (deploy/docker/Dockerfile)
By default, it takes the programs of build/release and the libraries of this machine's Debian packages,
which takes seconds: build them first with deploy/local/build.sh. Needs root, Debian 12, and its packages
buildah (and mmdebstrap for --from-source).
Load an archive into a registry with: skopeo copy oci-archive:FILE docker://REGISTRY/NAME:TAG
END
}

readonly ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly HERE=$ROOT/deploy/docker
readonly OUT=$ROOT/build/images

die() {
  echo "build_images: $*" >&2
  exit 1
}

preset=release suffix='' from_source=no images=(orchestrator verifier drafter replica)
case ${1:-} in
  -h | --help)
    usage
    exit
    ;;
  --cuda)
    preset=cuda suffix=-cuda images=(verifier drafter replica)
    shift
    ;;
  --from-source)
    from_source=yes
    shift
    ;;
  -*) die "unknown argument '$1' (try --help)" ;;
esac
[ $# = 0 ] || images=("$@")
[ "$(id -u)" = 0 ] || die "run it as root, or build deploy/docker/Dockerfile with docker or podman"
command -v buildah >/dev/null || die "no buildah: apt-get install buildah"
mkdir -p "$OUT"
work=$(mktemp -d "$OUT/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work

# buildah with storage of its own, which goes away with the folder.
run_buildah() {
  local command=$1
  shift
  buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run" "$command" "$@"
}

# A folder roots/ with the root file systems, as build context in the place of the stage that compiles.
install_programs() {
  cmake --install "$ROOT/build/$preset" --component bastion --strip --prefix "$work/tree" >"$work/log" ||
    die "build the programs first: deploy/local/build.sh $preset"
  "$HERE/make_roots.sh" "$work/tree" "$work/build/roots" >>"$work/log"
}

# The image of a bare Debian 12, from the mirrors that this machine uses.
bootstrap_debian() {
  command -v mmdebstrap >/dev/null || die "no mmdebstrap: apt-get install mmdebstrap"
  "$ROOT/deploy/docker/bootstrap_debian.sh" "$work/debian.tar"
  local container
  container=$(run_buildah from scratch)
  run_buildah add --quiet "$container" "$work/debian.tar" / >/dev/null
  run_buildah commit --quiet "$container" bastion-debian >/dev/null
  rm "$work/debian.tar"
}

if [ "$from_source" = yes ]; then
  bootstrap_debian
  context=$ROOT
  arguments=(--layers --build-arg DEBIAN=localhost/bastion-debian
    --ignorefile "$HERE/Dockerfile.dockerignore")
else
  install_programs
  context=$work/empty
  mkdir "$context"
  arguments=(--build-context "build=$work/build")
fi
version=$(sed -nE 's/^project\(bastion VERSION ([0-9.]+).*/\1/p' "$ROOT/CMakeLists.txt")
revision=$(git -C "$ROOT" rev-parse HEAD 2>/dev/null || echo unknown)
epoch=$(git -C "$ROOT" log -1 --format=%ct 2>/dev/null || echo 0)
for image in "${images[@]}"; do
  name=bastion-$image$suffix
  run_buildah bud --quiet --isolation chroot \
    --timestamp "$epoch" --format oci --target "$image" --tag "$name:$version" --build-arg "VERSION=$version" \
    --build-arg "REVISION=$revision" --build-arg "PRESET=$preset" "${arguments[@]}" \
    --file "$HERE/Dockerfile" "$context" >"$work/log"
  rm -f "$OUT/$name.tar"
  run_buildah push --quiet "$name:$version" "oci-archive:$OUT/$name.tar:$name:$version"
  container=$(run_buildah from "$name:$version")
  files=$(du -sb "$(run_buildah mount "$container")" | cut -f 1)
  run_buildah rm "$container" >/dev/null
  awk -v name="$name" -v files="$files" -v archive="$(stat -c %s "$OUT/$name.tar")" 'BEGIN {
    printf "%-28s %6.1f MB of files, %5.1f MB compressed\n", name, files / 1e6, archive / 1e6 }'
done
