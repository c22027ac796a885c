#!/usr/bin/env bash
# Joins the parts of the files that tests/gpu/pack.sh has split, in the folder of this script. Does
# nothing if there are none.
set -euo pipefail

readonly PACK=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

find "$PACK" -type f -name '*.part.000' | while read -r first; do
  file=${first%.part.000}
  cat "$file".part.* >"$file.joining"
  chmod --reference="$first" "$file.joining"
  mv "$file.joining" "$file"
  rm "$file".part.*
done
