"""Reading many files: `iterate` and `concatenate`, as in uproot."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias

from femtobarn._files.libraries import regularize
from femtobarn._files.ntuple import NTuple
from femtobarn._files.open import Files, Opening, open_pairs, resolve
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
    from femtobarn._shared.output import Path as PathLike

__all__ = ["concatenate", "iterate"]

_Source: TypeAlias = "NTuple | tuple[str, str | None]"


def iterate(
    files: Files | NTuple,
    expressions: str | Iterable[str] | None = None,
    cut: str | LumiMask | None = None,
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
    threads: int | None = None,
    prefetch: bool = True,
    **options: Any,
) -> Iterator[Any]:
    """Read many files in steps, and open the next files meanwhile.

    Parameters
    ----------
    files : str, path, dict, list or NTuple
        The files, as for `open`; a list may contain open ntuples.
    expressions, cut, filter_name, filter_typename, filter_field, filter_branch, aliases
        The fields, computed columns and entries, as for `NTuple.arrays`.
    step_size : int or str
        Number of entries per step, or the memory per step, as "100 MB". A step never crosses the end of a file.
    library, how, ak_add_doc, virtual, record, threads
        As for `NTuple.iterate`.
    report : bool
        Whether to return a `Report` with each step. Its global entries count over all files.
    allow_missing : bool
        Whether to skip files without the ntuple.
    prefetch : bool
        Whether to read the next step while the current one is in use, which takes the memory of two steps. If files
        are smaller than a step, the first steps of several files are read.
    **options
        Options of `open`, such as `cache`.

    Returns
    -------
    iterator
        Yields the same as `NTuple.arrays`; with `report`, a tuple of that and the report.

    Raises
    ------
    NotFoundError
        If a file does not exist.
    KeyNotFoundError
        If a file has no such field; or no such ntuple, unless `allow_missing`.

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
    request = _Request(
        (expressions, filter_name, filter_typename, filter_field, filter_branch, how),
        conditions(cut, aliases),
        (regularize(library), how, ak_add_doc),
        step_size,
        num_threads(threads) if threads is not None else None,
        prefetch,
        (virtual, record, calling_function()),
    )
    return _iterate(list(_sources(files, opening.get("storage_options"))), opening, request, report, allow_missing)


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
    threads: int | None = None,
    **options: Any,
) -> Any:
    """Read many files into one array.

    The files are opened as one ntuple and read at once, directly into the final arrays.

    Parameters
    ----------
    files : str, path, dict, list or NTuple
        The files, as for `open`; a list may contain open ntuples.
    expressions, cut, filter_name, filter_typename, filter_field, filter_branch, aliases
        The fields, computed columns and entries, as for `NTuple.arrays`.
    entry_start, entry_stop : int, optional
        First entry, and the one after the last, counted over all files.
    library, how, ak_add_doc, threads
        As for `NTuple.arrays`.
    allow_missing : bool
        Whether to skip files without the ntuple.
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
    sources = list(_sources(files, opening.get("storage_options")))
    if len(sources) == 1 and isinstance(sources[0], NTuple):
        nt = sources[0]
    else:
        pairs: list[tuple[str, str | None]] = []
        for source in sources:
            pairs += source._core.origins() if isinstance(source, NTuple) else [source]
        nt = open_pairs(pairs, allow_missing=allow_missing, **opening)
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
class _Request:
    """The fields and options that are requested of each file."""

    fields: tuple[Any, ...]
    conditions: Conditions
    output: tuple[Any, ...]
    step_size: str | SupportsIndex
    threads: int | None
    prefetch: bool
    lazy: tuple[
        bool, PathLike | Literal[False] | None, str
    ]  # whether arrays are virtual, the directory of records, the function

    def of(self, nt: NTuple, global_offset: int) -> How:
        """Return the request for one ntuple."""
        expressions, *filters = self.fields
        wanted, paths = nt._wanted(expressions, self.conditions, tuple(filters))
        output = nt._output(paths, *self.output, virtual=self.lazy[0])
        query = nt._query(paths, wanted, self.conditions, tuple(filters), self.threads, virtual=self.lazy[0])
        lazy = nt._lazy_reader(paths, self.threads, *self.lazy)
        nt._warn_of_lacking(paths, wanted.fields, filters[0])
        named = nt._is_named(expressions)
        return nt._how(paths, output, self.step_size, self.threads, self.prefetch, named, global_offset, lazy, query)


def _iterate(
    sources: list[_Source], opening: dict[str, Any], request: _Request, report: bool, allow_missing: bool
) -> Iterator[Any]:
    line = _Line(sources, {**opening, "allow_missing": allow_missing}, request)
    try:
        while (found := line.next()) is not None:
            how, pieces = found
            steps = give(how, pieces, (0, how.nt.num_entries), functools.partial(line.advance, pieces))
            del how, found
            yield from steps if report else without_reports(steps)
            del steps
    finally:
        line.close()


_Prepared: TypeAlias = "tuple[How, deque[Piece]]"


@dataclass
class _File:
    """A file that is opened, possibly in advance."""

    source: _Source
    opening: Opening | None = None
    prepared: _Prepared | None = None  # also None for a file that is left out
    is_prepared: bool = False
    error: Exception | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the file can be prepared without waiting for a server."""
        is_open = isinstance(self.source, NTuple) or (self.opening is not None and self.opening.is_done())
        return self.is_prepared or (is_open and self.error is None)


