"""Write the licences of everything linked into the package: Rust crates, and the C libraries in them.

    third_party_notices.py OUTPUT

The crates are resolved by `cargo metadata` for the extension module and the C library on Linux, without build and test
dependencies. The licences are the files in the crates; a licence that several crates share is written once.
"""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
SHIPPED = ("femtobarn-python", "femtobarn-capi")
_FILES = re.compile(r"(?i)^(licen[cs]e|copying|copyright|notice|unlicense)([-_.].*)?$")
# C code in crates with its own licences.
_C_LIBRARIES = {
    "libdeflate-sys": "libdeflate",
    "liblzma-sys": "xz",
    "lmdb-master-sys": "lmdb/libraries/liblmdb",
    "lz4-sys": "liblz4/lib",
    "zstd-sys": "zstd",
}
# Scripts that are part of a crate of ours, and their licences.
_SCRIPTS = {"uPlot 1.6.32: MIT (Leon Sorokin)": "crates/cli/src/view/page/LICENSE-uPlot"}
# Crates without a licence file use the file of another crate with the same licence.
_TEXT_OF = {"Apache-2.0": "object_store", "MIT": "bytes"}


def shipped(target: str) -> dict[str, dict[str, Any]]:
    """Return the packages that are linked on a platform, by ID."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    waiting = [key for key, package in packages.items() if package["name"] in SHIPPED]
    seen: dict[str, dict[str, Any]] = {}
    while waiting:
        key = waiting.pop()
        if key in seen:
            continue
        seen[key] = packages[key]
        for needed in nodes[key]["deps"]:
            is_macro = any("proc-macro" in kind for kind in _target_kinds(packages[needed["pkg"]]))
            if not is_macro and any(kind["kind"] is None for kind in needed["dep_kinds"]):
                waiting.append(needed["pkg"])
    return {key: package for key, package in seen.items() if package["source"] is not None}


def _target_kinds(package: dict[str, Any]) -> list[list[str]]:
    return [target["kind"] for target in package["targets"]]


def texts(folder: Path) -> list[str]:
    """Return the licences and notices in a directory."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and _FILES.match(path.name))
    return [path.read_text(encoding="utf-8", errors="replace").strip() for path in files]


def notices(packages: list[dict[str, Any]]) -> str:
    """Return all notices as one string; exit with an error if a package has none."""
    by_name = {package["name"]: Path(package["manifest_path"]).parent for package in packages}
    owners: dict[str, list[str]] = defaultdict(list)
    first: dict[str, str] = {}  # licences as first written, by their words
    lines = ["Rust's standard library: MIT OR Apache-2.0 (The Rust Project Developers)"]
    for package in packages:
        name, licence = package["name"], package["license"]
        own = texts(by_name[name])
        if not own:
            known = next((text for text in _TEXT_OF if licence and text in licence), None)
            if known is None:
                sys.exit(f"{name} {package['version']} has no licence file, and {licence!r} is unknown here")
            own = texts(by_name[_TEXT_OF[known]])
        label = f"{name} {package['version']}"
        lines.append(f"{label}: {licence or 'see below'}{_authors(package)}")
        if inner := _C_LIBRARIES.get(name):
            library = texts(by_name[name] / inner)
            if not library:
                sys.exit(f"{name} {package['version']}: no licence in {inner}")
            own += library
            lines.append(f"    with the C code of {inner}")
        for text in own:
            owners[first.setdefault(" ".join(text.split()), text)].append(label)
    for label, licence in _SCRIPTS.items():
        lines.append(label)
        owners[(Path(__file__).parents[1] / licence).read_text(encoding="utf-8").strip()].append(
            label.partition(":")[0]
        )
    line, thin = "=" * 100, "-" * 100
    blocks = [f"{line}\n{', '.join(labels)}\n{thin}\n{text}\n" for text, labels in owners.items()]
    head = "femtobarn's compiled parts contain the following packages. Their licences and notices follow.\n"
    return "\n".join([head, *lines, "", *blocks])


def _authors(package: dict[str, Any]) -> str:
    names = [name.split(" <")[0] for name in package["authors"]]
    return f" ({', '.join(names)})" if names else ""


def main() -> None:
    """Write the notices."""
    packages: dict[str, dict[str, Any]] = {}
    for target in TARGETS:
        packages.update(shipped(target))
    ordered = sorted(packages.values(), key=lambda package: (package["name"], package["version"]))
    Path(sys.argv[1]).write_text(notices(ordered), encoding="utf-8")
    sys.stdout.write(f"{sys.argv[1]}: {len(ordered)} packages\n")


if __name__ == "__main__":
    main()
