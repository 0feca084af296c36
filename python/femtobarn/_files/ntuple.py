"""The class `NTuple`."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex
from uuid import UUID, uuid5

from femtobarn import _core as core_module
from femtobarn._files.access_log import AccessLog, access_log_of
from femtobarn._files.explain import Cluster, VerifyReport
from femtobarn._files.field import Field
from femtobarn._files.field_rows import FIELD_HEADER, field_rows
from femtobarn._files.libraries import TREES
from femtobarn._files.lumi_mask import LumiMask
from femtobarn._files.metrics import Metrics, Source
from femtobarn._files.pickled import absolute
from femtobarn._files.proof import proven, verified
from femtobarn._files.reading import Readable
from femtobarn._files.schema import Schema
from femtobarn._shared.caller import calling_function
from femtobarn._shared.optional import optional
from femtobarn._shared.progress import Progress
from femtobarn._shared.repr import format_bytes, format_table, html_list, plural, shortened, skipped_lines
from femtobarn._shared.steps import num_threads, step_entries
from femtobarn._shared.warning import warn_of_left_out, warn_outside
from femtobarn.errors import FemtobarnError, UnreadableWarning, UsageError

if TYPE_CHECKING:
    from types import TracebackType

    from femtobarn._core import Batch, BatchIterator, LazyBatch, LazyBatchIterator
    from femtobarn._files.open import Files
    from femtobarn._shared.output import Path as PathLike

__all__ = ["NTuple"]

_SHOWN = 25  # fields in a repr
_STREAM_STEP = "64 MB"  # memory per batch of the Arrow stream


def _uuid_of(path: str, state: object) -> UUID:
    """Return a UUID for a file that has none."""
    return uuid5(UUID(int=0), f"{absolute(path)} {state}")


class NTuple(Readable):
    """An RNTuple, in one file or in many; `femtobarn.open` makes it.

    It is immutable, and several threads can use it at the same time. Pickling sends its URL, not its data. On
    unpickling, the files must be unchanged, or an error of kind "file-changed" is raised. Consumers of Arrow's
    PyCapsule protocol (pyarrow, polars, pandas, DuckDB) accept it directly, as a stream of its entries.

    Examples
    --------
    >>> import femtobarn as fb
    >>> nt = fb.open(dimuon)
    >>> nt.name, "Muon_pt" in nt
    ('Events', True)
    """

    def __init__(
        self,
        core: core_module.NTuple,
        *,
        threads: int | None = None,
        progress: bool | None = None,
        reopen: Mapping[str, Any] | None = None,
        attribute_of: tuple[NTuple, str] | None = None,
        since: tuple[float, float] | None = None,
    ) -> None:
        if not isinstance(core, core_module.NTuple):
            raise UsageError("NTuple cannot be instantiated: use fb.open")
        self._opened: core_module.NTuple | None = core
        self._default_threads = threads
        self._final_metrics: Metrics | None = None
        self._final_sources: tuple[Source, ...] = ()
        self._since = since or (time.monotonic(), time.process_time())
        self._progress = progress
        self._reopen = dict(reopen or {})
        self._attribute_of = attribute_of
        self._lock = threading.Lock()
        self._known_schema: Schema | None = None
        self._num_unreadable = 0  # how many unreadable fields were warned about
        self._is_told = False  # whether fields missing in a copy were warned about
        self._known_lacking: list[tuple[str, str]] | None = None  # missing fields that no read has warned about
        self._known_sizes: dict[int, dict[str, Any]] | None = None
        self._accesses: dict[tuple[str, str | None], core_module.Accesses] = {}  # by function and directory
        self._known_counters: frozenset[str] | None = None
        self._pages: core_module.SharedPages | None = None  # of pieces that other processes read
        self._id = None
        if threads is not None:
            num_threads(threads)

    # -- properties --------------------------------------------------------------------------------------

    @property
    def ntuple(self) -> NTuple:
        """The ntuple itself, as for a field."""
        return self

    @property
    def name(self) -> str:
        """The name of the ntuple in its header."""
        return self._core.name

    @property
    def description(self) -> str:
        """The description from the writer."""
        return self._core.description

    @property
    def version(self) -> str:
        """The version of the format, as "1.0.0.1"; for a tree its class, "TTree"."""
        return self._core.version

    @property
    def writer(self) -> str:
        """The program that wrote the ntuple, as "ROOT v6.40.00"."""
        return self._core.writer

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """The path of each file, and the name of the ntuple in it."""
        return tuple((path, name) for path, name in self._core.files)

    @property
    def file_path(self) -> str:
        """The path of the first file."""
        return self._core.files[0][0] if self._core.files else ""

    @property
    def object_path(self) -> str:
        """The name of the ntuple in the first file."""
        return self._core.files[0][1] if self._core.files else ""

    @property
    def uuid(self) -> UUID:
        """The UUID in the header of the file; of several files a digest of all their UUIDs, in their order.

        A copy of a file has the same one. Many files have none, as those of ROOT's `RNTupleWriter.Recreate`: theirs is
        made of the path, the size, and the time of the last change or the entity tag.

        Examples
        --------
        >>> import femtobarn as fb
        >>> fb.open(dimuon).uuid == fb.open(dimuon).uuid
        True
        """
        files = zip(self._core.uuids(), self._core.origins(), self._core.states(), strict=True)
        known = [own if any(own) else _uuid_of(path, state).bytes for own, (path, _), state in files]
        return UUID(bytes=known[0]) if len(known) == 1 else uuid5(UUID(int=0), b"".join(known).hex())

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """The clusters of all files, in entry order.

        Examples
        --------
        >>> import femtobarn as fb
        >>> [cluster.num_entries for cluster in fb.open(dimuon).clusters]
        [4000, 4000, 4000]
        """
        return tuple(Cluster._from_core(cluster) for cluster in self._core.clusters(details=True))

    @property
    def skipped(self) -> tuple[tuple[str, str], ...]:
        """Fields that are skipped, and why: their type is unknown, or not all files have them. No other list has them.

        Some branches of trees turn out to be unreadable only when they are read; then they are added here.
        """
        return tuple((field, reason) for field, reason in self._core.skipped())

    @property
    def metrics(self) -> Metrics:
        """What was read since the ntuple was opened; also available after it is closed.

        Examples
        --------
        >>> import femtobarn as fb
        >>> nt = fb.open(dimuon)
        >>> _ = nt.arrays(["nMuon"])
        >>> nt.metrics.bytes_read > 0
        True
        """
        if self._final_metrics is not None:
            return self._final_metrics
        real, cpu = time.monotonic() - self._since[0], time.process_time() - self._since[1]
        return Metrics._from_core({**self._core.metrics(real, cpu), "real_seconds": real, "cpu_seconds": cpu})

    @property
    def sources(self) -> tuple[Source, ...]:
        """The servers that the files are read from, with their state; also available after the ntuple is closed.

        Examples
        --------
        >>> import femtobarn as fb
        >>> [source.state for source in fb.open(dimuon).sources]
        ['active']
        """
        if self._final_metrics is not None:
            return self._final_sources
        return tuple(Source._from_core(source) for source in self._core.sources())

    @property
    def access_log(self) -> tuple[AccessLog, ...]:
        """What each function has touched of virtual arrays of this ntuple, and what it has cost.

        Functions share what they have learned with all ntuples of the same schema; the numbers are of this process.
        What other processes touch, as with ``process(…, executor="processes")``, is not in the log.

        Examples
        --------
        >>> import femtobarn as fb
        >>> nt = fb.open(dimuon)
        >>> _ = nt.arrays(virtual=True).nMuon + 1
        >>> [log.main for log in nt.access_log]
        [('_collection0[]',)]
        """
        with self._lock:
            known = list(self._accesses.items())
        return tuple(access_log_of(accesses, function) for (function, _), accesses in known)

    @property
    def attributes(self) -> dict[str, NTuple]:
        """The attribute sets by name. An attribute set is a small ntuple that describes ranges of entries.

        Examples
        --------
        >>> import femtobarn as fb
        >>> fb.open(dimuon).attributes
        {}
        """
        return _AttributeSets(
            (name, NTuple(opened, threads=self._default_threads, progress=self._progress, attribute_of=(self, name)))
            for name, opened in self._core.attributes()
        )

    def form(self, fields: str | Iterable[str] | None = None) -> Any:
        """Return the Awkward form of fields, without reading any page.

        Parameters
        ----------
        fields : str or iterable of str, optional
            Names, paths or patterns of the fields, as for `arrays`; by default all fields.

        Returns
        -------
        ak.forms.RecordForm
            The form that `arrays` returns. Branches of a TTree that turn out to be unreadable when they are read are
            still in it.

        Raises
        ------
        KeyNotFoundError
            If a name matches no field; the message lists the nearest names.

        Examples
        --------
        >>> import femtobarn as fb
        >>> print(fb.open(dimuon).form(["nMuon", "Muon_pt"]).type)
        {nMuon: int64, Muon_pt: var * float32}
        """
        optional("awkward", "all")
        from femtobarn._files.virtual_arrays import form_of

        paths = self._paths(fields, None, None, None, None)
        self._warn_of_lacking(paths, fields, None)
        reader = self._core.lazy(paths, self._core.accesses("", learns=False))
        return form_of(reader.read(0, 0), self.version in TREES)

    def verify(
        self,
        *,
        against: Files | None = None,
        values: bool = False,
        entries: slice | range | tuple[int | None, int | None] | None = None,
        where: str | LumiMask | None = None,
        fields: str | Iterable[str] | Sequence[str | Iterable[str] | None] | None = None,
        since: SupportsIndex | None = None,
        beside: bool = False,
        on: str | Iterable[str] | None = None,
        unmatched: str | None = None,
        threads: int | None = None,
    ) -> VerifyReport:
        """Check all checksums of metadata and pages, and optionally compare the ntuple with its inputs.

        All pages are read from the servers of the files, also those that a cache has.

        Parameters
        ----------
        against : str, path, dict or list, optional
            The inputs of the merge or copy that made this ntuple, as for `merge`. Its entries must be the entries of
            the inputs, one after another, in the fields that it has. Pages with equal checksums are equal; other pages
            (recompressed, encoded anew, rebuilt) are compared by value, bit by bit.
        values : bool
            Whether to compare all values, also of pages with equal checksums.
        entries : slice, range or pair of int, optional
            The entries of each input that the ntuple must have, with step 1; by default all.
        where : str or LumiMask, optional
            A condition that selects the entries of each input that the ntuple must have.
        fields : str or list of str, optional
            The top-level fields to compare; ``*`` and ``?`` are wildcards. By default all. With `beside`, a list with
            an item for each input, as for `join_columns`.
        since : int, optional
            The first entry that comes from the inputs: after an append, the previous number of entries. By default 0.
        beside : bool
            Whether the inputs are side by side, as after `join_columns`, instead of one after another.
        on : str or list of str, optional
            With `beside`, the fields that match entries to each other; by default the entry numbers do.
        unmatched : str, optional
            With `beside`, how entries of the first input without a match in another one were treated: "error", which
            is the default, or "drop".
        threads : int, optional
            Number of threads; by default that of `femtobarn.open`.

        Returns
        -------
        VerifyReport
            The damage found, the fields and entries that it affects, and the differences from the inputs.

        Examples
        --------
        >>> import femtobarn as fb
        >>> fb.open(dimuon).verify().ok
        True
        >>> _ = fb.clone(dimuon, tmp / "copy.root")
        >>> report = fb.open(tmp / "copy.root").verify(against=dimuon)
        >>> report.ok, report.against["by_value"]
        (True, [])
        """
        where = str(where) if isinstance(where, LumiMask) else where
        given = {"values": values or None, "entries": entries, "where": where, "fields": fields, "since": since}
        given |= {"beside": beside or None, "on": on, "unmatched": unmatched}
        if against is None and any(option is not None for option in given.values()):
            raise UsageError(f"{', '.join(given)} need the inputs: pass them as against=")
        with Progress(f"verifying {self.name}", self._progress) as progress:
            found = verified(self._uncached().verify(threads=self._threads(threads), tick=progress.tick))
        if against is not None:
            with Progress(f"comparing {self.name}", self._progress) as progress:
                given["damaged"] = [damage["field"] for damage in found["damages"]]
                found |= proven(self, against, given, self._threads(threads), progress)
        return VerifyReport._from_core(found)

    # -- Arrow ---------------------------------------------------------------------------------------------

    def __arrow_c_schema__(self) -> object:
        """Return the Arrow schema of all fields as a PyCapsule.

        No page is read; of trees only the first objects are read, to find out whether they are readable.
        """
        schema = self._core.arrow_schema()
        self._warn_of_unreadable()
        return schema

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a stream of all entries as a PyCapsule.

        Parameters
        ----------
        requested_schema : PyCapsule, optional
            The schema that the consumer prefers; it is ignored, as there is only one.

        Returns
        -------
        PyCapsule
            A stream of record batches, each read when the consumer requests it.
        """
        core = self._core
        n_entries = core.num_entries
        step = step_entries(_STREAM_STEP, core.decoded_bytes(None, 0, n_entries), n_entries)
        stream = core.arrow_stream(None, 0, n_entries, step, threads=self._threads(None))
        self._warn_of_unreadable()
        return stream

    # -- closing and pickling ----------------------------------------------------------------------------

    def close(self) -> None:
        """Close the files; arrays that were read stay valid.

        Arrays of uncompressed columns may use the memory-mapped file as long as they exist. Do not overwrite or
        truncate a file before they are gone, or open it with ``memory_map=False``.

        Examples
        --------
        >>> import femtobarn as fb
        >>> with fb.open(dimuon) as nt:
        ...     run = nt["run"].array()
        >>> len(run)
        12000
        """
        if self._opened is not None:
            self._final_metrics, self._final_sources = self.metrics, self.sources
            self._opened = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._attribute_of is not None:
            return _reopen_attribute, self._attribute_of
        files = [(absolute(path), name) for path, name in self._core.origins()]
        return _reopen, (files, self._default_threads, self._progress, self._reopen, self._core.states())

    def _uncached(self) -> core_module.NTuple:
        """Return what reads all bytes from servers, not those that a cache has of them."""
        files: list[tuple[str, str | None]] = [*self._core.origins()]
        if self._attribute_of is not None or not any("://" in path for path, _ in files):
            return self._core
        options = self._reopen | {"settings": self._reopen.get("settings", {}) | {"cache": "off"}}
        return core_module.NTuple.open(files, states=self._core.states(), **options)

    def _options(self) -> bytes:
        """Return how the files were opened, for `pickled.opened_files`."""
        return pickle.dumps((self._default_threads, self._progress, self._reopen))

    # -- display -----------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        if self._opened is None:
            return "<NTuple (closed)>"
        rows, more = self._table(_SHOWN)
        lines = [self._summary()]
        if rows:
            lines.append(format_table(FIELD_HEADER, rows, right=(3,), max_cell=40))
        if more:
            lines.append(f"… and {plural(more, 'field')} more: show() lists all")
        lines += self._skipped_lines()
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        import html

        if self._opened is None:
            return "<p>NTuple (closed)</p>"
        rows, _ = self._table(None)
        skipped = "".join(f"<p>{html.escape(line)}</p>" for line in self._skipped_lines())
        return f"<p>{html.escape(self._summary())}</p>{html_list(FIELD_HEADER, rows, right=(3,))}{skipped}"

    def _skipped_lines(self) -> list[str]:
        skipped = self.skipped
        lines = skipped_lines(skipped[:_SHOWN])
        if len(skipped) > _SHOWN:
            lines.append(f"… and {plural(len(skipped) - _SHOWN, 'skipped field')} more: show() lists all")
        return lines

    def _table(self, most: int | None) -> tuple[list[Any], int]:
        """Return the rows of the first fields, and the number of the others."""
        top = self._schema.visible_children(None)
        rows = field_rows(self._schema, top[:most], self._column_sizes(), None)
        return rows, len(top) - len(top[:most])

    def _summary(self) -> str:
        files = self._core.files
        where = files[0][0] if len(files) == 1 else plural(len(files), "file")
        parts = [plural(self.num_entries, "entry"), plural(len(self), "field"), where]
        sizes = self._column_sizes()
        if sizes:
            parts.insert(2, format_bytes(sum(size["bytes_on_disk"] for size in sizes.values())))
        return f"{self.name}: {', '.join(parts)}"

    # -- internals ---------------------------------------------------------------------------------------

    @property
    def _core(self) -> core_module.NTuple:
        if self._opened is None:
            raise UsageError("the ntuple is closed: open it again")
        return self._opened

    @property
    def _schema(self) -> Schema:
        if self._known_schema is None:
            with self._lock:
                if self._known_schema is None:
                    where, files = self._where(), self._core.files
                    known = self._core.fields(), where, self._core.skipped(), files, self._core.aliases()
                    self._known_schema = Schema(*known)
        return self._known_schema

    def _take_schema(self, other: NTuple) -> None:
        """Reuse the schema of another ntuple, if this one has the same."""
        known = other._known_schema
        if known is not None and self._known_schema is None and self._core.is_alike(other._core):
            self._known_schema = known.elsewhere(self._where(), self._core.files)

    def _counters(self) -> frozenset[str]:
        """Return the names of collections that have a counter, as "Muon" for the field nMuon."""
        if self._known_counters is None:
            names = self._core.keys()
            self._known_counters = frozenset(name[1:] for name in names if name.startswith("n") and "." not in name)
        return self._known_counters

    def _where(self) -> str:
        return f"{self.name!r}" + (f" ({self.file_path})" if self.file_path else "")

    def _column_sizes(self) -> dict[int, dict[str, Any]]:
        """Return sizes by column; an empty dict if page lists cannot be read, so that the table is still shown."""
        if self._known_sizes is None:
            try:
                self._known_sizes = self._core.column_sizes()
            except FemtobarnError:
                return {}
        return self._known_sizes

    def _field(self, i: int) -> Field:
        return Field(self, i)

    def _threads(self, threads: int | None) -> int:
        return num_threads(self._default_threads if threads is None else threads)

    def _read(
        self,
        paths: list[str] | None,
        entry_start: int,
        entry_stop: int,
        threads: int | None,
        named: bool = True,
        pages: core_module.SharedPages | None = None,
    ) -> Batch:
        options: dict[str, Any] = {"threads": self._threads(threads), "named": named, "pages": pages}
        with Progress(f"reading {self.name}", self._progress) as progress:
            batch = self._core.read(paths, entry_start, entry_stop, **options, tick=progress.tick)
        self._warn_of_unreadable()
        return batch

    def _read_query(self, query: core_module.QueryReader, entry_start: int, entry_stop: int) -> Batch:
        with Progress(f"reading {self.name}", self._progress) as progress:
            batch = query.read(entry_start, entry_stop, tick=progress.tick)
        self._warn_of_unreadable()
        return batch

    def _lazy_reader(
        self,
        paths: list[str] | None,
        threads: int | None,
        virtual: bool,
        record: PathLike | Literal[False] | None,
        function: str | None = None,
        pages: core_module.SharedPages | None = None,
    ) -> core_module.LazyReader | None:
        """Return what reads columns when they are touched, for a function; None if they are read at once."""
        if not virtual:
            if record is not None:
                raise UsageError("record keeps what virtual arrays touch: add virtual=True")
            return None
        if isinstance(record, bool) and record:
            raise UsageError("record=True: give a directory, or False to learn nothing")
        directory = str(Path(record).absolute()) if record else None
        function = calling_function() if function is None else function
        accesses = self._core.accesses(function, directory, learns=record is not False)
        with self._lock:
            self._accesses[function, directory] = accesses
        return self._core.lazy(paths, accesses, threads=self._threads(threads), pages=pages)

    def _watched(self, batches: BatchIterator | LazyBatchIterator) -> Iterator[Batch | LazyBatch]:
        """Yield batches, and warn about fields that turn out to be unreadable."""
        try:
            for batch in batches:
                self._warn_of_unreadable()
                yield batch
                del batch
        finally:
            self._warn_of_unreadable()

    def _warn_of_unreadable(self) -> None:
        """Warn about fields that were found to be unreadable since the last call. They are skipped from now on."""
        if self._opened is None:
            return
        with self._lock:
            new = self._opened.unreadable()[self._num_unreadable :]
            self._num_unreadable += len(new)
            if new:
                self._known_schema = None
        for field, reason in new:
            warn_outside(f"field {field!r} of {self.name!r} is skipped: {reason}", UnreadableWarning)

    def _untold_lacking(self) -> list[tuple[str, str]]:
        """Return the fields that not all files have and no read has warned about, with the reasons."""
        with self._lock:
            if self._known_lacking is None:
                self._known_lacking = self._core.lacking()
            return self._known_lacking

    def _tell_lacking(self, is_wanted: Callable[[str], bool]) -> None:
        """Warn, once for each field, that a read leaves it out because not all files have it."""
        new: list[tuple[str, str]] = []
        rest: list[tuple[str, str]] = []
        self._untold_lacking()
        with self._lock:
            for found in self._known_lacking or ():
                (new if is_wanted(found[0]) else rest).append(found)
            self._known_lacking = rest
        if new:
            told = shortened([f"{field!r} ({why})" for field, why in new])
            warn_outside(f"not all files of {self.name!r} have the same fields; left out: {told}", UnreadableWarning)

    def _warn_of_left_out(self) -> None:
        """Warn once about fields that a copy leaves out. Branches that are unreadable only on reading warn later."""
        if self._is_told:
            return
        self._is_told = True
        found = {field for field, _ in self._core.unreadable()}
        known = [(field, reason) for field, reason in self.skipped if field not in found]
        warn_of_left_out(known, ":".join(self.files[0]), "written", "ntuple")


class _AttributeSets(dict[str, NTuple]):
    """A dict whose repr has one line for each ntuple, not a table."""

    def __repr__(self) -> str:
        return "{" + ",\n ".join(f"{name!r}: <NTuple {nt._summary()}>" for name, nt in self.items()) + "}"


def _reopen(
    files: list[tuple[str, str | None]],
    threads: int | None,
    progress: bool | None,
    options: dict[str, Any],
    states: list[tuple[int, int | None, str | None]] | None = None,
) -> NTuple:
    """Reopen files, which must be unchanged if their states are given."""
    opened = core_module.NTuple.open(files, states=states, **options)
    return NTuple(opened, threads=threads, progress=progress, reopen=options)


def _reopen_attribute(ntuple: NTuple, name: str) -> NTuple:
    return ntuple.attributes[name]