class _Line:
    """A queue of files. The next files are opened and their first steps are read in advance; read files are dropped."""

    def __init__(self, sources: list[_Source], options: dict[str, Any], request: _Request) -> None:
        self._is_alone = len(sources) < 2
        self._sources = iter(sources)
        self._options = options
        self._request = request
        self._files: deque[_File] = deque()
        self._offset = 0  # entries of all prepared files
        self._implied: str | None = None  # the ntuple name if it was not given; must be the same in all files
        self._first: tuple[str, frozenset[str]] | None = None  # a file, and the fields that are read from it
        self._last: NTuple | None = None
        self._told: set[str] = set()  # missing fields that were warned about
        self._named: dict[str, str] = {}  # the paths of the requested names; must be the same in all files

    def next(self) -> _Prepared | None:
        """Return the next file that is not left out, and its pieces to read."""
        while True:
            self._open_ahead()
            if not self._files:
                return None
            file = self._files[0]
            prepared = self._prepare(file)
            self._files.popleft()
            if prepared is not None:
                return prepared

    def advance(self, own: deque[Piece], pending: int) -> None:
        """Start reading the next pieces of this ntuple and of the next files, up to the allowed number."""
        self._open_ahead()
        begin_ahead(self._coming(own), pending, self._request.step_size)

    def close(self) -> None:
        """Cancel everything that is still pending."""
        for file in self._files:
            if file.opening is not None:
                file.opening.stop()
        self._files.clear()
        self._last = None

    def _open_ahead(self) -> None:
        for source in itertools.islice(self._sources, AHEAD + 1 - len(self._files)):
            in_background = not (self._is_alone or isinstance(source, NTuple))
            opening = Opening([source], **self._options) if in_background else None  # type: ignore[list-item]
            self._files.append(_File(source, opening))

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

    def _prepare(self, file: _File) -> _Prepared | None:
        """Open a file and prepare its reads; None if it is left out. Called in file order."""
        if file.error is not None:
            raise file.error
        if file.is_prepared:
            return file.prepared
        nt = self._opened(file)
        file.is_prepared = True
        if not nt.files:
            return None
        if isinstance(file.source, tuple) and file.source[1] is None:
            self._implied = self._implied or nt.object_path
            if nt.object_path != self._implied:
                raise UsageError(
                    f"{nt.file_path} has the ntuple {nt.object_path!r}, but earlier files have {self._implied!r}: "
                    "add the name, as in 'file.root:Events'"
                )
        if self._last is not None:
            nt._take_schema(self._last)
        self._last = nt
        how = self._request.of(nt, self._offset)
        _check_meaning(nt, self._request.fields[0], self._named)
        self._compare(nt, how.paths)
        file.prepared = how, pieces_of(how, (0, nt.num_entries))
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

    def _opened(self, file: _File) -> NTuple:
        if isinstance(file.source, NTuple):
            return file.source
        return open_pairs([file.source], **self._options) if file.opening is None else file.opening.result()


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


def _sources(files: object, storage_options: Mapping[str, Any] | None) -> Iterator[_Source]:
    if isinstance(files, NTuple):
        yield files
    elif (
        isinstance(files, Iterable)
        and not isinstance(files, (str, bytes, Mapping))
        and not hasattr(files, "__fspath__")
        and not hasattr(files, "read")
    ):
        for item in files:
            # a list in a list has the sources of one file
            if isinstance(item, (list, tuple)):
                yield from resolve([item], storage_options)
            else:
                yield from _sources(item, storage_options)
    else:
        yield from resolve(files, storage_options)  # type: ignore[arg-type]
