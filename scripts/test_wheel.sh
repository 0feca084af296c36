#!/usr/bin/env bash
# Checks that the wheel can be installed on Linux with GLIBC 2.28 (EL8 and EL9), and has the licences of all linked
# packages. Installs it into an empty environment, outside of the project directory, and uses it: only this finds files
# that are missing from the wheel, since the tests run on the source tree.
#
#   scripts/test_wheel.sh PYTHON WHEEL FILE
set -euo pipefail
python=$(command -v "$1")
wheel=$(realpath "$2")
file=$(realpath "$3")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

case $wheel in
*-manylinux_2_28_"$(uname -m)".whl) ;;
*) echo "its platform is not manylinux_2_28: $wheel" && exit 1 ;;
esac
"$python" -m zipfile -e "$wheel" unpacked
newest=$(objdump -T unpacked/femtobarn/_core*.so | grep -o 'GLIBC_[0-9.]*' | cut -d_ -f2 | sort -uV | tail -n1)
[ "$(printf '%s\n2.28\n' "$newest" | sort -V | tail -n1)" = 2.28 ] || { echo "it needs GLIBC $newest" && exit 1; }
shown=$(nm -D --defined-only unpacked/femtobarn/_core*.so | awk '$3 != "PyInit__core" && $3 !~ /^fb_/ { print $3 }')
[ -z "$shown" ] || { echo "it shows symbols: $shown" && exit 1; }
missing=$(comm -13 <(nm -D --defined-only unpacked/femtobarn/_core*.so | awk '{ print $3 }' | sort -u) \
    <(grep -v inline unpacked/femtobarn/include/femtobarn.h | grep -oE '\bfb_[a-z0-9_]+\(' | tr -d '(' | sort -u))
[ -z "$missing" ] || { echo "dataframes of ROOT do not find: $missing" && exit 1; }
for name in femtobarn.h femtobarn/rdf.hxx; do test -s "unpacked/femtobarn/include/$name"; done
for name in LICENSE THIRD-PARTY-NOTICES.txt; do test -s unpacked/femtobarn-*.dist-info/licenses/$name; done
for name in zstd-sys lmdb-master-sys liblzma-sys ring object_store; do
    grep -q "^$name [0-9]" unpacked/femtobarn-*.dist-info/licenses/THIRD-PARTY-NOTICES.txt || { echo "no notice of $name" && exit 1; }
done

"$python" -m venv empty
empty/bin/python -m pip install --disable-pip-version-check --quiet "$wheel"
empty/bin/fb ls "$file" >/dev/null
empty/bin/python - "$file" <<'PY'
import sys
from pathlib import Path

import femtobarn as fb

folder = Path(fb.__file__).parent
assert folder.is_relative_to(sys.prefix), f"imported from {folder}, not from the wheel"
assert (folder / "py.typed").exists(), "the wheel holds no py.typed"
events = fb.open(sys.argv[1])
assert events.num_entries == len(events.arrays(["nMuon"])) > 0
PY
printf 'wheel: %s\n' "$(basename "$wheel")"
printf '1 passed, 0 failed\n'
