#!/usr/bin/env bash
# Makes the object stores that tests start, into a cache; what cannot be made is said, and its tests are skipped.
#
#   scripts/setup_stores.sh PYTHON
set -euo pipefail
python=$1

say() { printf 'set-up: %s\n' "$*" >&2; }

cache=${XDG_CACHE_HOME:-$HOME/.cache}/femtobarn
go_install() {
    local name=$1 what=$2
    if "$python" "$(dirname "$0")/object_servers.py" "$name" >/dev/null 2>&1; then
        return
    fi
    if ! command -v go >/dev/null; then
        say "missing: $name, whose tests are skipped. It is built by go (https://go.dev/dl): go install $what"
        return
    fi
    say "building $what into $cache/bin, which takes some minutes"
    GOBIN=$cache/bin nice go install "$what" || say "could not build $what: its tests are skipped"
}

npm_install() {
    local name=$1 what=$2
    if "$python" "$(dirname "$0")/object_servers.py" "$name" >/dev/null 2>&1; then
        return
    fi
    if ! command -v npm >/dev/null; then
        say "missing: $name, whose tests are skipped. It needs npm (https://nodejs.org): npm install $what"
        return
    fi
    say "installing $what into $cache/node_modules"
    mkdir -p "$cache"
    npm install --silent --no-audit --no-fund --prefix "$cache" "$what" >/dev/null \
        || say "could not install $what: its tests are skipped"
}

go_install minio github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
go_install fake-gcs-server github.com/fsouza/fake-gcs-server@v1.56.1
npm_install azurite-blob azurite@3.35.0
