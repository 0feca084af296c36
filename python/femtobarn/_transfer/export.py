"""From an event store to ntuples: a column for each product, in which everything comes back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

from femtobarn import _core
from femtobarn._files.open import settings_of
from femtobarn._shared.compat import known_options
from femtobarn._shared.output import compression_settings, root_path
from femtobarn._shared.progress import Progress
from femtobarn._shared.steps import num_bytes, num_threads
from femtobarn._store.containers import Run, SubRun
from femtobarn._store.dataset import DataSet
from femtobarn._store.product_names import listed, named
from femtobarn._store.product_types import type_name_of
from femtobarn._store.threads import check_wanted
from femtobarn._store.twins import instead
from femtobarn.errors import UsageError

__all__ = ["ExportReport", "ExportedProduct", "export"]

_NUMBERS = ("run", "subrun", "event")


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

    _words: str = field(default="", compare=False)
    _text: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        lines = [f"<ExportReport {self.output!r}: {self._words}>"]
        return "\n".join(lines + [f"  {warning}" for warning in self.warnings])


@known_options()
def export(
    container: DataSet | Run | SubRun,
    path: str | os.PathLike[str],
    *,
    products: str | tuple[str, Any] | Iterable[str | tuple[str, Any]] | None = None,
    runs: int | Iterable[int] | None = None,
    name: str = "Events",
    numbers: Sequence[str] = _NUMBERS,
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
    if not isinstance(container, DataSet | Run | SubRun):
        raise UsageError(
            f"expected a dataset, run or subrun, not {container!r}{instead(container, 'await aio.export(…)')}"
        )
    if isinstance(numbers, str) or len(numbers) != 3:
        raise UsageError(f"numbers must be the names of three columns, e.g. {_NUMBERS}, not {numbers!r}")
    output = root_path(path)
    size = num_bytes(cluster_size)
    if size < 1:
        raise UsageError(f"cluster_size must be at least 1, not {size}")
    given = {
        "products": None if products is None else [_product(one) for one in listed(products)],
        "runs": None if runs is None else _runs(container, runs),
        "name": name,
        "numbers": [*numbers],
        "missing": missing,
        "compression": compression_settings(compression),
        "cluster_size": size,
        "threads": num_threads(threads),
        "overwrite": bool(overwrite),
        "settings": {} if storage_options is None else settings_of(storage_options),
    }
    with Progress(f"exporting {container}", progress, "events") as bar:

        def tick(done: int, total: int) -> None:
            check_wanted(f"exporting {container}")
            bar.tick(done, total)

        try:
            document, words, text = _core.export_events(container._core, output, given, tick)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(f"{_core.public_url(output)} was not written")
            raise
    report = json.loads(document)
    report["products"] = tuple(ExportedProduct(**one) for one in report["products"])
    report["warnings"] = tuple(report["warnings"])
    return ExportReport(**report, _words=words, _text=text)


def _product(one: str | tuple[str, Any]) -> tuple[str, str | None]:
    label, kind = named(one)
    return label, None if kind is None else type_name_of(kind)


def _runs(container: DataSet | Run | SubRun, runs: int | Iterable[int]) -> list[int]:
    if not isinstance(container, DataSet):
        raise UsageError(f"runs can only be selected in a dataset, but {container} is not a dataset")
    return [run.number for run in container._runs(runs)]
