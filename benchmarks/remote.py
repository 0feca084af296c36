"""Measure reading files from servers: femtobarn, uproot, RDataFrame, plain requests, and the ideal, in one run.

    python benchmarks/remote.py [--data DIR] [--runs N] [--root-python PYTHON] [--only ...] [--rtt 0 10 50]
                                [--json FILE] [--figure FILE]

Reads the 15 columns of the Analysis Grand Challenge in four files of 100,000 events, as RNTuple and as TTree, from
XRootD, nginx and MinIO on this machine, through a Toxiproxy that adds latency. Every run is a separate process, which
first reads one of the files through another port, so that all code is loaded, and connects to the measured port for
the first time during the measurement. The competitors run in turn, once per round. A proxy counts the requests of each
once. uproot and RDataFrame are from --root-python. Prints a Markdown report; the exit code is always 0. README.md in
this directory has the details.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _measure import CompetitorError, Entry, Worker, present, ratios, say
from _proxies import Counting
from _report import Group, close, context, duration, goal, spread, table
from _run import BUILD, NTUPLE, arguments, inputs, measure

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from object_servers import Minio
from servers import Nginx, Server, ServerError, Xrootd, own
from toxiproxy import Toxiproxy

N_FILES = 4
FORMATS = {"RNTuple": "zstd", "TTree": "tree_zstd"}
SLOW_ROUNDS = 3
ANSWERS = {"XRootD": 5, "HTTP": 2, "S3": 2}  # consecutive round trips, see `ideal`
AT_ONCE = 16  # concurrent requests of curl, as many as of femtobarn over HTTP


@dataclass
class Place:
    """The files on one server: their URLs for a port, and the options for opening."""

    protocol: str
    server: Server
    counted: Counting
    url: Callable[[int, str], str]
    raw: Callable[[int, str], str]  # for xrdcp and curl
    options: Callable[[int], dict[str, Any]] = lambda _: {}  # for uproot
    own_options: Callable[[int], dict[str, Any]] = lambda _: {}  # for femtobarn

    def urls(self, port: int, kind: str, url: Callable[[int, str], str] | None = None) -> list[str]:
        return [(url or self.url)(port, f"{kind}{i}.root") for i in range(N_FILES)]


@dataclass
class Asked:
    """The requests of one reader, and the data that it has read."""

    counts: dict[str, int]
    check: dict[str, Any]


@dataclass
class Case:
    """One table: a protocol, a format and a latency; the bandwidth in bytes per second."""

    place: Place
    kind: str
    rtt: int
    asked: dict[str, Asked]
    bandwidth: float
    group: Group


def spec(competitor: str, place: Place, kind: str, port: int, **more: Any) -> dict[str, Any]:
    asked = options_of(competitor, place)
    other = place.server.port
    first = {"urls": place.urls(port, kind), "options": asked(port)}
    warm_up = {"urls": place.urls(other, kind)[:1], "options": asked(other)}
    return {
        "competitor": competitor,
        "ntuple": NTUPLE,
        "build": str(BUILD.resolve()),
        "warm_up": warm_up,
        **first,
        **more,
    }


def options_of(competitor: str, place: Place) -> Callable[[int], dict[str, Any]]:
    """Return the options with which a reader opens files, for a port."""
    return {"UprootRemote": place.options, "FemtobarnRemote": place.own_options}.get(competitor, lambda _: {})


def entries(place: Place, kind: str, port: int, root_python: str, reads: list[list[int]]) -> list[Entry]:
    """Return the competitors; femtobarn is the first."""
    found = [
        Entry("femtobarn", spec("FemtobarnRemote", place, kind, port), fresh=True),
        Entry(
            "uproot",
            spec("UprootRemote", place, kind, port),
            python=root_python,
            rounds=SLOW_ROUNDS,
            fresh=True,
            goal=("slower", 5.0),
        ),
    ]
    if place.protocol == "XRootD":
        for threads in (1, 2):
            label = f"RDataFrame, {threads} thread{'s' * (threads > 1)}"
            asked = spec("RdfRemote", place, kind, port, threads=threads)
            goal = ("slower", 2.0)
            found.append(Entry(label, asked, python=root_python, rounds=SLOW_ROUNDS, fresh=True, goal=goal))
    else:
        raw = place.urls(port, kind, place.raw)
        asked = spec("Curl", place, kind, port, reads=reads, at_once=AT_ONCE) | {"urls": raw}
        found.append(Entry("curl, the same ranges", asked, fresh=True, goal=("within", 1.25)))
    return found


def ask_counted(entry: Entry, place: Place, kind: str) -> Asked:
    """Read through the counting proxy."""
    is_raw = entry.spec["competitor"] == "Curl"
    urls: dict[str, Any] = {"urls": place.urls(place.counted.port, kind, place.raw if is_raw else None)}
    urls["options"] = options_of(entry.spec["competitor"], place)(place.counted.port)
    worker = Worker(Entry(entry.label, {**entry.spec, **urls}, python=entry.python))
    try:
        place.counted.take()
        check = worker.ask("check")
    finally:
        worker.close()
    return Asked(place.counted.take(), check)


def bandwidth(place: Place, kind: str, port: int) -> float:
    """Return the bytes per second of whole files through the proxy without latency: the best of some tries."""
    tool = ["xrdcp", "-f", "-s"] if place.protocol == "XRootD" else ["curl", "-sf", "-o", "-"]
    most = 0.0
    for url in place.urls(port, kind, place.raw):
        start = time.perf_counter()
        command = [*tool, url, *(["-"] if tool[0] == "xrdcp" else [])]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            n_bytes = 0
            while piece := process.stdout.read1(1 << 20):
                n_bytes += len(piece)
        most = max(most, n_bytes / (time.perf_counter() - start))
    return most


def ideal(case: Case) -> float:
    """Return the minimum time: the bytes at the bandwidth, and the unavoidable round trips.

    XRootD: handshake with protocol request, login, open, both ends of the file, data. HTTP and S3: both ends and data,
    since the proxy accepts connections without delay.
    """
    n_bytes = case.asked["femtobarn"].counts["bytes"]
    return n_bytes / case.bandwidth + ANSWERS[case.place.protocol] * case.rtt / 1000


def row(entry: Entry, reference: Entry, asked: dict[str, Asked], needed: int) -> list[str]:
    seconds = present(entry.seconds())
    times = ratios(entry.seconds(), reference.seconds())
    counts = asked[entry.label].counts if entry.label in asked else {}
    return [
        entry.label,
        f"{counts['requests']} ({counts['ranges']})" if counts else "",
        f"{counts['bytes'] / 1e6:.1f}" if counts else "",
        f"{counts['bytes'] / needed:.3f}" if counts else "",
        f"{duration(entry.median())} ({duration(min(seconds))} to {duration(max(seconds))})",
        spread(times),
        f"{entry.median_of('cpu'):.2f}",
        goal(entry, reference, None),
    ]


def case_text(case: Case) -> str:
    reference, asked = case.group.entries[0], case.asked
    needed = asked[reference.label].check["needed"]
    header = ["reader", "requests (ranges)", "MB", "÷ needed", "median (min to max)", "by femtobarn's", "CPU s", "goal"]
    rows = [row(entry, reference, asked, needed) for entry in case.group.entries if entry.ran]
    least = ideal(case)
    found = reference.median() / least
    arithmetic = (
        f"- ideal: {asked[reference.label].counts['bytes'] / 1e6:.1f} MB ÷ {case.bandwidth / 1e6:.0f} MB/s + "
        f"{ANSWERS[case.place.protocol]} x {case.rtt} ms = {duration(least)}; femtobarn takes {found:.2f} times as long"
    )
    if case.place.protocol == "XRootD" and case.rtt == 50:
        arithmetic += f" (goal ≤ 1.3: {'✓' if found <= 1.3 else '✗'})"
    notes = [f"- {entry.label}: **failed**: {entry.error}" for entry in case.group.entries if entry.error]
    sums = {label: one.check["sums"] for label, one in asked.items() if one.check.get("sums")}
    equal = all(close(one, next(iter(sums.values()))) for one in sums.values())
    notes.append(f"- {'equal' if equal else '**NOT EQUAL**'}: sums of the 15 columns: {', '.join(sums)}")
    notes.append(f"- load average {case.group.load_before:.1f} before, {case.group.load_after:.1f} after")
    return "\n".join([f"## {case.group.title}", "", table(header, rows), "", arithmetic, *notes, ""])


def places(files: dict[str, Path], names: list[str], stack: ExitStack) -> list[Place]:
    """Start the servers, all with the same files."""
    found = []
    for name in names:
        try:
            server: Server = {"XRootD": Xrootd, "HTTP": Nginx, "S3": Minio}[name]()
        except (ServerError, FileNotFoundError) as error:
            print(f"- {name} is not measured: {str(error).splitlines()[-1]}\n")
            continue
        stack.callback(server.close)
        for kind, source in FORMATS.items():
            for i in range(N_FILES):
                to = f"{kind}{i}.root"
                if isinstance(server, Minio):
                    server.put(f"public/{to}", files[source].read_bytes())
                else:
                    shutil.copy(files[source], server.data / to)
        counted = Counting(server.port, name == "XRootD")
        stack.callback(counted.close)
        if name == "XRootD":
            own(server.data)
            found.append(Place(name, server, counted, xrootd_url, xrootd_url))
        elif name == "HTTP":
            found.append(Place(name, server, counted, http_url, http_url))
        else:
            found.append(Place(name, server, counted, s3_url, minio_url, s3fs_options, s3_options))
    return found


def xrootd_url(port: int, file: str) -> str:
    return f"root://127.0.0.1:{port}//{file}"


def http_url(port: int, file: str) -> str:
    return f"http://127.0.0.1:{port}/{file}"


def minio_url(port: int, file: str) -> str:
    return http_url(port, f"public/{file}")


def s3_url(_: int, file: str) -> str:
    return f"s3://public/{file}"


def s3fs_options(port: int) -> dict[str, Any]:
    return {"anon": True, "endpoint_url": f"http://127.0.0.1:{port}"}


def s3_options(port: int) -> dict[str, Any]:
    return {"storage_options": {"anonymous": True, "endpoint": f"http://127.0.0.1:{port}"}}


def measured(place: Place, kind: str, options: argparse.Namespace, toxiproxy: Toxiproxy) -> list[Case]:
    """Measure all latencies of one protocol and format."""
    own_port = place.server.port
    reader = entries(place, kind, own_port, options.root_python, [])[0]
    first = ask_counted(reader, place, kind)
    reads = [[at, start, stop - start] for at, start, stop in first.check["reads"]]
    everybody = entries(place, kind, own_port, options.root_python, reads)
    asked = {reader.label: first}
    for entry in everybody[1:]:
        say(f"counting what {entry.label} asks {place.protocol} for")
        try:
            asked[entry.label] = ask_counted(entry, place, kind)
        except CompetitorError as error:
            say(f"  {error}")
    rate = bandwidth(place, kind, behind(toxiproxy, own_port, 0))
    out = []
    for rtt in options.rtt:
        port = behind(toxiproxy, own_port, rtt)
        readers = entries(place, kind, port, options.root_python, reads)
        group = Group(f"{kind} by {place.protocol}, {rtt} ms", readers)
        measure(group, options.runs)
        out.append(Case(place, kind, rtt, asked, rate, group))
    return out


def behind(toxiproxy: Toxiproxy, port: int, milliseconds: int) -> int:
    """Return a port to a server with this round-trip latency."""
    own = toxiproxy.before(port)
    if milliseconds:
        toxiproxy.poison(own, "latency", latency=milliseconds)
    return own


def copies(place: Place, port: int, rtt: int, runs: int) -> Group:
    """Measure copies of whole files by XRootD: fb cp, and xrdcp with one stream and with several."""
    commands = {
        "fb cp": ["fb", "cp"],
        "xrdcp": ["xrdcp", "-f", "-s"],
        "xrdcp, 4 more streams": ["xrdcp", "-f", "-s", "-S", "4"],
    }
    folder = "/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()
    entries = [
        Entry(name, spec("Copier", place, "RNTuple", port, command=command, folder=folder), checked=False)
        for name, command in commands.items()
    ]
    entries[1].goal = ("slower", 1.0) if rtt == 0 else None
    group = Group(f"{N_FILES} whole files by XRootD to memory, {rtt} ms", entries)
    measure(group, runs)
    return group


def copies_text(group: Group) -> str:
    reference = group.entries[0]
    rows = []
    for entry in group.entries:
        if entry.ran and reference.ran:
            seconds = present(entry.seconds())
            mega = entry.median_of("bytes") / entry.median() / 1e6
            rows.append(
                [
                    entry.label,
                    f"{mega:.0f}",
                    f"{duration(entry.median())} ({duration(min(seconds))} to {duration(max(seconds))})",
                    spread(ratios(entry.seconds(), reference.seconds())),
                    f"{entry.median_of('cpu'):.2f}",
                    goal(entry, reference, None),
                ]
            )
    header = ["program", "MB/s", "median (min to max)", "by femtobarn's", "CPU s", "goal"]
    notes = [f"- {entry.label}: **failed**: {entry.error}" for entry in group.entries if entry.error]
    return "\n".join([f"## {group.title}", "", table(header, rows), "", *notes, ""])


def figure(path: Path, cases: list[Case]) -> None:
    """Plot time against latency, with a panel for each protocol and format."""
    from matplotlib import pyplot

    panels = list(dict.fromkeys((case.place.protocol, case.kind) for case in cases))
    protocols = list(dict.fromkeys(protocol for protocol, _ in panels))
    kinds = list(dict.fromkeys(kind for _, kind in panels))
    drawing, axes = pyplot.subplots(
        len(kinds), len(protocols), figsize=(3.4 * len(protocols), 2.8 * len(kinds)), squeeze=False, sharex=True
    )
    colours = {"femtobarn": "C0", "uproot": "C1", "RDataFrame, 1 thread": "C2", "RDataFrame, 2 threads": "C8"}
    for protocol, kind in panels:
        ax = axes[kinds.index(kind)][protocols.index(protocol)]
        own = [case for case in cases if (case.place.protocol, case.kind) == (protocol, kind)]
        for at, entry in enumerate(own[0].group.entries):
            points = [(case.rtt, case.group.entries[at]) for case in own]
            points = [(rtt, one.median()) for rtt, one in points if one.ran]
            colour = colours.get(entry.label, "C7")
            ax.plot(*zip(*points, strict=True), marker="o", markersize=3, color=colour, label=entry.label)
        least = [(case.rtt, ideal(case)) for case in own]
        ax.plot(*zip(*least, strict=True), color="black", linewidth=0.8, linestyle=":", label="ideal")
        ax.set_yscale("log")
        ax.set_title(f"{protocol}, {kind}", fontsize=9)
        ax.grid(visible=True, which="major", linewidth=0.3)
        ax.legend(fontsize=6, frameon=False)
    for ax in axes[-1]:
        ax.set_xlabel("round trip [ms]", fontsize=8)
    for line in axes:
        line[0].set_ylabel("time [s]", fontsize=8)
    drawing.tight_layout()
    drawing.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def as_json(cases: list[Case], about: dict[str, Any]) -> str:
    def plain(case: Case) -> dict[str, Any]:
        own = {
            entry.label: {
                "seconds": entry.seconds(),
                "cpu": entry.processor(),
                "counts": case.asked[entry.label].counts if entry.label in case.asked else None,
                "error": entry.error,
            }
            for entry in case.group.entries
        }
        place = {"protocol": case.place.protocol, "format": case.kind, "rtt_ms": case.rtt}
        return place | {"bandwidth": case.bandwidth, "ideal": ideal(case), "readers": own}

    return json.dumps(about | {"cases": [plain(case) for case in cases]}, indent=1)


def main() -> None:
    parser = arguments(__doc__, ["XRootD", "HTTP", "S3", "copy"], runs=5)
    parser.add_argument("--rtt", type=int, nargs="+", default=[0, 10, 50], help="round-trip times in milliseconds")
    parser.add_argument("--format", nargs="+", choices=list(FORMATS), default=list(FORMATS))
    parser.add_argument("--figure", type=Path, help="draw times against round-trip times there")
    options = parser.parse_args()
    files = inputs(options, list(FORMATS.values()))
    if files is None:
        return
    only = options.only or ["XRootD", "HTTP", "S3", "copy"]
    with ExitStack() as stack:
        try:
            toxiproxy = stack.enter_context(Toxiproxy())
        except ServerError as error:
            print(f"Nothing is measured: {error}")
            return
        found = places(files, [name for name in only if name != "copy"], stack)
        cases = [
            case for place in found for kind in options.format for case in measured(place, kind, options, toxiproxy)
        ]
        copied = []
        if "copy" in only:
            place = next((place for place in found if place.protocol == "XRootD"), None)
            place = place or places(files, ["XRootD"], stack)[0]
            for rtt in options.rtt:
                port = behind(toxiproxy, place.server.port, rtt) if rtt else place.server.port
                copied.append(copies(place, port, rtt, options.runs))
    about = context({case.group.title: case.group for case in cases}, files)
    lines = ["# Reading files of servers, measured", "", f"`{about['command']}`, {about['date']}", ""]
    lines += [f"- {name}: {value}" for name, value in about["machine"].items()]
    lines.append("- " + ", ".join(f"{name} {version}" for name, version in about["versions"].items()))
    lines.append("- files: " + ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in about["files"].items()))
    print("\n".join([*lines, ""]))
    for case in cases:
        print(case_text(case))
    for group in copied:
        print(copies_text(group))
    if options.json:
        options.json.write_text(as_json(cases, about))
    if options.figure and cases:
        figure(options.figure, cases)


if __name__ == "__main__":
    main()
