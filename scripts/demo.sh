#!/usr/bin/env bash
# Demonstration: the content of a file, and a mass spectrum from its columns. Needs no network.
#
#   scripts/demo.sh BIN DATA     BIN: programs of the virtual environment; DATA: directory with real files
set -euo pipefail
bin=$1
data=$2/rntuple
own=testdata/dimuon.root
out=demo-output

show() {
    printf '\n\033[1m$ %s\033[0m\n' "$*"
    PATH="$bin:$PATH" "$@"
}

show fb ls "$own"
show fb info "$own:Events"
show python examples/python/01_dimuon.py "$own" --output "$out/dimuon.png"

# The same program on files of CMS open data: muons only, and a full NanoAOD with 1312 other columns.
for name in Run2012BC_DoubleMuParked_Muons_1000evts_rntuple_v1-0-0-0 \
    cmsopendata2015_ttbar_19980_NANOAOD_RNTupleImporter_rntuple_v1-0-0-1; do
    if [ -f "$data/$name.root" ]; then
        show fb ls "$data/$name.root"
        show python examples/python/01_dimuon.py "$data/$name.root" --output "$out/${name%%_*}.png"
    else
        printf '\nskipped: %s not found\n' "$data/$name.root"
    fi
done
