"""Reading many files: `iterate` and `concatenate`, as uproot has them."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

from femtobarn._compat import check_read_options, split_open_options
from femtobarn._libraries import regularize
from femtobarn._ntuple import NTuple
from femtobarn._open import Files, open_pairs, resolve, settings_of
from femtobarn._reading import without_reports
from femtobarn._steps import check_step_size, num_threads
from femtobarn.errors import KeyNotFoundError, UsageError

if TYPE_CHECKING:
    from types import ModuleType

    from femtobarn._field import Field
    from femtobarn._filters import Filter
    from femtobarn._report import Report

__all__ = ["concatenate", "iterate"]

_Source: TypeAlias = "NTuple | tuple[str, str | None]"


def iterate(
    files: Files | NTuple,
    expressions: str | Iterable[str] | None = None,
    cut: None = None,
    *,
    filter_name: Filter = None,
    filter_typename: Filter = None,
    filter_field: Callable[[Field], Any] | None = None,
    filter_branch: Callable[[Field], Any] | None = None,
    step_size: str | SupportsIndex = "100 MB",
    library: str | ModuleType = "ak",
    how: Any = None,
    ak_add_doc: bool | dict[str, str] = False,
    report: bool = False,
    allow_missing: bool = False,
    threads: int | None = None,
    prefetch: bool = True,
    **options: Any,
) -> Iterator[Any]:
    """Read many files in steps, opening one after the other.

    Parameters
    ----------
    files : str, path, dict, list or NTuple
        Which files, as for `open`; a list may hold ntuples that are open.
    expressions, cut, filter_name, filter_typename, filter_field, filter_branch
        Which fields, as for `NTuple.arrays`.
    step_size : int or str
        Entries in a step, or the memory that a step may take, as "100 MB". A step never goes beyond the end of a
        file.
    library, how, ak_add_doc, threads
        As for `NTuple.arrays`.
    report : bool
        Whether each step comes with a `Report`, whose global entries count over all the files.
    allow_missing : bool
        Whether files without the ntuple are skipped.
    prefetch : bool
        Whether the next step is read while the current one is in use, which takes the memory of two.
    **options
        Options of `open`.

    Returns
    -------
    iterator
        Gives what `NTuple.arrays` returns; with `report`, a tuple of that and the report.

    Raises
    ------
    NotFoundError
        If a file does not exist.
    KeyNotFoundError
        If a file has no such ntuple or field, unless `allow_missing`.

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
        raise UsageError("iterate takes whole files: fb.open(files).iterate has entry_start and entry_stop")
    check_read_options(cut, reading)
    check_step_size(step_size)
    if expressions is not None and not isinstance(expressions, str):
        expressions = list(expressions)
    request = _Request(
        (expressions, filter_name, filter_typename, filter_field, filter_branch, how),
        (regularize(library), how, ak_add_doc),
        step_size,
        num_threads(threads) if threads is not None else None,
        prefetch,
    )
    return _iterate(list(_sources(files, opening)), opening, request, report, allow_missing)


def concatenate(
    files: Files | NTuple,
    expressions: str | Iterable[str] | None = None,
    cut: None = None,
    *,
    filter_name: Filter = None,
    filter_typename: Filter = None,
    filter_field: Callable[[Field], Any] | None = None,
    filter_branch: Callable[[Field], Any] | None = None,
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

    The files are opened as one ntuple and read at once, into memory of the final size.

    Parameters
    ----------
    files : str, path, dict, list or NTuple
        Which files, as for `open`; a list may hold ntuples that are open.
    expressions, cut, filter_name, filter_typename, filter_field, filter_branch
        Which fields, as for `NTuple.arrays`.
    entry_start, entry_stop : int, optional
        First entry, and the one after the last, counted over all files.
    library, how, ak_add_doc, threads
        As for `NTuple.arrays`.
    allow_missing : bool
        Whether files without the ntuple are skipped.
    **options
        Options of `open`.

    Returns
    -------
    ak.Array, dict, pyarrow.Table, pandas.DataFrame, polars.DataFrame or Batch
        What `NTuple.arrays` returns.

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
    sources = list(_sources(files, opening))
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
    """What is asked of each file."""

    fields: tuple[Any, ...]
    output: tuple[Any, ...]
    step_size: str | SupportsIndex
    threads: int | None
    prefetch: bool

    def steps(self, nt: NTuple, paths: list[str] | None, global_offset: int) -> Iterator[tuple[Any, Report]]:
        output = nt._output(paths, *self.output)
        entries = (0, nt.num_entries)
        named = nt._is_named(self.fields[0])
        return nt._steps(paths, entries, output, self.step_size, self.threads, self.prefetch, named, global_offset)


def _iterate(
    sources: list[_Source], opening: dict[str, Any], request: _Request, report: bool, allow_missing: bool
) -> Iterator[Any]:
    global_offset = 0
    implied: str | None = None  # the name that nobody gave: it must be the same in all files
    named: dict[str, str] = {}  # what the names that were given mean: the same in all files
    for source, nt in _opened(sources, {**opening, "allow_missing": allow_missing}):
        if not nt.files:
            continue
        if isinstance(source, tuple) and source[1] is None:
            implied = implied or nt.object_path
            if nt.object_path != implied:
                raise UsageError(
                    f"{nt.file_path} holds the ntuple {nt.object_path!r}, the files before {implied!r}: "
                    "say which is meant, as in 'file.root:Events'"
                )
        paths = nt._paths(*request.fields)
        _check_meaning(nt, request.fields[0], named)
        steps = request.steps(nt, paths, global_offset)
        yield from steps if report else without_reports(steps)
        global_offset += nt.num_entries


_AHEAD = 4  # files that are opened in the background while one is read


def _opened(sources: list[_Source], opening: dict[str, Any]) -> Iterator[tuple[_Source, NTuple]]:
    """Give files one after the other, of which the next ones are opened meanwhile; none is kept."""
    if len(sources) < 2:
        for source in sources:
            yield source, _open(source, opening)
        return
    waiting = iter(sources)
    ahead: deque[tuple[_Source, Future[NTuple]]] = deque()
    with ThreadPoolExecutor(_AHEAD, thread_name_prefix="femtobarn-open") as pool:
        try:
            while True:
                for source in itertools.islice(waiting, _AHEAD + 1 - len(ahead)):
                    ahead.append((source, pool.submit(_open, source, opening)))
                if not ahead:
                    return
                source, future = ahead.popleft()
                yield source, future.result()
                del future
        finally:
            # what nobody waits for any more is not begun
            pool.shutdown(wait=False, cancel_futures=True)


def _open(source: _Source, opening: dict[str, Any]) -> NTuple:
    return source if isinstance(source, NTuple) else open_pairs([source], **opening)


def _check_meaning(nt: NTuple, expressions: str | Iterable[str] | None, named: dict[str, str]) -> None:
    """Refuse a name of a field at the top in one file that means one further below in another."""
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


def _sources(files: object, opening: dict[str, Any]) -> Iterator[_Source]:
    if isinstance(files, NTuple):
        yield files
    elif (
        isinstance(files, Iterable)
        and not isinstance(files, (str, bytes, Mapping))
        and not hasattr(files, "__fspath__")
        and not hasattr(files, "read")
    ):
        for item in files:
            yield from _sources(item, opening)
    else:
        given = opening.get("storage_options")
        yield from resolve(files, None if given is None else settings_of(given))  # type: ignore[arg-type]
