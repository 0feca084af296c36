#!/usr/bin/env bash
# Installs the wheel into an empty environment, outside of the project's folder, and uses it: what is
# missing from the wheel is found by nothing else, since the tests run on the source tree.
#
#   scripts/test_wheel.sh PYTHON WHEEL FILE
set -euo pipefail
python=$(command -v "$1")
wheel=$(realpath "$2")
file=$(realpath "$3")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

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
