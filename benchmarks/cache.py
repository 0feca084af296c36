"""Measure a cache of remote files that processes share.

    python benchmarks/cache.py [--data DIR] [--runs N] [--root-python PYTHON] [--only ...] [--rtt 0 10 50] [--json FILE]

Reads the 15 columns of the Analysis Grand Challenge in four files of 100,000 events (RNTuple) from XRootD, nginx and
MinIO on this machine, through a Toxiproxy that adds latency. Every run is a separate process, which first reads one of
the files through another port and without a cache. The states of the cache:

- none: no cache is used; cold: its directory does not exist;
- same: the process has read all of it once; other: another process has; half: it has 8 of the 15 columns;
- eight at once: eight processes; the time of the slowest counts; cold and warm;
- local: the files are read from the local disk.

A proxy counts the bytes from the server once for each state. Beside it: uproot with fsspec's caches, and XCache.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from _measure import CompetitorError, Entry, Worker, ratios, say
from _remotes import Cached
from _report import Group, context, duration, spread, table
from _run import NTUPLE, arguments, inputs, measure
from remote import FORMATS, Place, behind, options_of, places

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from servers import ServerError, Xrootd, cache_of
from toxiproxy import Toxiproxy

STATES = ["none", "cold", "same", "other", "half"]
HALF = 8


def spec(place: Place, port: int, folder: Path, state: str, **more: Any) -> dict[str, Any]:
    asked = options_of("FemtobarnRemote", place)
    other = place.server.port
    return {
        "competitor": "Cached",
        "ntuple": NTUPLE,
        "urls": place.urls(port, "RNTuple"),
        "options": asked(port),
        "warm_up": {"urls": place.urls(other, "RNTuple")[:1], "options": asked(other)},
        "state": state,
        "cache": str(folder / {"other": "full", "none": "none"}.get(state, state)),
        "half": str(folder / "half-filled"),
        **more,
    }


def entries(place: Place, port: int, folder: Path, files: list[str], root_python: str) -> list[Entry]:
    found = [Entry(state, spec(place, port, folder, state), fresh=True, checked=False) for state in STATES]
    local = spec(place, port, folder, "none") | {"urls": files, "options": {}}
    found.append(Entry("local", local, fresh=True, checked=False))
    for state, name in (("cold", "eight-cold"), ("other", "full")):
        asked = spec(place, port, folder, state, each="Cached") | {"competitor": "CachedByEight"}
        label = f"eight at once, {'cold' if state == 'cold' else 'warm'}"
        found.append(Entry(label, asked | {"cache": str(folder / name)}, fresh=True, checked=False))
    local = local | {"competitor": "CachedByEight", "each": "Cached"}
    found.append(Entry("eight at once, local", local, fresh=True, checked=False))
    if place.protocol != "XRootD":
        for kind in ("simplecache", "blockcache"):
            for state in ("cold", "other"):
                asked = spec(place, port, folder, state, kind=kind) | {"competitor": "UprootCached"}
                asked |= {"options": place.options(port), "cache": str(folder / kind)}
                label = f"uproot, {kind}, {'cold' if state == 'cold' else 'warm'}"
                found.append(Entry(label, asked, python=root_python, rounds=2, fresh=True, checked=False))
    return found


def fill(place: Place, port: int, folder: Path) -> None:
    """Fill the directories of the states that need it."""
    for state, cache, n in (("other", folder / "full", 15), ("other", folder / "half-filled", HALF)):
        say(f"filling {cache.name}")
        Cached(spec(place, port, folder, state) | {"cache": str(cache)}).fill(n)


def run_once(entry: Entry) -> None:
    worker = Worker(entry)
    try:
        worker.ask("run")
    finally:
        worker.close()


def bytes_of(place: Place, folder: Path, files: list[str], root_python: str) -> dict[str, int]:
    """Return the bytes from the server in each state."""
    port = place.counted.port
    time.sleep(3)  # files of XRootD that were just changed are not cached
    fill(place, port, folder)
    found = {}
    for entry in entries(place, port, folder, files, root_python):
        if "local" in entry.label:
            continue
        say(f"counting {entry.label}")
        place.counted.take()
        try:
            run_once(entry)
        except CompetitorError as error:
            say(f"  {error}")
            continue
        found[entry.label] = place.counted.take().get("bytes", 0)
        if entry.label == "same":
            found[entry.label] -= found["cold"]  # what it has read before
    return found


def xcache(place: Place, port: int, runs: int) -> Group | None:
    """Measure reading through XCache, which is beside the reader, with the server behind the latency."""
    try:
        proxy = Xrootd(cache_of(port))
    except (ServerError, FileNotFoundError) as error:
        say(f"XCache is not measured: {error}")
        return None
    try:
        asked = spec(place, proxy.port, Path("/nowhere"), "none")
        group = Group("XCache", [Entry("XCache", asked, fresh=True, checked=False)])
        measure(group, runs + 1)
    finally:
        proxy.close()
    return group


def row(entry: Entry, group: Group, n_bytes: dict[str, int]) -> list[str]:
    times = {one.label: one for one in group.entries}
    eight = entry.label.startswith("eight")
    local = times["eight at once, local" if eight else "local"]
    by = "" if entry is local else spread(ratios(entry.seconds(), local.seconds()))
    return [
        entry.label,
        f"{n_bytes[entry.label] / 1e6:.2f}" if entry.label in n_bytes else "",
        duration(entry.median()),
        spread(ratios(entry.seconds(), times["none"].seconds())),
        by,
        f"{entry.median_of('cpu'):.2f}",
    ]


def text(group: Group, n_bytes: dict[str, int], beside: Group | None) -> str:
    header = ["state", "MB from the server", "median", "by none's", "by local's", "CPU s"]
    rows = [row(entry, group, n_bytes) for entry in group.entries if entry.ran]
    notes = [f"- {entry.label}: **failed**: {entry.error}" for entry in group.entries if entry.error]
    if beside is not None and beside.entries[0].ran:
        first, *later = [one for one in beside.entries[0].seconds() if one is not None]
        notes.append(f"- XCache: {duration(first)} cold, {duration(min(later))} warm")
    notes.append(f"- load average {group.load_before:.1f} before, {group.load_after:.1f} after")
    return "\n".join([f"## {group.title}", "", table(header, rows), "", *notes, ""])


def main() -> None:
    parser = arguments(__doc__, ["XRootD", "HTTP", "S3"], runs=5)
    parser.add_argument("--rtt", type=int, nargs="+", default=[0, 10, 50], help="round-trip times in milliseconds")
    options = parser.parse_args()
    FORMATS.pop("TTree", None)
    files = inputs(options, list(FORMATS.values()))
    if files is None:
        return
    local = [str(files["zstd"])] * 4
    groups: dict[str, Group] = {}
    plain = {}
    print("# Reading through a cache, measured\n", flush=True)
    with ExitStack() as stack:
        try:
            toxiproxy = stack.enter_context(Toxiproxy())
        except ServerError as error:
            print(f"Nothing is measured: {error}")
            return
        for place in places(files, options.only or ["XRootD", "HTTP", "S3"], stack):
            with tempfile.TemporaryDirectory() as folder:
                n_bytes = bytes_of(place, Path(folder), local, options.root_python)
            for rtt in options.rtt:
                port = behind(toxiproxy, place.server.port, rtt)
                with tempfile.TemporaryDirectory() as folder:
                    fill(place, port, Path(folder))
                    everybody = entries(place, port, Path(folder), local, options.root_python)
                    group = Group(f"{place.protocol}, {rtt} ms", everybody)
                    measure(group, options.runs)
                beside = xcache(place, port, options.runs) if place.protocol == "XRootD" else None
                groups[group.title] = group
                print(text(group, n_bytes, beside), flush=True)
                plain[group.title] = {
                    "bytes": n_bytes,
                    "seconds": {entry.label: entry.seconds() for entry in everybody},
                }
    about = context(groups, files)
    print(f"`{about['command']}`, {about['date']}")
    if options.json:
        options.json.write_text(json.dumps(about | {"cases": plain}, indent=1))


if __name__ == "__main__":
    main()
