"""From an event store to ntuples: a column for each product, in which everything comes back."""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from femtobarn import _core
from femtobarn._shared.compat import known_options
from femtobarn._shared.output import root_path
from femtobarn._shared.patterns import fits
from femtobarn._shared.progress import Progress
from femtobarn._shared.repr import format_bytes, format_seconds, plural
from femtobarn._store.containers import Run, SubRun
from femtobarn._store.dataset import DataSet
from femtobarn._store.product_decoding import may_be_of_boost
from femtobarn._store.product_names import hint, listed, named
from femtobarn._store.product_types import type_name_of
from femtobarn._store.ptr import PTR
from femtobarn._store.threads import check_wanted
from femtobarn._store.twins import instead
from femtobarn._transfer.export_names import NUMBERS, column_names, is_file_note, note
from femtobarn._writing.write import create, recreate
from femtobarn.errors import ChecksumError, FileError, FormatError, KeyNotFoundError, UsageError

if TYPE_CHECKING:
    from femtobarn._store.container import Container
    from femtobarn._store.datastore import DataStore
    from femtobarn._writing.file_writer import FileWriter
    from femtobarn._writing.ntuple_writer import NTupleWriter

__all__ = ["ExportReport", "ExportedProduct", "export"]

_BATCH = 32 << 20  # bytes of products that are in memory at once, about
_MOST_EVENTS = 65_536
_FIRST_EVENTS = 64
_MOST_ROWS = 4096
_OTHERS = (".csv", ".gz", ".h5", ".hdf5", ".json", ".npy", ".npz", ".pickle", ".pkl", ".tsv", ".txt", ".xml", ".zip")


@dataclass(frozen=True)
class ExportedProduct:
    """A column of an exported file.

    Attributes
    ----------
    label, type : str
        The products that it holds.
    ntuple, column : str
        Where it is.
    form : str
        Its content: "value"; "optional", where not all events have one; "list", lists of one value or none, of types
        that may be without value themselves; "bytes" and "optional bytes" are the stored bytes.
    number : int
        How many products there are.
    """

    label: str
    type: str
    ntuple: str
    column: str
    form: str
    number: int


@dataclass(frozen=True, repr=False)
class ExportReport:
    """Result of an export.

    Attributes
    ----------
    output : str
        The file.
    ntuples : dict
        The names of the ntuples in it, and how many entries each has.
    events : int
        Number of events.
    products : tuple of ExportedProduct
        The columns.
    warnings : tuple of str
        Notes on products that are stored in another way than expected, or are not included.
    bytes_out : int or None
        Bytes of the file; None if it is on a server.
    seconds : float
        The time that it took.
    """

    output: str
    ntuples: dict[str, int]
    events: int
    products: tuple[ExportedProduct, ...]
    warnings: tuple[str, ...]
    bytes_out: int | None
    seconds: float

    def _words(self) -> str:
        words = [plural(self.events, "event"), plural(len(self.products), "column")]
        if len(self.ntuples) > 1:
            words.append(f"ntuples {', '.join(self.ntuples)}")
        return ", ".join(words)

    def __str__(self) -> str:
        size = "" if self.bytes_out is None else f"{format_bytes(self.bytes_out)} "
        lines = [f"{self.output}: {self._words()}", f"{size}in {format_seconds(self.seconds)}"]
        return "\n".join(lines + [f"note: {warning}" for warning in self.warnings])

    def __repr__(self) -> str:
        lines = [f"<ExportReport {self.output!r}: {self._words()}>"]
        return "\n".join(lines + [f"  {warning}" for warning in self.warnings])


