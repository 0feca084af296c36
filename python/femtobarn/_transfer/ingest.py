"""Bringing files into an event store."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from femtobarn import _core
from femtobarn._files.open import is_of_uproot, resolve, settings_of
from femtobarn._shared.compat import known_options
from femtobarn._shared.patterns import patterns
from femtobarn._shared.progress import Progress
from femtobarn._shared.repr import plural
from femtobarn._shared.steps import num_threads
from femtobarn._shared.warning import warn_outside
from femtobarn._store.dataset import DataSet
from femtobarn._store.product_encoding import of_product
from femtobarn._store.threads import check_wanted
from femtobarn._store.twins import instead
from femtobarn._transfer.hdf5 import Choice, choice_of
from femtobarn._transfer.hdf5_tables import check_patterns
from femtobarn._transfer.ingest_worker import Done, Source, classes_of, messages
from femtobarn._writing.to_nodes import to_batches
from femtobarn.errors import UnreadableWarning, UsageError

if TYPE_CHECKING:
    from femtobarn._files.open import Files
    from femtobarn._transfer.chunk import Chunk

__all__ = ["IngestReport", "ingest", "look"]

_NUMBERS = ("run", "subrun", "event")


@dataclass(repr=False)
class IngestReport:
    """What became of files that were to be brought into a store.

    Parameters
    ----------
    files : int
        Files that were read.
    skipped : int
        Files that were not, since the dataset has all of them already.
    events : int
        Events in the files that were read.
    products : int
        Products that were written.
    kept : int
        Products that were there already with the same value.
    conflicts : int
        Products that already existed with another value, and were kept or replaced according to `on_conflict`.
    n_bytes : int
        Bytes of the files that were read.
    seconds : float
        The time that it took.
    left_out : dict
        Groups and datasets that were left out: why, and in how many files.
    warnings : list of str
        Labels whose products have several types in these files, and files of which `collections` has collected nothing.
    """

    files: int = 0
    skipped: int = 0
    events: int = 0
    products: int = 0
    kept: int = 0
    conflicts: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    left_out: dict[str, tuple[str, int]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    _text: str = field(default="", compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return it as what JSON can hold.

        Returns
        -------
        dict
            Its values by their names.
        """
        given = asdict(self)
        del given["_text"]
        given["left_out"] = [
            {"name": name, "reason": reason, "files": n} for name, (reason, n) in sorted(self.left_out.items())
        ]
        return given

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<IngestReport: {'; '.join(self._text.splitlines()[:2])}>"


