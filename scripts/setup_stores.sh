#!/usr/bin/env bash
# Builds the object stores and the fault-injecting proxy for the tests into a cache. Reports what cannot be built; its
# tests are skipped.
#
#   scripts/setup_stores.sh PYTHON
set -euo pipefail
python=$1

say() { printf 'set-up: %s\n' "$*" >&2; }

cache=${XDG_CACHE_HOME:-$HOME/.cache}/femtobarn
# make NAME TOOL WHERE_TO_GET_IT WHAT COMMAND...: builds a program that does not exist yet
make() {
    local name=$1 tool=$2 site=$3 what=$4
    shift 4
    if "$python" "$(dirname "$0")/installed.py" "$name" >/dev/null 2>&1; then
        return
    fi
    if ! command -v "$tool" >/dev/null; then
        say "missing: $name, whose tests are skipped. It needs $tool ($site): $tool install $what"
        return
    fi
    say "making $what in $cache, which may take some minutes"
    mkdir -p "$cache"
    "$@" "$what" >/dev/null || say "could not make $what: its tests are skipped"
}

go_install() {
    make "$1" go https://go.dev/dl "$2" env GOBIN="$cache/bin" nice go install
}

# go_install_as NAME PROGRAM PACKAGE: for a package whose program has another name
go_install_as() {
    make "$1" go https://go.dev/dl "$3" env GOBIN="$cache/made" nice go install
    if [ -e "$cache/made/$2" ]; then
        mkdir -p "$cache/bin"
        mv "$cache/made/$2" "$cache/bin/$1"
    fi
}

npm_install() {
    make "$1" npm https://nodejs.org "$2" npm install --silent --no-audit --no-fund --prefix "$cache"
}

go_install minio github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
go_install fake-gcs-server github.com/fsouza/fake-gcs-server@v1.56.1
go_install_as toxiproxy-server server github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0
npm_install azurite-blob azurite@3.35.0