@known_options()
def export(
    container: DataSet | Run | SubRun,
    path: str | os.PathLike[str],
    *,
    products: str | tuple[str, Any] | Iterable[str | tuple[str, Any]] | None = None,
    runs: int | Iterable[int] | None = None,
    name: str = "Events",
    numbers: Sequence[str] = NUMBERS,
    missing: str = "optional",
    compression: Any = "zstd:5",
    cluster_size: str | SupportsIndex = "128 MiB",
    overwrite: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ExportReport:
    """Write the events of a dataset, run or subrun as an RNTuple, with a column for each of their products.

    Entries are in the order of run, subrun and event. The file appears when it is complete; `fb.ingest` makes the same
    store of it again. Products of the dataset, its runs and subruns, and runs and subruns that hold nothing, are
    further ntuples of the file: ``Events_dataset``, ``Events_runs`` and ``Events_subruns``, if there are such.

    Parameters
    ----------
    container : DataSet, Run or SubRun
        The exported container. Datasets in a dataset are exported by themselves.
    path : str or path
        Where the file will be, also on a server.
    products : str, tuple or list, optional
        Labels, in which ``*`` and ``?`` stand for any characters, or labels and types. By default all, but for the
        notes of `ingest` that a file is in the dataset.
    runs : int or iterable of int, optional
        Of a dataset, these runs only.
    name : str
        Name of the ntuple.
    numbers : sequence of str
        Names of the columns of run, subrun and event, as ``("run", "luminosityBlock", "event")``.
    missing : str
        What columns of products are that not all events have: "optional", ``std::optional`` of their type; or "list",
        ``std::vector`` of one value or none, which RDataFrame of ROOT 6.40 reads, as it does no ``std::optional``.
    compression : str, int or None
        See `recreate`.
    cluster_size : str or int
        Compressed bytes of a cluster, about.
    overwrite : bool
        Whether to replace an existing file.
    threads : int, optional
        Number of threads that encode and compress.
    progress : bool, optional
        Whether a bar is shown; by default on a terminal and in a notebook. True shows lines now and then elsewhere.
    storage_options : dict, optional
        Settings for the server, as in `open`.

    Returns
    -------
    ExportReport
        The columns, and warnings about them.

    Raises
    ------
    KeyNotFoundError
        If a product or run does not exist.
    FileError
        If there is a file already, it cannot be written, or events or products came or went meanwhile.
    FormatError
        If a stored value is damaged.

    Examples
    --------
    >>> import femtobarn as fb
    >>> dataset = fb.DataStore.connect("memory:").root.create_dataset("a")
    >>> with dataset.datastore.write_batch() as batch:
    ...     batch.store_arrays(dataset, {"pt": [1.5, 2.5]}, run=1, subrun=2, event=[4, 3])
    >>> fb.export(dataset, tmp / "events.root")
    <ExportReport '...events.root': 2 events, 1 column>
    >>> fb.open(tmp / "events.root").arrays().to_list()
    [{'run': 1, 'subrun': 2, 'event': 3, 'pt': 2.5}, {'run': 1, 'subrun': 2, 'event': 4, 'pt': 1.5}]
    """
    since = time.monotonic()
    if not isinstance(container, DataSet | Run | SubRun):
        raise UsageError(
            f"expected a dataset, run or subrun, not {container!r}{instead(container, 'await aio.export(…)')}"
        )
    if isinstance(container, DataSet) and not container.path:
        near = [dataset.path for dataset in itertools.islice(container.datasets(), 3)]
        raise UsageError(f"the root of a store has no events: export a dataset in it{_as(near)}")
    names = _three(numbers)
    if missing not in ("optional", "list"):
        raise UsageError(f"missing must be 'optional' or 'list', not {missing!r}")
    place = _place(path, overwrite)
    holders = [container] if runs is None else _runs_of(container, runs)
    wanted = None if products is None else listed(products)
    if wanted is not None:
        if not wanted:
            raise UsageError("products=[] selects none, and the file would have no columns: leave it out to export all")
        for one in wanted:
            named(one)  # which fails for what names no product
    survey = _Survey.of(container, holders, wanted)
    options = {"compression": compression, "threads": threads, "storage_options": storage_options}
    while True:
        exporting = _Exporting(survey, name, names, missing)
        try:
            with (recreate if overwrite else create)(place, **options) as file:
                with Progress(f"exporting {container}", progress, "events") as bar:
                    exporting.write(file, cluster_size, bar)
                exporting.check(_Survey.of(container, holders, wanted, is_again=True))
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(f"{_core.public_url(place)} was not written")
            raise
        except _IsPartialError as found:
            # an event was counted that has no container, or a product was removed meanwhile
            survey.partial.add(found.product)
            continue
        except _IsUnreadableError as found:
            survey.unreadable.update(found.why)
            continue
        break
    shown = _core.public_url(place)
    return ExportReport(
        output=shown,
        ntuples=exporting.ntuples,
        events=exporting.n_events,
        products=tuple(exporting.products),
        warnings=(*exporting.warnings, *survey.warnings()),
        bytes_out=None if _core.is_remote(place) else Path(_core.local_path(place)).stat().st_size,
        seconds=time.monotonic() - since,
    )


def _place(path: str | os.PathLike[str], overwrite: bool) -> str:
    place = root_path(path)
    suffix = Path(_core.public_url(place)).suffix.lower()
    if suffix in _OTHERS:
        raise UsageError(f"{place!r} would be a ROOT file: use the ending .root instead of {suffix}")
    if not _core.is_remote(place) and Path(_core.local_path(place)).is_dir():
        inside = Path(_core.local_path(place)) / "events.root"
        raise UsageError(f"{place} is a directory: give the file to write, e.g. '{inside}'")
    if not overwrite and not _core.is_remote(place) and os.path.lexists(_core.local_path(place)):
        raise FileError(
            f"{place} already exists: replace it with overwrite=True, or -f in the shell", kind="create-failed"
        )
    return place


def _runs_of(container: DataSet | Run | SubRun, runs: int | Iterable[int]) -> list[DataSet | Run | SubRun]:
    if not isinstance(container, DataSet):
        raise UsageError(f"runs can only be selected in a dataset, but {container} is not a dataset")
    return [*container._runs(runs)]


def _as(names: list[str]) -> str:
    return f", as {', '.join(map(repr, names))}" if names else ""


def _three(numbers: Sequence[str]) -> tuple[str, str, str]:
    if isinstance(numbers, str) or len(numbers) != 3 or len(set(numbers)) != 3:
        raise UsageError(f"numbers must be the names of three columns, e.g. {NUMBERS}, not {numbers!r}")
    run, subrun, event = numbers
    return run, subrun, event


class _IsPartialError(Exception):
    """An event lacks a product that was expected in all events."""

    def __init__(self, product: tuple[str, str]) -> None:
        super().__init__(product)
        self.product = product


class _IsUnreadableError(Exception):
    """Products have values that are whole, and none of their type: C++ has stored them otherwise."""

    def __init__(self, why: dict[tuple[str, str], str]) -> None:
        super().__init__(why)
        self.why = why


_Spec = tuple[str, str, str, str]
"""A column: name, label, type and form."""


@dataclass
class _Row:
    """A dataset, run or subrun, with the names of its own products."""

    container: Container
    numbers: tuple[int, ...]
    products: list[tuple[str, str]]
    is_empty: bool


@dataclass
class _Survey:
    """The existing data: found before anything is written, since the columns must be known."""

    store: DataStore
    container: DataSet | Run | SubRun
    holders: list[DataSet | Run | SubRun]
    n_events: int = 0
    events: dict[tuple[str, str], int] = field(default_factory=dict)
    partial: set[tuple[str, str]] = field(default_factory=set)
    unreadable: dict[tuple[str, str], str] = field(default_factory=dict)
    # of the dataset, runs and subruns: empty ones, or ones with products
    levels: dict[str, list[_Row]] = field(default_factory=lambda: {"dataset": [], "runs": [], "subruns": []})

    @classmethod
    def of(
        cls,
        container: DataSet | Run | SubRun,
        holders: list[DataSet | Run | SubRun],
        wanted: list[str | tuple[str, Any]] | None,
        is_again: bool = False,
    ) -> _Survey:
        """Look for the products that are wanted, all by default; each must be there, the first time."""
        container._check_there()
        survey = cls(container._store, container, holders)
        if isinstance(container, DataSet):
            _, own = survey.counts(container)
            survey.add("dataset", container, (), own, False)
        for holder in holders:
            survey.look(holder)
        survey.choose(wanted, must_be_there=not is_again)
        return survey

    def counts(self, holder: DataSet | Run | SubRun) -> tuple[int, list[tuple[str, str]]]:
        """Count what a container holds, with products of events; return how many that is, and its own products."""
        n, counts = holder._core.n_children(), holder._core.name_counts()
        if isinstance(holder, SubRun):
            self.n_events += n
            for label, kind, n_events, _ in counts:
                if n_events:
                    self.events[label, kind] = self.events.get((label, kind), 0) + n_events
        return n, [(label, kind) for label, kind, _, is_own in counts if is_own]

    def add(
        self, level: str, holder: Container, numbers: tuple[int, ...], own: list[tuple[str, str]], is_empty: bool
    ) -> None:
        if own or is_empty:
            self.levels[level].append(_Row(holder, numbers, own, is_empty))

    def look(self, holder: DataSet | Run | SubRun) -> None:
        if isinstance(holder, DataSet):
            for run in holder.runs():
                self.look(run)
            return
        n, own = self.counts(holder)
        if isinstance(holder, SubRun):
            self.add("subruns", holder, (holder.run.number, holder.number), own, n == 0)
            return
        self.add("runs", holder, (holder.number,), own, n == 0)
        for below in holder:
            self.look(below)

    def choose(self, wanted: list[str | tuple[str, Any]] | None, must_be_there: bool) -> None:
        """Leave the products that are wanted."""
        if wanted is None:
            for row in self.levels["dataset"]:
                row.products = [product for product in row.products if not is_file_note(product)]
            self.levels["dataset"] = [row for row in self.levels["dataset"] if row.products]
            return
        known = set(self.events).union(*(row.products for rows in self.levels.values() for row in rows))
        chosen: set[tuple[str, str]] = set()
        for one in wanted:
            found = known & {_named(one)} if isinstance(one, tuple) else _of_label(one, known)
            if not found and must_be_there:
                label, kind = _named(one) if isinstance(one, tuple) else (one, None)
                there = hint("it has", label, kind, known)
                raise KeyNotFoundError(f"{self.store.url}: {self.container} has no product {one!r}; {there}")
            chosen |= found
        self.events = {product: n for product, n in self.events.items() if product in chosen}
        for level, rows in self.levels.items():
            for row in rows:
                row.products = [product for product in row.products if product in chosen]
            self.levels[level] = [row for row in rows if row.products or row.is_empty]

    def numbers(self) -> dict[str, int]:
        """Return the numbers of all objects, by their description."""
        found = Counter({_words("events", product): n for product, n in self.events.items()})
        for level, rows in self.levels.items():
            found.update(_words(level, product) for row in rows for product in row.products)
            found[f"{level} without events or products"] = sum(row.is_empty for row in rows)
        return found

    def warnings(self) -> list[str]:
        if not isinstance(self.container, DataSet):
            return []
        return [f"{dataset} is not included: export it by itself" for dataset in self.container.datasets()]


def _words(level: str, product: tuple[str, str]) -> str:
    label, kind = product
    return f"products {label!r} of type {kind} of {'the dataset' if level == 'dataset' else level}"


def _named(product: tuple[str, Any]) -> tuple[str, str]:
    label, kind = product
    return label, type_name_of(kind)


def _of_label(wanted: str, known: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the products of a label; if it is not a name, the names that match it as a pattern."""
    exact = {product for product in known if product[0] == wanted}
    return exact or {product for product in known if fits(product[0], [wanted])}


class _Exporting:
    """One try to write a file."""

    def __init__(self, survey: _Survey, name: str, numbers: tuple[str, str, str], missing: str) -> None:
        self._survey = survey
        self._core = survey.store._core
        self._name = name
        self._numbers = numbers
        self._missing = missing
        self.n_events = 0
        self.ntuples: dict[str, int] = {}
        self.products: list[ExportedProduct] = []
        self.warnings: list[str] = []
        self._refs: list[str] = []

    def write(self, file: FileWriter, cluster_size: str | SupportsIndex, bar: Progress) -> None:
        survey = self._survey
        counts = {product: survey.events[product] for product in sorted(survey.events)}
        partial = {p for p, n in counts.items() if n != survey.n_events} | survey.partial
        specs = self._specs(self._name, list(counts), partial, self._numbers)
        ntuple = self._begin(file, "events", self._name, self._numbers, specs, cluster_size)
        written = dict.fromkeys(counts, 0)
        for batch, n, own in self._batches(specs):
            check_wanted(f"exporting {survey.container}")
            ntuple.extend(batch)
            self.n_events += n
            for product, number in zip(counts, own, strict=True):
                written[product] += number
            bar.tick(self.n_events, survey.n_events)
        self._end(ntuple, self._name, specs, written)
        self._warn_of_types(specs, written)
        for level, rows in survey.levels.items():
            if rows:
                self._write_level(file, level, rows)
        if self._refs:
            self.warnings.append(
                f"{', '.join(map(repr, sorted(set(self._refs))))}: references are exported as they are: "
                "the referenced data are not exported, and the references are invalid in another store"
            )

    def _warn_of_types(self, specs: list[tuple[str, str, str, str]], written: Mapping[tuple[str, str], int]) -> None:
        """Say which labels have products of several types, and so several columns."""
        by_label: dict[str, list[tuple[str, str]]] = {}
        for column, label, kind, _ in specs:
            by_label.setdefault(label, []).append((kind, column))
        for label, columns in by_label.items():
            if len(columns) == 1:
                continue
            counts = [f"{kind} in {column} ({plural(written[label, kind], 'event')})" for kind, column in columns]
            self.warnings.append(
                f"products {label!r} have several types, each with a column of its own: {', '.join(counts)}; store "
                "all with the same type (typename=), or export one type with "
                f"products=[({label!r}, {columns[0][0]!r})]"
            )

    def check(self, now: _Survey) -> None:
        """Raise if the data differ from the first survey, or from `now`: then nothing appears."""
        before = self._survey
        for n_events, when in ((self.n_events, "they were written"), (now.n_events, "all was written")):
            if n_events != before.n_events:
                raise FileError(
                    f"{before.store.url}: {before.container} had {before.n_events} events when its products were "
                    f"counted, but {n_events} when {when}: try again while no program writes",
                    kind="changed",
                )
        first, last = before.numbers(), now.numbers()
        changed = sorted(what for what in {*first, *last} if first.get(what, 0) != last.get(what, 0))
        if changed:
            what = changed[0]
            more = f" (and {len(changed) - 1} more that changed)" if len(changed) > 1 else ""
            raise FileError(
                f"{before.store.url}: {before.container} had {first.get(what, 0)} {what} when the export began, but "
                f"{last.get(what, 0)} when all was written{more}: try again while no program writes",
                kind="changed",
            )

    def _specs(
        self, ntuple: str, products: list[tuple[str, str]], partial: set[tuple[str, str]], numbers: tuple[str, ...]
    ) -> list[_Spec]:
        """Return the columns."""
        names = column_names(products, numbers)
        specs = []
        for label, kind in products:
            why = self._survey.unreadable.get((label, kind))
            form = "optional bytes" if (label, kind) in partial else "bytes"
            if why is None:
                form, why = self._core.form(kind, (label, kind) in partial)
            if why is not None:
                self.warnings.append(
                    f"product {label!r} of type {kind} is stored as bytes in {ntuple}.{names[label, kind]}: {why}"
                )
            form = self._missing if form == "optional" else form
            specs.append((names[label, kind], label, kind, form))
        return specs

    def _begin(
        self,
        file: FileWriter,
        level: str,
        name: str,
        numbers: tuple[str, ...],
        specs: list[_Spec],
        cluster_size: str | SupportsIndex,
    ) -> NTupleWriter:
        columns = []
        for column, label, kind, form in specs:
            about: dict[str, Any] = {"label": label, "type": kind, "form": form}
            classes = self._classes(kind)
            if classes:
                about["classes"] = classes
            if "hepnos::Ptr<" in kind or any(known == PTR for known, _ in classes):
                self._refs.append(label)
            columns.append((column, kind, form, note("product", about)))
        own = [(column, note("number", number)) for column, number in zip(numbers, NUMBERS, strict=False)]
        about_all = {"level": level, "container": str(self._survey.container), "store": self._survey.store.url}
        fields = self._core.export_fields(own, columns)
        return file.mkrntuple(name, fields, note("level", about_all), cluster_size=cluster_size)

    def _classes(self, kind: str) -> list[tuple[str, list[tuple[str, str]]]]:
        try:
            return self._core.classes(kind)
        except FormatError:
            return []  # the record is damaged, for the reason that these are bytes

    def _end(
        self,
        ntuple: NTupleWriter,
        name: str,
        specs: list[_Spec],
        written: Mapping[tuple[str, str], int],
    ) -> None:
        self.ntuples[name] = ntuple.close()
        self.products += [
            ExportedProduct(label, kind, name, column, form, written[label, kind])
            for column, label, kind, form in specs
        ]

    def _batches(self, specs: list[_Spec]) -> Iterator[tuple[_core.Batch, int, list[int]]]:
        """Give the events as batches, with their number, and of each product how many have it."""
        names = [(label, kind) for _, label, kind, _ in specs]
        for holder in self._survey.holders:
            for events in _loaded(holder._core, names):
                counts = events.counts()
                for (_, label, kind, form), n in zip(specs, counts, strict=True):
                    if n < len(events) and form in ("value", "bytes"):
                        raise _IsPartialError((label, kind))
                batch = _written(specs, functools.partial(events.export, self._numbers))
                yield batch, len(events), counts

    def _write_level(self, file: FileWriter, level: str, rows: list[_Row]) -> None:
        """Write the products of the dataset, of runs or of subruns."""
        name = f"{self._name}_{level}"
        numbers = self._numbers[: len(rows[0].numbers)]
        counts: dict[tuple[str, str], int] = {}
        for row in rows:
            for product in row.products:
                counts[product] = counts.get(product, 0) + 1
        products = sorted(counts)
        specs = self._specs(name, products, {p for p in products if counts[p] != len(rows)}, numbers)
        ntuple = self._begin(file, level, name, numbers, specs, "128 MiB")
        for some, values in self._pages(rows):
            own = [(column, [row.numbers[i] for row in some]) for i, column in enumerate(numbers)]
            containers = [row.container._core for row in some]
            columns = [[loaded.get((label, kind)) for loaded in values] for _, label, kind, _ in specs]
            ntuple.extend(_written(specs, functools.partial(self._rows, own, columns, containers)))
        self._end(ntuple, name, specs, counts)

    def _rows(
        self,
        own: list[tuple[str, list[int]]],
        values: list[list[bytes | None]],
        containers: list[_core.Container],
        specs: list[_Spec],
    ) -> _core.Batch:
        return self._core.export_rows(own, list(zip(specs, values, strict=True)), containers)

    def _pages(self, rows: list[_Row]) -> Iterator[tuple[list[_Row], list[dict[tuple[str, str], bytes]]]]:
        """Give containers with their products, some at a time."""
        some: list[_Row] = []
        values: list[dict[tuple[str, str], bytes]] = []
        n_bytes = 0
        for row in rows:
            loaded = {product: row.container._core.load(product) for product in row.products}
            gone = [product for product, value in loaded.items() if value is None]
            if gone:
                raise FileError(f"product {gone[0]} of {row.container} was deleted during the export", kind="changed")
            some.append(row)
            values.append({product: value for product, value in loaded.items() if value is not None})
            n_bytes += sum(map(len, values[-1].values()))
            if n_bytes >= _BATCH or len(some) >= _MOST_ROWS:
                yield some, values
                some, values, n_bytes = [], [], 0
        if some:
            yield some, values


def _written(specs: list[_Spec], batch: Callable[[list[_Spec]], _core.Batch]) -> _core.Batch:
    """Return the batch of columns; damage in the store was reported when it was loaded."""
    try:
        return batch(specs)
    except FormatError as error:
        if isinstance(error, ChecksumError) or error._object is not None:
            raise
        why = {}
        for n, (_, label, kind, form) in enumerate(specs):
            if form.endswith("bytes") or not may_be_of_boost(kind):
                continue
            try:
                batch([spec if at == n else (*spec[:3], "optional bytes") for at, spec in enumerate(specs)])
            except FormatError as fault:
                which = (str(fault).partition(f'#{kind}" of ')[2] or str(fault)).replace(" is damaged:", ":")
                why[label, kind] = f"not all have this type; hepnos.hpp may have stored them with Boost ({which})"
        if not why:
            raise
        raise _IsUnreadableError(why) from None


def _loaded(core: _core.Container, names: list[tuple[str, str]]) -> Iterator[_core.Events]:
    """Give events with their products, as many at a time as there is memory for: their size is known when they are."""
    number, after = _FIRST_EVENTS, None
    while True:
        loader = core.loader(names, number, 1, after)
        wanted = number
        try:
            for events in loader:
                yield events
                after = events.keys()[-40:]
                per_event = max(1, events.nbytes // max(1, len(events)))
                wanted = max(1, min(_MOST_EVENTS, _BATCH // per_event))
                if not number / 4 <= wanted <= number * 4 or (number == _FIRST_EVENTS and wanted > number):
                    break
            else:
                return
        finally:
            loader.close()
        number = wanted