@known_options()
def ingest(
    files: Files,
    dataset: DataSet,
    *,
    groups: str | Iterable[str] | None = None,
    fields: str | Iterable[str] | None = None,
    drop: str | Iterable[str] | None = None,
    namespace: str = "",
    tree: str | None = None,
    run: str | int | None = None,
    subrun: str | int | None = None,
    event: str | int | None = None,
    collections: bool = False,
    on_conflict: str = "raise",
    again: bool = False,
    workers: int | None = None,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> IngestReport:
    """Bring HDF5 files, RNTuples and TTrees into a dataset of an event store, event by event.

    Each group of an HDF5 file becomes a product of the events that it has rows of: its label is the group's name
    (``rec.slc``), its type a ``std::vector`` of a class of that name (``rec_slc``), which has a member for each dataset
    but `run`, `subrun` and `evt`. Events that only have a row in ``spill`` are created, too. Each field of an ntuple or
    a tree becomes a product of each event.

    A file that is wholly in the dataset is noted there, and not read again. One that was broken off is, with the same
    result: existing products with the same value are kept, and another value is a conflict.

    Parameters
    ----------
    files : str, path, dict or list
        What to read, as for `open`. What a file is is seen from its content. HDF5 files must be local.
    dataset : DataSet
        Where it is brought.
    groups : str or list of str, optional
        The groups of HDF5 files; ``*`` and ``?`` stand for any characters.
    fields : str or list of str, optional
        The fields of ntuples and trees; of HDF5 files, the datasets, as ``group/dataset``.
    drop : str or list of str, optional
        Groups and datasets of HDF5 files that are left out, as ``*/batch``.
    namespace : str
        The namespace of the classes of groups of HDF5 files, such as "hep"; classes of ROOT files are put into it:
        classes that files of another version have with other members go into another one.
    tree : str, optional
        The name of the ntuple or tree in ROOT files; a name after the path has priority.
    run, subrun, event : str or int, optional
        The source of the numbers of each event: the datasets of HDF5 files, by default "run", "subrun" and "evt"; the
        fields of ROOT files, by default "run", "luminosityBlock" and "event". Of ROOT files `run` and `subrun` may be
        numbers, which all events have, and `event` that of the first entry, from which on they are counted.
    collections : bool
        Whether ``nMuon`` and ``Muon_pt``, ``Muon_eta``, … of NanoAOD become one product ``Muon``.
    on_conflict : str
        Action if a product already exists with another value: "raise", "keep" it, or "replace" it.
    again : bool
        Whether files are read that are noted to be in the dataset.
    workers : int, optional
        Files that are read at the same time: HDF5 files by as many processes, as HDF5 has one lock per process. By
        default as many as there are processors, and of less than 64 MiB one. One process writes: this one.
    progress : bool, optional
        Whether a bar is shown; by default on a terminal and in a notebook. True shows lines now and then elsewhere.
    storage_options : dict, optional
        Settings of how servers are asked, as for `open`.

    Returns
    -------
    IngestReport
        The report.

    Raises
    ------
    ExistsError
        If a product already exists with another value; the message names file, event and product, and how many others
        of the file are stored by now. They stay: ingest the file again with another `on_conflict`, or delete them.
    FemtobarnError
        If a file cannot be read, or has what no product can be; files that were done before stay noted as done.

    Examples
    --------
    >>> import h5py, numpy as np, femtobarn as fb
    >>> with h5py.File(tmp / "a.h5", "w") as file:
    ...     for name, values in {"run": [7, 7, 7], "subrun": [1, 1, 1], "evt": [3, 3, 9], "nhit": [25, 31, 4]}.items():
    ...         _ = file.create_dataset(f"rec.slc/{name}", data=np.array(values, "u4")[:, None])
    >>> dataset = fb.DataStore.connect("memory:").root.create_dataset("nova")
    >>> report = fb.ingest(tmp / "a.h5", dataset)
    >>> report.events, report.products
    (2, 2)
    >>> dataset[7][1][3].load("rec.slc").nhit
    <Array [25, 31] type='2 * uint32'>
    """
    _check(files, dataset, workers)
    numbers = [_number(*given) for given in zip(_NUMBERS, (run, subrun, event), strict=True)]
    given = _given(fields, groups, drop, namespace, tree, numbers, collections, storage_options)
    given |= {"on_conflict": on_conflict, "again": again, "workers": workers}
    pairs = resolve(files, storage_options)
    job = _core.Ingest(dataset._core, pairs, given)
    sources = [Source(number, *file) for number, file in enumerate(job.files())]
    todo = [source for source in sources if source.is_wanted]
    choice = _choice(given, sources)
    bar = Progress(f"ingesting {plural(len(todo), 'file')}", progress)

    def tick(done: int, total: int) -> None:
        check_wanted(f"ingesting files into {dataset}")
        bar.tick(done, total)

    with bar, _told_how_far(job):
        for kind, some in itertools.groupby(todo, key=lambda source: source.kind):
            if kind == "root":
                job.read([source.number for source in some], tick)
            else:
                _read_hdf5(job, list(some), choice, on_conflict != "raise", tick)
        document, text = job.finish()
    report = json.loads(document)
    report["left_out"] = {one["name"]: (one["reason"], one["files"]) for one in report["left_out"]}
    return IngestReport(**report, _text=text)


def look(
    files: Files,
    *,
    groups: str | Iterable[str] | None = None,
    fields: str | Iterable[str] | None = None,
    drop: str | Iterable[str] | None = None,
    namespace: str = "",
    tree: str | None = None,
    run: str | int | None = None,
    subrun: str | int | None = None,
    event: str | int | None = None,
    collections: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **_: Any,
) -> None:
    """Look whether there are files, and whether the first of them can be brought in, before a store is made for it.

    Parameters
    ----------
    files, groups, fields, drop, namespace, tree, run, subrun, event, collections, storage_options
        As in `ingest`.

    Raises
    ------
    FemtobarnError
        As of `ingest`.
    """
    numbers = [_number(*given) for given in zip(_NUMBERS, (run, subrun, event), strict=True)]
    given = _given(fields, groups, drop, namespace, tree, numbers, collections, storage_options)
    pairs = resolve(files, storage_options)
    kinds = _core.check_ingest(pairs, given)
    sources = [Source(n, *pair, kind, 0, True) for n, (pair, kind) in enumerate(zip(pairs, kinds, strict=True))]
    if kinds[0] == "hdf5":
        classes_of(sources[0].path, _choice(given, sources))


def _given(
    fields: str | Iterable[str] | None,
    groups: str | Iterable[str] | None,
    drop: str | Iterable[str] | None,
    namespace: str,
    tree: str | None,
    numbers: list[str | None],
    collections: bool,
    storage_options: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return options in the form for the core."""
    return {
        "groups": patterns("groups", groups),
        "fields": patterns("fields", fields),
        "drop": patterns("drop", drop),
        "namespace": namespace,
        "tree": tree,
        "numbers": numbers,
        "collections": collections,
        "threads": num_threads(None),
        "settings": {} if storage_options is None else settings_of(storage_options),
    }


def _number(name: str, given: Any) -> str | None:
    """Return the source of a number of events as a string."""
    if isinstance(given, SupportsIndex) and not isinstance(given, bool):
        given = str(int(given))
    if not isinstance(given, str | None):
        raise UsageError(f"{name} must be the name of a field, or a number that is not negative, not {given!r}")
    return given


def _choice(given: Mapping[str, Any], sources: list[Source]) -> Choice:
    """Return the selection for HDF5 files; raise if a pattern fits nothing in them."""
    paths = [source.path for source in sources if source.kind == "hdf5"]
    # a field may be one of the ROOT files, whose reader checks it
    is_mixed = any(source.kind == "root" and source.is_wanted for source in sources)
    choice = choice_of(given["groups"], given["fields"] or None, given["drop"], given["namespace"], given["numbers"])
    fields = () if is_mixed else choice.fields
    check_patterns(paths, Choice(choice.groups, fields, choice.drop, choice.namespace, choice.index))
    return choice


@contextlib.contextmanager
def _told_how_far(job: _core.Ingest) -> Iterator[None]:
    """Add the state of the dataset to an interruption, and issue the warnings of the core."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(job.state())
        raise
    finally:
        for is_left_out, text in job.take_warnings():
            warn_outside(text, UnreadableWarning if is_left_out else UserWarning)


def _read_hdf5(
    job: _core.Ingest, sources: list[Source], choice: Choice, in_order: bool, tick: Callable[[int, int], None]
) -> None:
    """Read HDF5 files and write their events."""
    with contextlib.closing(messages(sources, choice, job.workers, in_order=in_order)) as reading:
        for message in reading:
            part = 0
            if isinstance(message, Done):
                job.finish_file(message.number, [*message.left_out.items()], [*message.unexpected.items()])
            else:
                _write(job, message.number, message.chunk, choice)
                part = int(message.fraction * next(one.size for one in sources if one.number == message.number))
            done, total = job.progress
            tick(done + part, total)


def _write(job: _core.Ingest, number: int, chunk: Chunk, choice: Choice) -> None:
    """Write some events of an HDF5 file."""
    products = []
    for label, values in chunk.products.items():
        kind = chunk.types[label]
        with of_product(label):
            products.append((label, kind.name, kind.classes, kind.form, to_batches({label: values})))
    numbers = [np.ascontiguousarray(one, "<u8").tobytes() for one in (chunk.run, chunk.subrun, chunk.event)]
    job.write(
        number,
        numbers,
        products,
        lambda path: [*classes_of(path, choice).items()],
        lambda: check_wanted("ingesting HDF5 files"),
    )


def _check(files: Any, dataset: Any, workers: int | None) -> None:
    if not isinstance(dataset, DataSet) or not dataset.path:
        raise UsageError(
            "dataset must be a dataset of a store, e.g. store.root.create_dataset(…), not "
            f"{dataset!r}{instead(dataset, 'await aio.ingest(…)')}"
        )
    if _has_values(files):
        raise UsageError(
            f"files must be a path, a pattern, or a list of these, not {type(files).__name__}; store arrays, dicts of "
            "arrays and tables with batch.store_arrays of store.write_batch()"
        )
    if workers is not None and workers < 1:
        raise UsageError(f"workers must be 1 or more, not {workers}")


def _has_values(files: Any) -> bool:
    """Whether arrays were given instead of files."""
    if is_of_uproot(files):
        return False  # which is reported with other things that are not paths
    if isinstance(files, Mapping):
        return any(not isinstance(value, str | Mapping | None) for value in files.values())
    return any(hasattr(files, name) for name in ("__array__", "__arrow_c_stream__", "__arrow_c_array__", "layout"))
