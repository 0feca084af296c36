"""Measure ntuples as objects: throughput and cost by size of objects, and reading and writing beside plain requests.

    python benchmarks/objects.py [--data DIR] [--runs N] [--only granularity goals] [--rtt 0 10 50] [--quick]
                                 [--figures DIR] [--json FILE]

granularity: a NanoAOD of 100,000 events, uncompressed and with zstd, is cloned to objects of each size, and all its
columns are read: in MinIO, through a Toxiproxy that delays the first byte of each answer, and in DAOS (the stand-in of
the tests, or the pool FEMTOBARN_TEST_DAOS). A proxy counts the requests, which are priced with the prices of `fb.cost`.

goals: the 15 columns of the Analysis Grand Challenge are read from MinIO at 50 ms, and the file is written to it, in
turn with a plain HTTP client that sends the same requests.

--figures draws throughput and cost by the size of objects there. Prints a Markdown report; the exit code is always 0.
README.md in this directory has the details.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import statistics
import sys
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _measure import CompetitorError, Entry, Worker, present, ratios, say
from _proxies import Counting, Request
from _report import Group, context, duration, goal, spread, table, verdict
from _run import NTUPLE, arguments, inputs, measure
from _worker import AGC

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import daos_standin
from object_servers import Minio
from servers import ServerError
from toxiproxy import Toxiproxy

if TYPE_CHECKING:
    from femtobarn import LayoutCost

SIZES = ("page", "256 KiB", "1 MiB", "4 MiB", "16 MiB", "64 MiB", "cluster")
QUICK = ("page", "1 MiB", "16 MiB")
CODECS = {"uncompressed": "none", "zstd": "zstd"}
LATENCY = 50  # ms, for the goals
SIZE_ROUNDS = 2  # of granularity, which takes minutes
SLOW_ROUNDS = 2  # of the client that fetches page after page
MEMORY = 900  # MB that a run needs at least, to be touched before
SMALL = Path(__file__).resolve().parent.parent / "testdata/dimuon.root"
SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Bucket:
    """A MinIO. The objects below a name are a directory of it."""

    label, overwrites = "MinIO", False

    def __init__(self, stack: ExitStack) -> None:
        self.server = Minio()
        stack.callback(self.server.close)
        self.port = self.server.port
        self.keys = {"access_key_id": Minio.key, "secret_access_key": Minio.secret, "region": "us-east-1"}

    def url(self, port: int, name: str, bucket: str = "private") -> str:
        return f"ntpl+s3+http://127.0.0.1:{port}/{bucket}/{name}"

    def folders(self, name: str) -> list[str]:
        return [str(self.server.data / "private" / name)]


class Daos:
    """A pool of DAOS. Containers of the stand-in are directories."""

    port = 0

    def __init__(self, stack: ExitStack) -> None:
        self.pool = daos_standin.POOL or "pool"
        self.label = f"DAOS, pool {self.pool}" if daos_standin.POOL else "stand-in for DAOS"
        self.overwrites = bool(daos_standin.POOL)  # nothing removes its containers
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not daos_standin.POOL:
            os.environ.update(daos_standin.variables(folder))
        self.values = folder / "daos" / self.pool
        self.keys: dict[str, str] = {}

    def url(self, _: int, name: str) -> str:
        return f"daos://{self.pool}/{name}"

    def folders(self, name: str) -> list[str]:
        return [] if daos_standin.POOL else [str(self.values / name)]


def spec(competitor: str, urls: list[str], options: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"competitor": competitor, "ntuple": NTUPLE, "urls": urls, "options": storage(options), **more}


def storage(options: dict[str, Any]) -> dict[str, Any]:
    return {"storage_options": options} if options else {}


def billed(requests: list[Request]) -> tuple[int, int]:
    """Return the requests with the price of PUT, and those with the price of GET. Deletions are free."""
    listing = [one for one in requests if "list-type=" in one.target]
    puts = [one for one in requests if one.method in {"PUT", "POST"} and not one.target.endswith("?delete")]
    gets = [one for one in requests if one.method in {"GET", "HEAD"}]
    return len(puts) + len(listing), len(gets) - len(listing)


# Granularity


@dataclass
class Counts:
    """The requests for one size of objects, counted, and computed by `fb.cost`."""

    puts: int
    gets: int  # of the writer
    requests: int  # of the reader
    computed: LayoutCost
    prices: Mapping[str, Any]

    @property
    def write_per_tb(self) -> float:
        price = self.puts * self.prices["put_per_1000"] / 1e3 + self.gets * self.prices["get_per_10000"] / 1e4
        return float(price) / self.computed.bytes * 1e12

    @property
    def read_per_tb(self) -> float:
        return self.requests * float(self.prices["get_per_10000"]) / 1e4 / self.computed.bytes_read * 1e12

    @property
    def is_as_computed(self) -> bool:
        computed = (self.computed.puts, self.computed.gets_before_and_after, self.computed.requests)
        return (self.puts, self.gets, self.requests) == computed


@dataclass
class Series:
    """A store at a latency, with one codec: for each size of objects a writer and a reader."""

    label: str
    codec: str
    group: Group
    counts: dict[str, Counts]

    def entry(self, kind: str, size: str) -> Entry:
        return next(entry for entry in self.group.entries if entry.label == f"{kind} {size}")

    def rate(self, kind: str, size: str) -> float:
        """Return the stored bytes in MB/s of wall time."""
        entry = self.entry(kind, size)
        return self.counts[size].computed.bytes / entry.median() / 1e6 if entry.ran else float("nan")

    def processor(self, kind: str, size: str) -> float:
        entry = self.entry(kind, size)
        return entry.median_of("cpu") if entry.ran else float("nan")


def pairs(place: Bucket | Daos, port: int, path: Path, codec: str, sizes: Iterable[str]) -> list[Entry]:
    """Return a writer and a reader for each size of objects."""
    found = []
    small = {"urls": [place.url(place.port, "small")], "options": storage(place.keys)}
    for size in sizes:
        name = f"{codec}-{size.replace(' ', '')}"
        urls, remove = [place.url(port, name)], [*place.folders(name), *place.folders(f"small-{name}")]
        about = {"path": str(path), "object_size": size, "overwrite": place.overwrites, "remove": remove}
        about |= {"warm_up": {"path": str(SMALL), "url": place.url(place.port, f"small-{name}")}}
        found.append(Entry(f"write {size}", spec("WriteObjects", urls, place.keys, **about), fresh=True))
        more = {"columns": "all", "warm_up": small, "touch": MEMORY}
        found.append(Entry(f"read {size}", spec("ReadObjects", urls, place.keys, **more), fresh=True))
    return found


def counted(bucket: Bucket, path: Path, codec: str, sizes: Iterable[str]) -> dict[str, Counts]:
    """Write and read once through a proxy that counts requests."""
    import femtobarn as fb

    costs = fb.cost(f"{path}:{NTUPLE}")
    counting = Counting(bucket.port, False)
    found: dict[str, tuple[int, int]] = {}
    for entry in pairs(bucket, counting.port, path, codec, sizes):
        say(f"counting requests: {codec}, {entry.label}")
        worker = Worker(entry)
        try:
            worker.ask("run")
        finally:
            worker.close()
        found[entry.label] = billed(counting.heard())
    counting.close()
    return {
        size: Counts(*found[f"write {size}"], found[f"read {size}"][1], costs[size], costs.prices) for size in sizes
    }


def granularity(options: argparse.Namespace, files: dict[str, Path], bucket: Bucket, stack: ExitStack) -> list[Series]:
    import femtobarn as fb

    sizes = QUICK if options.quick else SIZES
    daos, toxiproxy = Daos(stack), stack.enter_context(Toxiproxy())
    for place in (bucket, daos):
        fb.clone(SMALL, place.url(place.port, "small"), overwrite=True, storage_options=place.keys or None)
    found = []
    for codec, name in CODECS.items():
        counts = counted(bucket, files[name], codec, sizes)
        for rtt in [*options.rtt, None]:
            place = daos if rtt is None else bucket
            label = f"{bucket.label}, {rtt} ms" if rtt is not None else daos.label
            port = behind(toxiproxy, bucket.port, rtt or 0)
            group = Group(f"{label}, {codec}", pairs(place, port, files[name], codec, sizes))
            measure(group, 1 if options.quick else min(options.runs, SIZE_ROUNDS))
            found.append(Series(label, codec, group, counts))
    return found


def behind(toxiproxy: Toxiproxy, port: int, milliseconds: int) -> int:
    """Return a port to a server with this round-trip latency."""
    own = toxiproxy.before(port)
    if milliseconds:
        toxiproxy.poison(own, "latency", latency=milliseconds)
    return own


def granularity_text(found: list[Series]) -> str:
    parts = []
    for codec in dict.fromkeys(series.codec for series in found):
        own = [series for series in found if series.codec == codec]
        counts = own[0].counts
        for kind in ("write", "read"):
            rows = [
                [size, *(f"{one.rate(kind, size):.0f} ({one.processor(kind, size):.2f})" for one in own)]
                for size in counts
            ]
            parts += [f"## {kind}, {codec}: MB/s, and seconds of processors in brackets", ""]
            parts += [table(["objects of", *(series.label for series in own)], rows), ""]
        rows = [
            [
                size,
                f"{one.computed.objects:,}",
                f"{one.puts:,} + {one.gets:,}",
                f"{one.requests:,}",
                f"{one.write_per_tb:.3g}",
                f"{one.read_per_tb:.3g}",
                "✓" if one.is_as_computed else "✗",
            ]
            for size, one in counts.items()
        ]
        prices = next(iter(counts.values())).prices
        header = ["objects of", "objects", "PUT + GET to write", "GET to read", "to write 1 TB", "to read 1 TB"]
        parts += [f"## cost, {codec}: counted requests, in {prices['currency']} by {prices['name']}", ""]
        parts += [table([*header, "as fb.cost computes"], rows), ""]
        notes = [f"{one.group.title}: {one.group.load_before:.1f} to {one.group.load_after:.1f}" for one in own]
        parts += [f"- load average: {'; '.join(notes)}", f"- {agreement(own)}"]
        failed = [(one.group.title, entry) for one in own for entry in one.group.entries if entry.error]
        parts += [f"- {title}, {entry.label}: **failed**: {entry.error}" for title, entry in failed]
        parts.append("")
    return "\n".join(parts)


def agreement(found: list[Series]) -> str:
    """Return whether all readers of a codec have got the same arrays."""
    runs = [run for series in found for entry in series.group.entries for run in entry.runs if run is not None]
    digests = [run["digest"] for run in runs if "digest" in run]
    return f"{verdict(len(set(digests)) == 1)}: offsets and values of all fields in {len(digests)} reads"


def figures(folder: Path, found: list[Series]) -> None:
    """Draw throughput and cost by the size of objects."""
    from matplotlib import pyplot

    codecs = list(dict.fromkeys(series.codec for series in found))
    for kind in ("write", "read"):
        drawing, panels = pyplot.subplots(1, len(codecs), figsize=(7, 3.2), sharey=True, squeeze=False)
        for codec, ax in zip(codecs, panels[0], strict=True):
            for series in found:
                if series.codec == codec:
                    rates = [series.rate(kind, size) for size in series.counts]
                    ax.plot(list(series.counts), rates, marker="o", markersize=3, label=series.label)
            ax.set_title(codec, fontsize=9)
        panels[0][0].set_ylabel(f"{kind} throughput [MB/s]")
        save(folder / f"objects-{kind}.svg", drawing, panels[0])
        drawing, ax = pyplot.subplots(figsize=(4.2, 3.2))
        for codec in codecs:
            counts = next(series.counts for series in found if series.codec == codec)
            costs = [getattr(one, f"{kind}_per_tb") for one in counts.values()]
            ax.plot(list(counts), costs, marker="o", markersize=3, label=codec)
        prices = next(iter(found[0].counts.values())).prices
        ax.set_ylabel(f"requests to {kind} 1 TB [{prices['currency']}]")
        save(folder / f"objects-{kind}-cost.svg", drawing, [ax])


def save(path: Path, drawing: Any, panels: Iterable[Any]) -> None:
    for ax in panels:
        ax.set_yscale("log")
        ax.set_xlabel("size of objects")
        ax.tick_params(axis="x", labelsize=7, rotation=30)
        ax.grid(visible=True, linewidth=0.3)
        ax.legend(fontsize=7, frameon=False)
    drawing.tight_layout()
    drawing.savefig(path, metadata={"Date": None})


# Goals


@dataclass
class Task:
    """A group of competitors, with the requests of each, and what was compared."""

    group: Group
    requests: dict[str, str]
    notes: list[str] = field(default_factory=list)


def plain(label: str, bucket: Bucket, port: int, steps: list[Any], at_once: int, **more: Any) -> Entry:
    about = {"competitor": "Plain", "host": f"127.0.0.1:{bucket.port}", "port": port, "steps": steps}
    return Entry(label, about | {"at_once": at_once, **more.pop("spec", {})}, fresh=True, checked=False, **more)


def recorded(entry: Entry, counting: Counting) -> tuple[list[Request], int]:
    """Return the requests of a run through a proxy, and the number of connections."""
    counting.heard()
    counting.take()
    worker = Worker(entry)
    try:
        worker.ask("run")
    finally:
        worker.close()
    return counting.heard(), counting.take()["connections"]


def stages(url: str, options: dict[str, Any], counting: Counting) -> list[list[Request]]:
    """Return the requests that read the columns, in steps. Each step needs the answers of the step before."""
    import femtobarn as fb

    counting.heard()
    with fb.open(url, storage_options=options) as ntuple:
        anchor, *ends = counting.heard()
        ntuple.explain(AGC)
        lists = counting.heard()
        ntuple.arrays(AGC)
        return [[anchor], ends, lists, counting.heard()]


def sendable(requests: Iterable[Request]) -> list[list[str]]:
    return [[one.method, one.target, one.range or "", ""] for one in requests]


def contents(bucket: Bucket, requests: Iterable[Request]) -> list[int]:
    """Return the checksums of the requested bytes."""
    objects: dict[str, bytes] = {}
    found = []
    for one in requests:
        if one.target not in objects:
            objects[one.target] = bucket.server.get(one.target.removeprefix("/"))
        first, last = (one.range or "0-").split("-")
        found.append(zlib.crc32(objects[one.target][int(first) : int(last) + 1 if last else None]))
    return found


def reading(options: argparse.Namespace, path: Path, bucket: Bucket, toxiproxy: Toxiproxy) -> Task:
    """Measure reading the 15 columns."""
    import femtobarn as fb

    port = behind(toxiproxy, bucket.port, LATENCY)
    counting = Counting(port, False)
    names = {"default": None, "page": "page"}
    for name, size in names.items():
        say(f"writing objects: {name}")
        url = bucket.url(bucket.port, name, "public")
        fb.clone(path, url, object_size=size, overwrite=True, storage_options=bucket.keys)
    bucket.server.put("public/file.root", path.read_bytes())

    def objects(name: str, port: int) -> dict[str, Any]:
        return {"urls": [bucket.url(port, name, "public")], "options": storage({"anonymous": True})}

    def file(port: int) -> dict[str, Any]:
        about = {"anonymous": True, "endpoint": f"http://127.0.0.1:{port}"}
        return {"urls": ["s3://public/file.root"], "options": storage(about)}

    def reader(label: str, warm: dict[str, Any], own: dict[str, Any], **more: Any) -> Entry:
        return Entry(label, {"competitor": "ReadObjects", "ntuple": NTUPLE, "warm_up": warm, **own}, fresh=True, **more)

    def of_objects(name: str, port: int) -> Entry:
        return reader("femtobarn, objects", objects(name, bucket.port), objects(name, port))

    def of_file(port: int) -> Entry:
        return reader("femtobarn, one .root object", file(bucket.port), file(port), goal=("within", 1.2))

    asked, connections = recorded(of_objects("default", counting.port), counting)
    asked_file, _ = recorded(of_file(counting.port), counting)
    pages, _ = recorded(of_objects("page", counting.port), counting)
    steps = stages(bucket.url(counting.port, "default", "public"), {"anonymous": True}, counting)
    counting.close()
    in_order = [one for step in steps for one in step]
    entries = [
        of_objects("default", port),
        plain(
            "GETs of the same ranges, in the same steps",
            bucket,
            port,
            [sendable(step) for step in steps],
            connections,
            goal=("within", 1.3),
        ),
        plain(
            "GETs of the same ranges, all at once", bucket, port, [sendable(asked)], connections, goal=("within", 1.3)
        ),
        of_file(port),
        plain(
            "page after page, one object for each",
            bucket,
            port,
            [sendable(pages)],
            1,
            goal=("slower", 20.0),
            rounds=SLOW_ROUNDS,
        ),
    ]
    heard = [asked, in_order, asked, asked_file, pages]
    counts = [f"{len(one)} on {connections} connections" for one in (asked, in_order, asked)]
    counts += [str(len(asked_file)), f"{len(pages)} on 1 connection"]
    group = Group(f"Reading the 15 columns from MinIO, {LATENCY} ms", entries)
    measure(group, options.runs)
    task = Task(group, dict(zip([entry.label for entry in entries], counts, strict=True)))
    digests = {run["digest"] for entry in entries for run in entry.runs if run and "digest" in run}
    task.notes.append(
        f"{verdict(len(digests) == 1)}: offsets and values of the 15 columns, from objects and from .root"
    )
    for entry, requests in zip(entries, heard, strict=True):
        if entry.spec["competitor"] == "Plain":
            runs = [run["digests"] for run in entry.runs if run]
            expected = contents(bucket, requests)
            equal = all(run == expected for run in runs)
            task.notes.append(
                f"{verdict(equal)}: bytes of {len(expected)} answers with those in the store: {entry.label}"
            )
    same = sorted(map(str, asked)) == sorted(map(str, in_order))
    task.notes.append(f"{verdict(same)}: requests of a read as a whole and step by step")
    task.notes.append("steps: " + ", ".join(str(len(step)) for step in steps) + " requests")
    task.notes.append(f"page after page, round trips alone: {len(pages) * LATENCY / 1000:.2f} s")
    return task


def writing(
    options: argparse.Namespace, path: Path, bucket: Bucket, toxiproxy: Toxiproxy, latency: int, folder: Path
) -> Task:
    """Measure writing the file as objects."""
    import femtobarn as fb

    port = behind(toxiproxy, bucket.port, latency)
    counting = Counting(port, False)
    small = {"path": str(SMALL), "url": bucket.url(bucket.port, "small-goal")}

    def writer(label: str, port: int, **environment: str) -> Entry:
        remove = [*bucket.folders("goal"), *bucket.folders("small-goal")]
        about = {"path": str(path), "object_size": None, "overwrite": False, "remove": remove, "warm_up": small}
        own = spec("WriteObjects", [bucket.url(port, "goal")], bucket.keys, **about)
        return Entry(label, own, fresh=True, environment=environment)

    asked, connections = recorded(writer("counted", counting.port), counting)
    counting.close()
    puts = [one for one in asked if one.method == "PUT"]
    bodies = [bucket.server.get(one.target.removeprefix("/")) for one in puts]
    paths = [folder / str(at) for at in range(len(bodies))]
    for path_of, body in zip(paths, bodies, strict=True):
        path_of.write_bytes(body)
    at_once = min(connections, len(puts))
    own = writer("fb.clone, signed as over TLS", port, AWS_UNSIGNED_PAYLOAD="true")
    with_digests = writer("fb.clone, with SHA-256", port)
    others = []
    for label, name in (
        ("PUTs of the same objects, all at once", "plain"),
        ("PUTs in the same steps", "steps"),
        ("PUTs with SHA-256, all at once", "signed"),
    ):
        signed = (
            [hashlib.sha256(body).hexdigest() for body in bodies]
            if name == "signed"
            else ["UNSIGNED-PAYLOAD"] * len(bodies)
        )
        every = [
            ["PUT", bucket.server.presigned("PUT", f"private/{name}/{at}", digest), "", str(paths[at])]
            for at, digest in enumerate(signed)
        ]
        # an anchor is asked for, and the header and the new anchor are sent alone
        steps = [[["GET", "/public/default", "", ""]], every[:1], every[1:-1], every[-1:]]
        more = {"remove": bucket.folders(name), "digests": name == "signed"}
        others.append(plain(label, bucket, port, steps if name == "steps" else [every], at_once, spec=more))
    others[0].goal = ("within", 1.25)
    group = Group(f"Writing the file as objects to MinIO, {latency} ms", [own, *others, with_digests])
    measure(group, options.runs)
    text = f"{len(puts)} PUT and {len(asked) - len(puts)} others on {connections} connections"
    requests = {own.label: text, with_digests.label: text}
    requests |= {entry.label: f"{len(puts)} PUT on {at_once} connections" for entry in others}
    task = Task(group, requests)
    is_valid = fb.open(bucket.url(bucket.port, "goal"), storage_options=bucket.keys).verify().ok
    task.notes.append(f"{'valid' if is_valid else '**DAMAGED**'}: all pages of the objects by fb.clone")
    names = ("plain", "steps", "signed")
    stored = [bucket.server.get(f"private/{name}/{at}") for name in names for at in range(len(bodies))]
    task.notes.append(f"{verdict(stored == len(names) * bodies)}: bytes of {len(bodies)} objects by plain PUTs")
    n_bytes = sum(map(len, bodies))
    rates = ", ".join(f"{entry.label} {n_bytes / entry.median() / 1e6:.0f}" for entry in group.entries if entry.ran)
    task.notes.append(f"MB/s of {n_bytes / 1e6:.1f} MB: {rates}")
    return task


def task_text(task: Task) -> str:
    entries = task.group.entries
    reference = entries[0]
    rows = []
    for entry in entries:
        if entry.ran and reference.ran:
            seconds = present(entry.seconds())
            processor = statistics.median(ratios(entry.processor(), reference.processor()))
            rows.append(
                [
                    entry.label,
                    task.requests[entry.label],
                    f"{duration(entry.median())} ({duration(min(seconds))} to {duration(max(seconds))})",
                    spread(ratios(entry.seconds(), reference.seconds())),
                    f"{duration(entry.median_of('cpu'))}, {processor:.2f}",
                    goal(entry, reference, None),
                ]
            )
    header = ["client", "requests", "median (min to max)", "by femtobarn's", "processor time, by femtobarn's", "goal"]
    notes = [f"- {note}" for note in task.notes]
    notes += [f"- {entry.label}: **failed**: {entry.error}" for entry in entries if entry.error]
    notes.append(f"- load average {task.group.load_before:.1f} before, {task.group.load_after:.1f} after")
    return "\n".join([f"## {task.group.title}", "", table(header, rows), "", *notes, ""])


def as_json(found: list[Series], tasks: list[Task], about: dict[str, Any]) -> str:
    def times(group: Group) -> dict[str, Any]:
        own = {
            entry.label: {"seconds": entry.seconds(), "cpu": entry.processor(), "error": entry.error}
            for entry in group.entries
        }
        return {"title": group.title, "load": [group.load_before, group.load_after], "entries": own}

    def counts(series: Series) -> dict[str, Any]:
        return {
            size: {"puts": one.puts, "gets": one.gets, "requests": one.requests, "computed": one.computed.to_dict()}
            for size, one in series.counts.items()
        }

    return json.dumps(
        about
        | {"granularity": [times(one.group) | {"counts": counts(one)} for one in found]}
        | {"goals": [times(one.group) | {"requests": one.requests, "notes": one.notes} for one in tasks]},
        indent=1,
    )


def main() -> None:
    parser = arguments(__doc__, ["granularity", "goals"], runs=7)
    parser.add_argument("--rtt", type=int, nargs="+", default=[0, 10, 50], help="round-trip times in milliseconds")
    parser.add_argument("--quick", action="store_true", help="three sizes of objects, one round of granularity")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="draw throughput and cost there")
    options = parser.parse_args()
    files = inputs(options, list(CODECS.values()))
    if files is None:
        return
    only = options.only or ["granularity", "goals"]
    # stop the servers after SIGTERM, as after Ctrl-C
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    tempfile.tempdir = SCRATCH  # the disk is not measured
    series: list[Series] = []
    tasks: list[Task] = []
    with ExitStack() as stack:
        try:
            bucket, toxiproxy = Bucket(stack), stack.enter_context(Toxiproxy())
        except ServerError as error:
            print(f"Nothing is measured: {error}")
            return
        try:
            if "goals" in only:
                tasks.append(reading(options, files["zstd"], bucket, toxiproxy))
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                tasks += [writing(options, files["zstd"], bucket, toxiproxy, rtt, folder) for rtt in (0, LATENCY)]
            if "granularity" in only:
                series = granularity(options, files, bucket, stack)
        except CompetitorError as error:
            print(f"**failed**: {error}\n")
    groups = [task.group for task in tasks] + [one.group for one in series]
    about = context({group.title: group for group in groups}, files)
    lines = ["# Ntuples as objects, measured", "", f"`{about['command']}`, {about['date']}", ""]
    lines += [f"- {name}: {value}" for name, value in about["machine"].items()]
    lines.append("- " + ", ".join(f"{name} {version}" for name, version in about["versions"].items()))
    lines.append("- files: " + ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in about["files"].items()))
    print("\n".join([*lines, ""]))
    for task in tasks:
        print(task_text(task))
    if series:
        print(granularity_text(series))
    if options.json:
        options.json.write_text(as_json(series, tasks, about))
    if options.figures and series:
        figures(options.figures, series)


if __name__ == "__main__":
    main()
