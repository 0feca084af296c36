"""Reading many files: `iterate` and `concatenate`, as in uproot."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias

from femtobarn._files.bad_files import BadFiles, SkipBadFiles, none_left
from femtobarn._files.filesets import Source, check_same, metadata_of, ranges_of, sources_of
from femtobarn._files.libraries import grouping, regularize
from femtobarn._files.ntuple import NTuple
from femtobarn._files.open import Files, Opening, open_pairs
from femtobarn._files.pieces import AHEAD, How, Piece, begin_ahead, give, pieces_of
from femtobarn._files.queries import Conditions, conditions
from femtobarn._files.reading import without_reports
from femtobarn._shared.caller import calling_function
from femtobarn._shared.compat import check_read_options, split_open_options
from femtobarn._shared.repr import shortened
from femtobarn._shared.steps import check_step_size, num_threads
from femtobarn._shared.warning import warn_outside
from femtobarn.errors import KeyNotFoundError, UnreadableWarning, UsageError

if TYPE_CHECKING:
    from types import ModuleType

    from femtobarn._files.field import Field
    from femtobarn._files.filters import Filter
    from femtobarn._files.lumi_mask import LumiMask
    from femtobarn._files.report import Report
    from femtobarn._shared.output import Path as PathLike

__all__ = ["File", "Line", "Request", "concatenate", "iterate"]


def iterate(
    files: Files | NTuple,
    expressions: str | Iterable[str] | None = None,
    cut: str | LumiMask | Mapping[str, str | LumiMask] | None = None,
    *,
    filter_name: Filter = None,
    filter_typename: Filter = None,
    filter_field: Callable[[Field], Any] | None = None,
    filter_branch: Callable[[Field], Any] | None = None,
    aliases: Mapping[str, str | LumiMask] | None = None,
    step_size: str | SupportsIndex = "100 MB",
    library: str | ModuleType = "ak",
    how: Any = None,
    ak_add_doc: bool | dict[str, str] = False,
    report: bool = False,
    virtual: bool = False,
    record: PathLike | Literal[False] | None = None,
    allow_missing: bool = False,
    skip_bad_files: SkipBadFiles = False,
    threads: int | None = None,
    prefetch: bool = True,
    **options: Any,
) -> Iterator[Any]:
    """Read many files in steps, and open the next files meanwhile.

    Parameters
    ----------
    files : str, path, dict, list or NTuple
        The files, as for `open`; a list may contain open ntuples. Or a fileset of coffea, from datasets to their files:
        ``{dataset: [path, …]}`` or ``{dataset: {"files": {path: name of the ntuple}, "metadata": {…}}}``. Instead of
        the name, ``{"object_path": name, "steps": [[start, stop], …]}`` reads only some ranges of entries.
    expressions, cut, filter_name, filter_typename, filter_field, filter_branch, aliases
        The fields, computed columns and entries, as for `NTuple.arrays`. A dict of cuts is for some datasets of a
        fileset: ``cut={"data": fb.lumi_mask("golden.json")}``.
    step_size : int or str
        Number of entries per step, or the memory per step, as "100 MB". A step never crosses the end of a file.
    library, how, ak_add_doc, virtual, record, threads
        As for `NTuple.iterate`.
    report : bool
        Whether to return a `Report` with each step. Its global entries count over all files.
    allow_missing : bool
        Whether to skip files without the ntuple.
    skip_bad_files : bool or list
        Whether to leave out files that cannot be read, with a warning for each. A list gets a `BadFile` for each.
    prefetch : bool
        Whether to read the next step while the current one is in use, which takes the memory of two steps. If files
        are smaller than a step, the first steps of several files are read.
    **options
        Options of `open`, such as `cache`.

    Returns
    -------
    iterator
        Yields the same as `NTuple.arrays`; with `report`, a tuple of that and the report. Awkward Arrays are
        `EntryBatch`, which know their dataset, file and entries, as reports do.

    Raises
    ------
    NotFoundError
        If a file does not exist.
    KeyNotFoundError
        If a file has no such field; or no such ntuple, unless `allow_missing`.
    FileError
        If all files were left out by `skip_bad_files`.

    See Also
    --------
    NTuple.iterate : The same for one ntuple.

    Examples
    --------
    >>> import femtobarn as fb
    >>> files = {dimuon: "Events"}
    >>> sum(len(events) for events in fb.iterate(files, ["nMuon"], step_size=5000))
    12000
    """
    opening, reading = split_open_options(options)
    if "entry_start" in reading or "entry_stop" in reading:
        raise UsageError("fb.iterate reads whole files: use fb.open(files).iterate for entry_start and entry_stop")
    check_read_options(reading)
    check_step_size(step_size)
    if expressions is not None and not isinstance(expressions, str):
        expressions = list(expressions)
    request = Request(
        (expressions, filter_name, filter_typename, filter_field, filter_branch, grouping(library, how)),
        conditions(cut, aliases, metadata_of(files)),
        (regularize(library), how, ak_add_doc),
        step_size,
        num_threads(threads) if threads is not None else None,
        prefetch,
        (virtual, record, calling_function()),
    )
    opening["allow_missing"] = allow_missing
    line = Line(sources_of(files, opening.get("storage_options")), opening, request, BadFiles(skip_bad_files))
    return _iterate(line, report)


def concatenate(
    files: Files | NTuple,
    expressions: str | Iterable[str] | None = None,
    cut: str | LumiMask | None = None,
    *,
    filter_name: Filter = None,
    filter_typename: Filter = None,
    filter_field: Callable[[Field], Any] | None = None,
    filter_branch: Callable[[Field], Any] | None = None,
    aliases: Mapping[str, str | LumiMask] | None = None,
    entry_start: SupportsIndex | None = None,
    entry_stop: SupportsIndex | None = None,
    library: str | ModuleType = "ak",
    how: Any = None,
    ak_add_doc: bool | dict[str, str] = False,
    allow_missing: bool = False,
    skip_bad_files: SkipBadFiles = False,
    threads: int | None = None,
    **options: Any,
) -> Any:
    """Read many files into one array.

    The files are opened as one ntuple and read at once, directly into the final arrays.

    Parameters
    ----------
    files : str, path, dict, list or NTuple
        The files, as for `open` or, of a fileset without steps, as for `iterate`; a list may contain open ntuples.
    expressions, cut, filter_name, filter_typename, filter_field, filter_branch, aliases
        The fields, computed columns and entries, as for `NTuple.arrays`.
    entry_start, entry_stop : int, optional
        First entry, and the one after the last, counted over all files.
    library, how, ak_add_doc, threads
        As for `NTuple.arrays`.
    allow_missing : bool
        Whether to skip files without the ntuple.
    skip_bad_files : bool or list
        Whether to leave out files that cannot be opened, with a warning for each. A list gets a `BadFile` for each.
        Damage that is found later, while fields are read, is always an error.
    **options
        Options of `open`, such as `cache`.

    Returns
    -------
    ak.Array, dict, pyarrow.Table, pandas.DataFrame, polars.DataFrame or Batch
        The same as `NTuple.arrays` returns.

    Raises
    ------
    NotFoundError
        If a file does not exist.
    KeyNotFoundError
        If a file has no such ntuple or field.
    FormatError
        If the fields have different types in different files.

    Examples
    --------
    >>> import femtobarn as fb
    >>> len(fb.concatenate([f"{dimuon}:Events", f"{dimuon}:Events"], ["nMuon"]))
    24000
    """
    opening, reading = split_open_options(options)
    sources = sources_of(files, opening.get("storage_options"))
    if any(source.steps is not None for source in sources):
        raise UsageError("fb.concatenate reads whole files: use fb.iterate for a fileset with steps")
    first = sources[0].of
    if len(sources) == 1 and isinstance(first, NTuple):
        nt = first
    else:
        pairs: list[tuple[str, str | None]] = []
        for source in sources:
            pairs += source.of._core.origins() if isinstance(source.of, NTuple) else [source.of]
        nt = open_pairs(pairs, allow_missing=allow_missing, bad_files=BadFiles(skip_bad_files), **opening)
    return nt.arrays(
        expressions,
        cut,
        filter_name=filter_name,
        filter_typename=filter_typename,
        filter_field=filter_field,
        filter_branch=filter_branch,
        aliases=aliases,
        entry_start=entry_start,
        entry_stop=entry_stop,
        library=library,
        how=how,
        ak_add_doc=ak_add_doc,
        threads=threads,
        **reading,
    )


@dataclass(frozen=True)
class Request:
    """The fields and options that are requested of each file."""

    fields: tuple[Any, ...]
    conditions: Conditions
    output: tuple[Any, ...]
    step_size: str | SupportsIndex | Callable[[NTuple, list[str] | None], int]
    threads: int | None = None
    prefetch: bool = True
    # whether arrays are virtual, the directory of records, the function
    lazy: tuple[bool, PathLike | Literal[False] | None, str] = (False, None, "")

    def of(self, nt: NTuple, global_offset: int, source: Source) -> How:
        """Return the request for one ntuple."""
        expressions, *filters = self.fields
        given = self.conditions.of(source.dataset)
        wanted, paths = nt._wanted(expressions, given, tuple(filters))
        output = nt._output(paths, *self.output, virtual=self.lazy[0])
        query = nt._query(paths, wanted, given, tuple(filters), self.threads, virtual=self.lazy[0])
        lazy = nt._lazy_reader(paths, self.threads, *self.lazy)
        nt._warn_of_lacking(paths, wanted.fields, filters[0])
        named = nt._is_named(expressions)
        step_size = self.step_size(nt, paths) if callable(self.step_size) else self.step_size
        how = nt._how(paths, output, step_size, self.threads, self.prefetch, named, global_offset, lazy, query)
        return how if source.dataset is None else replace(how, dataset=source.dataset, metadata=source.metadata)


def _iterate(line: Line, report: bool) -> Iterator[Any]:
    try:
        while (file := line.next()) is not None:
            steps = line.steps(file)
            del file
            yield from steps if report else without_reports(steps)
            del steps
    finally:
        line.close()


_Prepared: TypeAlias = "tuple[How, deque[Piece]]"


@dataclass
class File:
    """A file that is opened, possibly in advance."""

    source: Source
    opening: Opening | None = None
    prepared: _Prepared | None = None  # also None for a file that is left out
    is_prepared: bool = False
    error: Exception | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the file can be prepared without waiting for a server."""
        is_open = isinstance(self.source.of, NTuple) or (self.opening is not None and self.opening.is_done())
        return self.is_prepared or (is_open and self.error is None)

    @property
    def how(self) -> How:
        """How the file is read."""
        assert self.prepared is not None, "only files that are not left out are returned"
        return self.prepared[0]


