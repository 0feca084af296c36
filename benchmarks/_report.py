"""Reports of measurements: Markdown for people, JSON for programs."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

from _measure import Entry, present, ratios


@dataclass
class Group:
    """One table."""

    title: str
    entries: list[Entry]
    small: bool = False  # takes milliseconds
    memory: bool = False
    writes: bool = False
    expected: dict[str, Any] = field(default_factory=dict)  # the expected output of every writer
    load_before: float = 0
    load_after: float = 0
    seconds: float = 0

    @property
    def decoded(self) -> int | None:
        """Return the size of the decompressed pages, each page counted once."""
        return next((entry.check["decoded"] for entry in self.entries if "decoded" in entry.check), None)


def duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms" if seconds < 0.1 else f"{seconds:.3f} s"


def spread(values: list[float], number: str = ".2f") -> str:
    return f"{statistics.median(values):{number}} ({min(values):{number}} to {max(values):{number}})"


def table(header: list[str], rows: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])


def goal(entry: Entry, reference: Entry, decoded: int | None) -> str:
    """Return the goal of the project for this row, and whether this run has met it."""
    if entry.goal is None:
        return ""
    kind, wanted = entry.goal
    if kind == "rate":
        found = (decoded or 0) / entry.median() / 1e9
        text, met = f"≥ {wanted} GB/s: {found:.2f}", found >= wanted
    elif kind == "within":
        found = statistics.median(ratios(reference.seconds(), entry.seconds()))
        text, met = f"femtobarn ≤ {wanted} times this: {found:.2f}", found <= wanted
    elif kind == "speedup":
        found = statistics.median(ratios(reference.seconds(), entry.seconds()))
        text, met = f"≥ {wanted} times as fast as one: {found:.2f}", found >= wanted
    else:
        found = statistics.median(ratios(entry.seconds(), reference.seconds()))
        text, met = f"≥ {wanted} times femtobarn's: {found:.1f}", found >= wanted
    return f"{text} {'✓' if met else '✗'}"


def time_row(entry: Entry, group: Group) -> list[str]:
    reference = group.entries[0]
    seconds = present(entry.seconds())
    opening = statistics.median(run["parts"].get("open", 0) for run in entry.runs if run is not None)
    times = ratios(entry.seconds(), reference.seconds())
    opened = ratios(entry.seconds_opened(), reference.seconds_opened())
    processor = ratios(entry.processor(), reference.processor())
    return [
        entry.label,
        f"{duration(entry.median())} ({duration(min(seconds))} to {duration(max(seconds))})",
        duration(opening) if opening else "",
        duration(sum(entry.first["parts"].values())) if entry.first else "",
        f"{group.decoded / entry.median() / 1e9:.2f}" if group.decoded else "",
        spread(times) if times else "",
        spread(opened) if opened and not group.small else "",
        f"{duration(entry.median_of('cpu'))}, {statistics.median(processor):.2f}" if processor else "",
        goal(entry, reference, group.decoded) if reference.ran else "",
    ]


def peak(entry: Entry) -> str:
    """Return the peak memory, and the memory before the run."""
    memory = [run["memory"] for run in entry.runs if run is not None]
    most, before = (statistics.median(one[name] for one in memory) for name in ("peak", "resident_before"))
    return f"{most / 1e6:.0f} MB ({before / 1e6:.0f} MB)"


def size_goal(entry: Entry, reference: Entry) -> str:
    if entry.size_goal is None:
        return ""
    found = reference.median_of("bytes") / entry.median_of("bytes")
    return f"; output ≤ {entry.size_goal} times this: {found:.3f} {'✓' if found <= entry.size_goal else '✗'}"


def write_row(entry: Entry, group: Group) -> list[str]:
    reference = group.entries[0]
    seconds = present(entry.seconds())
    times = ratios(entry.seconds(), reference.seconds())
    processor = ratios(entry.processor(), reference.processor())
    size = entry.median_of("bytes")
    is_floor = entry.spec["competitor"] == "FloorWriter"  # its input is decompressed in memory
    goals = goal(entry, reference, None) + size_goal(entry, reference) if reference.ran else ""
    return [
        entry.label,
        f"{duration(entry.median())} ({duration(min(seconds))} to {duration(max(seconds))})",
        spread(times) if times else "",
        f"{duration(entry.median_of('cpu'))}, {statistics.median(processor):.2f}" if processor else "",
        f"{size / 1e6:.1f} MB, {size / reference.median_of('bytes'):.3f}" if reference.ran else f"{size / 1e6:.1f} MB",
        "" if is_floor else peak(entry),
        goals,
    ]


def memory_row(entry: Entry) -> list[str]:
    run = next(run for run in entry.runs if run is not None)
    before, peak = run["memory"]["resident_before"], run["memory"]["peak"]
    mega = [f"{size / 1e6:.0f} MB" for size in (peak, before, peak - before)]
    return [entry.label, *mega, duration(sum(run["parts"].values()))]


def group_text(group: Group) -> str:
    if group.memory:
        header = ["reader", "peak (VmHWM)", "resident before", "difference", "time"]
        rows = [memory_row(entry) for entry in group.entries if entry.ran]
    elif group.writes:
        header = ["writer", "median (min to max)", "by femtobarn's", "processor time, by femtobarn's"]
        header += ["output, by femtobarn's", "peak memory (of it before)", "goal"]
        rows = [write_row(entry, group) for entry in group.entries if entry.ran]
    else:
        header = ["reader", "median (min to max)", "of it open", "first run", "GB/s decoded", "by femtobarn's"]
        header += ["opened before, by femtobarn's", "processor time, by femtobarn's", "goal"]
        rows = [time_row(entry, group) for entry in group.entries if entry.ran]
    notes = [f"- {entry.label}: **failed**: {entry.error}" for entry in group.entries if entry.error]
    notes += [f"- {note}" for note in agreement(group)]
    notes.append(f"- load average {group.load_before:.1f} before, {group.load_after:.1f} after; {group.seconds:.0f} s")
    return "\n".join([f"## {group.title}", "", table(header, rows), "", *notes, ""])


def agreement(group: Group) -> list[str]:
    """Return whether all comparable results are equal."""
    entries, notes = group.entries, []
    sums = [entry for entry in entries if "sums" in entry.check]
    if len(sums) > 1:
        equal = all(close(a.check["sums"], b.check["sums"]) for a, b in pairwise(sums))
        notes.append(f"{verdict(equal)}: sums of the 15 columns, {', '.join(entry.label for entry in sums)}")
    if group.writes:
        return [outputs(group)]
    digests = [entry for entry in entries if "digests" in entry.check]
    if len(digests) > 1:
        equal = all(a.check["digests"] == b.check["digests"] for a, b in pairwise(digests))
        fields = len(digests[0].check["digests"])
        who = ", ".join(entry.label for entry in digests)
        notes.append(f"{verdict(equal)}: offsets and values of {fields} fields, bit by bit, {who}")
    return notes


def outputs(group: Group) -> str:
    """Return whether the outputs are as expected."""
    checked = [entry for entry in group.entries if entry.check]
    wrong = [entry.label for entry in checked if entry.check != group.expected]
    fields, events = len(group.expected["digests"]), group.expected["events"]
    what = f"{events} entries, and offsets and values of {fields} fields, bit by bit, as uproot reads them"
    who = ", ".join(entry.label for entry in checked)
    return f"{verdict(not wrong)}{': ' + ', '.join(wrong) if wrong else ''}: {what}: the input, {who}"


def verdict(equal: bool) -> str:
    return "equal" if equal else "**NOT EQUAL**"


def close(a: list[float], b: list[float]) -> bool:
    return len(a) == len(b) and all(math.isclose(x, y, rel_tol=1e-9) for x, y in zip(a, b, strict=True))


def first_line(path: str, word: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(word)), "unknown")


def versions(groups: dict[str, Group]) -> dict[str, str]:
    found = {"Python": platform.python_version(), "awkward": metadata.version("awkward")}
    for group in groups.values():
        for entry in group.entries:
            found |= entry.versions
    for library in ("zstd", "lz4"):
        if library in found:
            found[f"lib{library} of the floor"] = found.pop(library)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return found | {"commit": commit.stdout.strip() or "unknown"}


def machine() -> dict[str, str]:
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "processor": f"{first_line('/proc/cpuinfo', 'model name')}, {os.cpu_count()} cores",
        "memory": first_line("/proc/meminfo", "MemTotal"),
        "system": f"{platform.system()} {platform.release()}",
        "huge pages": huge.read_text().strip() if huge.exists() else "unknown",
    }


def context(groups: dict[str, Group], files: dict[str, Path]) -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "command": " ".join(["python", *sys.argv]),
        "machine": machine(),
        "versions": versions(groups),
        "files": {name: path.stat().st_size for name, path in files.items()},
    }


def as_markdown(title: str, groups: dict[str, Group], files: dict[str, Path]) -> str:
    about = context(groups, files)
    lines = [f"# {title}, measured", "", f"`{about['command']}`, {about['date']}", ""]
    lines += [f"- {name}: {value}" for name, value in about["machine"].items()]
    lines.append("- " + ", ".join(f"{name} {version}" for name, version in about["versions"].items()))
    lines.append("- files: " + ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in about["files"].items()))
    return "\n".join([*lines, "", *map(group_text, groups.values())])


def as_json(groups: dict[str, Group], files: dict[str, Path]) -> str:
    def plain(entry: Entry) -> dict[str, Any]:
        check = {k: v for k, v in entry.check.items() if k != "digests"}
        found = {"label": entry.label, "spec": entry.spec, "goal": entry.goal, "error": entry.error}
        return found | {"first": entry.first, "runs": entry.runs, "check": check}

    tables = {
        name: {
            "title": group.title,
            "load": [group.load_before, group.load_after],
            "agreement": agreement(group),
            "entries": [plain(entry) for entry in group.entries],
        }
        for name, group in groups.items()
    }
    return json.dumps(context(groups, files) | {"groups": tables}, indent=1)
