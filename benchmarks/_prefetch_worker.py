"""One reader of `prefetch.py`, in a process of its own: reads the measured file once, and prints what it took.

    _prefetch_worker.py READER URL WARM_UP_URL STEP TRIGGERED

READER is "named" (all columns are named beforehand), "learned" (virtual arrays), "off" (virtual arrays that learn
nothing: a touch reads one column), or "coffea" (virtual arrays of coffea over uproot). A step has STEP entries. In each
step, 15 columns are touched one by one, and 3 more in every step whose number is divisible by TRIGGERED.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

MAIN = [
    *("Electron_pt", "Electron_eta", "Electron_cutBased", "Electron_sip3d"),
    *("Muon_pt", "Muon_eta", "Muon_tightId", "Muon_sip3d", "Muon_pfRelIso04_all"),
    *("Jet_pt", "Jet_eta", "Jet_phi", "Jet_mass", "Jet_btagCSVV2", "Jet_jetId"),
]
TRIGGERED = ["Jet_qgl", "Muon_phi", "MET_pt"]

Column = Callable[[str], Any]
Spans = list[tuple[float, float]]


def total(values: Any) -> float:
    import awkward as ak

    return float(ak.sum(ak.values_astype(values, "float64")))


def analysis(steps: Iterator[Column], every: int, after: Callable[[], None]) -> list[float]:
    """Touch the columns of each step."""
    sums = [0.0] * (len(MAIN) + len(TRIGGERED))
    for number, column in enumerate(steps):
        touched = MAIN + (TRIGGERED if number and number % every == 0 else [])
        for at, name in enumerate(touched):
            sums[at] += total(column(name))
        after()
    return sums


def n_rounds(spans: Spans) -> int:
    """Return how many requests follow each other: those that overlap in time are one round trip."""
    rounds, end = 0, 0.0
    for start, stop in sorted(spans):
        if start >= end:
            rounds += 1
        end = max(end, stop)
    return rounds


def femtobarn(reader: str, url: str, step: int, every: int) -> dict[str, Any]:
    import femtobarn as fb

    nt = fb.open(f"{url}:Events")
    per_step: list[int] = []
    seen = 0

    def after() -> None:
        nonlocal seen
        spans = [(span.start, span.start + span.seconds) for span in nt.metrics.sources[0].spans]
        per_step.append(n_rounds(spans[seen:]))
        seen = len(spans)

    def steps() -> Iterator[Column]:
        options: dict[str, dict[str, Any]] = {
            "named": {"expressions": MAIN + TRIGGERED},
            "learned": {"virtual": True},
            "off": {"virtual": True, "record": False},
        }
        for events in nt.iterate(step_size=step, **options[reader]):
            yield events.__getitem__

    sums = analysis(steps(), every, after)
    logs = [log.to_dict() for log in nt.access_log]
    return {"sums": sums, "rounds": per_step, "bytes": nt.metrics.bytes_read, "logs": logs}


def coffea(url: str, step: int, every: int) -> dict[str, Any]:
    import uproot
    from coffea.nanoevents import BaseSchema, NanoEventsFactory

    with uproot.open(url) as file:
        num_entries = file["Events"].num_entries

    def steps() -> Iterator[Column]:
        for start in range(0, num_entries, step):
            options = {"entry_start": start, "entry_stop": min(start + step, num_entries), "mode": "virtual"}
            events = NanoEventsFactory.from_root({url: "Events"}, schemaclass=BaseSchema, **options).events()
            yield events.__getitem__

    return {"sums": analysis(steps(), every, lambda: None)}


def main() -> None:
    reader, url, warm_up, step, every = sys.argv[1:]

    def read(url: str) -> dict[str, Any]:
        if reader == "coffea":
            return coffea(url, int(step), int(every))
        return femtobarn(reader, url, int(step), int(every))

    if warm_up:
        read(warm_up)  # loads all code; its schema is another one, so that nothing is learned of the measured file
    start = time.perf_counter()
    found = read(url)
    found["seconds"] = time.perf_counter() - start
    print(json.dumps(found))


if __name__ == "__main__":
    main()