class Line:
    """A queue of files. The next files are opened and their first steps are read in advance; read files are dropped.

    Parameters
    ----------
    sources : list of Source
        The files.
    options : dict
        Options of `open`.
    request : Request
        What to read of each.
    bad_files : BadFiles
        Gets the files that are left out.
    """

    def __init__(self, sources: list[Source], options: dict[str, Any], request: Request, bad_files: BadFiles) -> None:
        self._is_alone = len(sources) < 2
        self._sources = iter(sources)
        self._options = options
        self._request = request
        self._bad_files = bad_files
        self._n_good = 0
        self._files: deque[File] = deque()
        self._offset = 0  # entries of all prepared files
        self._last: NTuple | None = None
        self._in: str | None = None  # the dataset of the file that was prepared last
        self._begin_dataset()

    def _begin_dataset(self) -> None:
        self._implied: str | None = None  # the ntuple name if it was not given; must be the same in all files
        self._first: tuple[str, frozenset[str]] | None = None  # a file, and the fields that are read from it
        self._told: set[str] = set()  # missing fields that were warned about
        self._named: dict[str, str] = {}  # the paths of the requested names; must be the same in all files

    def next(self) -> File | None:
        """Return the next file that is not left out, with its pieces to read."""
        while True:
            self._open_ahead()
            if not self._files:
                if not self._n_good and self._bad_files.found:
                    raise none_left(self._bad_files)
                return None
            file = self._files[0]
            prepared = self._prepare(file)
            self._files.popleft()
            if prepared is not None:
                self._n_good += 1
                return file

    def steps(self, file: File, *, skips: bool = True) -> Iterator[tuple[Any, Report]]:
        """Yield the steps of a file; if bad files are skipped, not those from the first one that cannot be read."""
        assert file.prepared is not None, "only files that are not left out are returned"
        (how, pieces), source = file.prepared, file.source
        file.prepared = None  # its memory is that of the steps
        done = 0
        try:
            for step, report in give(how, pieces, (0, how.nt.num_entries), functools.partial(self.advance, pieces)):
                done = report.tree_entry_stop
                handed_over = [step]
                del step
                yield handed_over.pop(), report
        except Exception as error:
            if not (skips and self._bad_files.skips(source.path, error, source.dataset, done)):
                raise

    def advance(self, own: deque[Piece], pending: int) -> None:
        """Start reading the next pieces of this ntuple and of the next files, up to the allowed number."""
        self._open_ahead()
        step_size = self._request.step_size
        begin_ahead(self._coming(own), pending, 0 if callable(step_size) else step_size)

    def close(self) -> None:
        """Cancel everything that is still pending."""
        for file in self._files:
            if file.opening is not None:
                file.opening.stop()
        self._files.clear()
        self._last = None

    def _open_ahead(self) -> None:
        for source in itertools.islice(self._sources, AHEAD + 1 - len(self._files)):
            in_background = not (self._is_alone or isinstance(source.of, NTuple))
            opening = Opening([source.of], **self._options) if in_background else None  # type: ignore[list-item]
            self._files.append(File(source, opening))

    def _coming(self, own: deque[Piece]) -> Iterator[tuple[Piece, bool]]:
        for piece in own:
            yield piece, True
        for file in self._files:
            if not file.is_ready:
                return
            try:
                prepared = self._prepare(file)
            except Exception as error:  # raised when the file is next
                file.error = error
                return
            if prepared is None:
                continue
            pieces = prepared[1]
            if pieces:
                yield pieces[0], False
            if len(pieces) > 1:
                # only after the first read it is known which fields of the other files can be read
                return

    def _prepare(self, file: File) -> _Prepared | None:
        """Open a file and prepare its reads; None if it is left out. Called in file order."""
        if file.error is not None:
            raise file.error
        if file.is_prepared:
            return file.prepared
        source = file.source
        try:
            nt = self._opened(file)
            if nt.files:
                check_same(source.path, nt, source.num_entries, source.uuid)
            ranges = ranges_of(source, nt.num_entries) if nt.files else ()
        except Exception as error:
            if not self._bad_files.skips(source.path, error, source.dataset):
                raise
            file.is_prepared = True
            return None
        file.is_prepared = True
        if not nt.files:
            return None
        if source.dataset != self._in:
            self._begin_dataset()  # data and simulation have other fields
            self._in = source.dataset
        if isinstance(source.of, tuple) and source.of[1] is None:
            self._implied = self._implied or nt.object_path
            if nt.object_path != self._implied:
                raise UsageError(
                    f"{nt.file_path} has the ntuple {nt.object_path!r}, but earlier files have {self._implied!r}: "
                    "add the name, as in 'file.root:Events'"
                )
        if self._last is not None:
            nt._take_schema(self._last)
        self._last = nt
        how = self._request.of(nt, self._offset, source)
        _check_meaning(nt, self._request.fields[0], self._named)
        self._compare(nt, how.paths)
        file.prepared = how, deque(itertools.chain.from_iterable(pieces_of(how, entries) for entries in ranges))
        self._offset += nt.num_entries
        return file.prepared

    def _compare(self, nt: NTuple, paths: list[str] | None) -> None:
        """Warn if a file has other fields than the first one."""
        if self._is_alone:
            return
        fields = nt._schema.below(paths)
        if self._first is None:
            self._first = nt.file_path, fields
        first, known = self._first
        for has, lacks, differs in ((first, nt.file_path, known - fields), (nt.file_path, first, fields - known)):
            told = sorted(differs - self._told)
            self._told |= differs
            if told:
                warn_outside(
                    f"the fields differ between files: {lacks} has no {shortened([*map(repr, told)])}, but {has} "
                    "has; fb.concatenate and fb.open(files).iterate read only fields that all files have",
                    UnreadableWarning,
                )

    def _opened(self, file: File) -> NTuple:
        of = file.source.of
        if isinstance(of, NTuple):
            return of
        return open_pairs([of], **self._options) if file.opening is None else file.opening.result()


def _check_meaning(nt: NTuple, expressions: str | Iterable[str] | None, named: dict[str, str]) -> None:
    """Raise if a name of a top-level field in one file is the name of a nested field in another file."""
    names = [expressions] if isinstance(expressions, str) else expressions if isinstance(expressions, list) else []
    for name in names:
        found = nt._schema.find_all(name)
        if len(found) == 1:
            path = nt._schema.path(found[0])
            if named.setdefault(name, path) != path:
                raise KeyNotFoundError(
                    f"no field {named[name]!r} in {nt.file_path}; {name!r} would be {path!r} there",
                    kind="no-such-field",
                )
