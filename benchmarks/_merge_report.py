"""The results of merge.py, as Markdown, as JSON and as a figure."""

from __future__ import annotations

import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _measure import Entry, present, ratios
from _report import Group, duration, machine, peak, table, verdict, versions

# (competitor, reference, minimum ratio of the times of reference and competitor)
GOALS = [
    ("femtobarn, L0", "hadd", 100),
    ("femtobarn, L0", "cp", 20),
    ("femtobarn, L1", "hadd", 3),
    ("femtobarn, L1", "cp", 0.7),
    ("femtobarn, clone", "RDataFrame, Snapshot", 10),
]


@dataclass
class Table:
    """The measurements with the same inputs."""

    title: str
    entries: list[Entry]
    n_bytes: int
    n_files: int
    expected: dict[str, Any]
    reshapes: bool = False

    def heading(self) -> str:
        return f"{self.title}, {self.n_bytes / 1e9:.2f} GB"

    def entry(self, label: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.label == label and entry.ran), None)


def part(entry: Entry, name: str) -> list[float | None]:
    return [None if run is None else run["parts"].get(name, 0) for run in entry.runs]


def unsynced(entry: Entry) -> list[float | None]:
    """Return the time of each round, without a separate sync."""
    return [None if run is None else run["parts"].get("write", run["parts"].get("read")) for run in entry.runs]


def compared(entry: Entry, other: Entry) -> str:
    """Return the ratio of the times of another entry and this one, without and with its sync."""
    plain, synced = ratios(unsynced(other), entry.seconds()), ratios(other.seconds(), entry.seconds())
    if not plain:
        return ""
    text = number(statistics.median(plain))
    has_sync = any(present(part(other, "sync")))
    return f"{text}, synced {number(statistics.median(synced))}" if has_sync else text


def number(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def goals(entry: Entry, of: Table) -> str:
    found = []
    for who, by, factor in GOALS:
        other = of.entry(by)
        if entry.label != who or other is None:
            continue
        times = statistics.median(ratios(unsynced(other), entry.seconds()))
        found.append(f"{by} ≥ {factor}: {number(times)} {'✓' if times >= factor else '✗'}")
    return "; ".join(found)


def row(entry: Entry, of: Table) -> list[str]:
    seconds, syncs = present(entry.seconds()), present(part(entry, "sync"))
    cells = [
        entry.label,
        f"{duration(entry.median())} ({duration(min(seconds))} to {duration(max(seconds))})",
        duration(statistics.median(syncs)) if any(syncs) else "",
        f"{of.n_bytes / entry.median() / 1e9:.2f}",
        duration(entry.median_of("cpu")),
    ]
    peers = ("RDataFrame, Snapshot",) if of.reshapes else ("hadd", "cp", "writing alone")
    for name in peers:
        other = of.entry(name)
        cells.append(compared(entry, other) if other is not None and other is not entry else "")
    if of.reshapes:
        written, read = entry.median_of("bytes"), entry.median_of("read")
        cells += [f"{read / 1e6:.1f} MB", f"{written / 1e6:.1f} MB" if written else ""]
    return [*cells, peak(entry), goals(entry, of)]


def table_text(of: Table) -> str:
    header = ["", "median (min to max)", "of it sync", "GB/s of the inputs", "processor time"]
    if of.reshapes:
        header += ["RDataFrame takes", "read", "written"]
    else:
        header += ["hadd takes", "cp takes", "writing alone takes"]
    rows = [row(entry, of) for entry in of.entries if entry.ran]
    notes = [f"- {entry.label}: **failed**: {entry.error}" for entry in of.entries if entry.error]
    notes += agreement(of)
    body = table([*header, "peak memory (of it before)", "goal"], rows)
    return "\n".join([f"## {of.heading()}", "", body, "", *notes, ""])


def agreement(of: Table) -> list[str]:
    checked = [entry for entry in of.entries if entry.check]
    if not checked:
        return []
    expected = of.expected or checked[0].check
    who = ", ".join(entry.label for entry in checked) + (", the inputs" if of.expected else "")
    equal = all(entry.check == expected for entry in checked)
    fields = ", ".join(expected["digests"])
    return [f"- {verdict(equal)}: {expected['events']} entries, bit by bit as uproot reads them, {fields}: {who}"]


def as_markdown(tables: dict[str, list[Table]], place: Path) -> str:
    every = [of for some in tables.values() for of in some]
    entries = [entry for of in every for entry in of.entries]
    return "\n".join(["# Merging, measured", "", *about(entries, place), "", *map(table_text, every)])


def about(entries: list[Entry], place: Path) -> list[str]:
    """Return lines about the machine and all versions."""
    lines = [f"`{' '.join(['python', *sys.argv])}`, {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}", ""]
    lines += [f"- {name}: {value}" for name, value in machine().items()]
    found = versions({"": Group("", entries)})
    lines.append("- " + ", ".join(f"{name} {version}" for name, version in found.items()))
    lines.append(f"- XFS, reflink=1, in an image on {file_system(place)}")
    lines.append(f"- load average {os.getloadavg()[0]:.1f} at the end")
    return lines


def file_system(place: Path) -> str:
    """Return the type of the file system of a directory."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, where, what, *_ = line.split()
        is_above = place.resolve().is_relative_to(where)
        if is_above and len(where) >= len(best):
            best, kind = where, what
    return kind


def as_json(tables: dict[str, list[Table]]) -> dict[str, Any]:
    def plain(entry: Entry) -> dict[str, Any]:
        return {"label": entry.label, "spec": entry.spec, "error": entry.error, "runs": entry.runs}

    found = {
        name: [
            {"title": of.title, "bytes": of.n_bytes, "files": of.n_files, "entries": [plain(e) for e in of.entries]}
            for of in some
        ]
        for name, some in tables.items()
    }
    return {"machine": machine(), "tables": found}


def figure(volumes: list[Table], target: Path) -> None:
    """Plot time against volume."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "merging"
    mpl.rcParams["font.family"] = "sans-serif"
    drawn, axes = plt.subplots(figsize=(7, 4.2))
    labels = dict.fromkeys(entry.label for of in volumes for entry in of.entries)
    for label in labels:
        found = [(of.n_bytes / 1e9, entry.median()) for of in volumes if (entry := of.entry(label))]
        if not found:
            continue
        is_own = label.startswith("femtobarn")
        axes.plot(*zip(*found, strict=True), marker="o" if is_own else "s", ls="-" if is_own else "--", ms=4)
        axes.annotate(label, found[-1], xytext=(6, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set(
        xlabel=f"GB of input, in files of {volumes[-1].n_bytes / volumes[-1].n_files / 1e6:.0f} MB",
        ylabel="seconds, until all is on the disk",
        xscale="log",
        yscale="log",
    )
    ticks = [of.n_bytes / 1e9 for of in volumes]
    axes.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(right=ticks[-1] * 2.2)
    drawn.tight_layout()
    target.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(target, metadata={"Date": None})
