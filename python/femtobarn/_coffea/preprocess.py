"""Preprocessing of filesets: how many entries files have, and the steps in which they are processed."""

from __future__ import annotations

import itertools
import math
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from uuid import UUID

from coffea.dataset_tools.filespec import DataGroupSpec

from femtobarn._coffea.file_cache import FileCache, Known
from femtobarn._files.open import open_pairs
from femtobarn._shared.progress import Progress
from femtobarn.errors import FemtobarnError, FormatError, UsageError

if TYPE_CHECKING:
    from femtobarn._shared.output import Path as PathLike

__all__ = ["BAD", "Preprocessed", "examine", "examined", "preprocess"]

BAD: tuple[type[BaseException], ...] = (OSError, FormatError)
"""Errors of bad files: they cannot be read, or are not what they should be."""

_AT_ONCE = 32  # files that are opened at the same time
_BATCH = 500  # files that are added to a cache at once


class Preprocessed(tuple[Any, Any]):
    """A preprocessed fileset: a tuple of the files that could be opened, and of all files.

    Attributes
    ----------
    errors : dict of str to str
        Why files could not be opened.
    """

    errors: dict[str, str]

    @property
    def available(self) -> Any:
        """The fileset with the files that could be opened."""
        return self[0]

    @property
    def updated(self) -> Any:
        """The fileset with all files; those that could not be opened are as they were given."""
        return self[1]


def preprocess(
    fileset: Mapping[str, Any] | DataGroupSpec,
    step_size: int | None = None,
    align_clusters: bool = False,
    recalculate_steps: bool = False,
    skip_bad_files: bool = False,
    file_exceptions: type[BaseException] | tuple[type[BaseException], ...] = BAD,
    *,
    cache: PathLike | FileCache | None = None,
    treename: str | None = None,
    files_at_once: int = _AT_ONCE,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Preprocessed:
    """Find out how many entries the files of a fileset have, and divide them into steps.

    It does what `coffea.dataset_tools.preprocess` does, without Dask, and opens many files at the same time.

    Parameters
    ----------
    fileset : dict or DataGroupSpec
        ``{dataset: {"files": {url: "Events"}, "metadata": {…}}}``. In place of the name, a file can have a dict with
        `object_path` and what an earlier preprocessing added: `steps`, `num_entries` and `uuid`.
    step_size : int, optional
        The number of entries of a step; by default a file is one step.
    align_clusters : bool
        Whether steps end where clusters end, so that no page is read twice.
    recalculate_steps : bool
        Whether files that have steps, and have not changed, get new ones.
    skip_bad_files : bool
        Whether to leave out files that cannot be opened, with a warning. By default the first one is an error.
    file_exceptions : type or tuple of type
        Errors of bad files.
    cache : str, path or FileCache, optional
        A file of SQLite that keeps what was found, so that a later call opens only new files. See `FileCache`.
    treename : str, optional
        The name of the ntuple in files that are given without one.
    files_at_once : int
        How many files are opened at the same time.
    progress : bool, optional
        Whether to show progress; by default only on a terminal and in a notebook.
    storage_options : dict, optional
        Settings for servers, as for `femtobarn.open`.

    Returns
    -------
    Preprocessed
        A tuple of two filesets of the type that was given: the files that could be opened, and all files. Each file is
        ``{"object_path", "steps", "num_entries", "uuid"}``, with steps as ``[[0, 1000], [1000, 2000]]``. `errors` says
        why files could not be opened.

    Raises
    ------
    UsageError
        If the fileset is invalid.
    FemtobarnError
        If a file cannot be opened, as by `femtobarn.open`; with `skip_bad_files`, only errors that are not in
        `file_exceptions`.

    Examples
    --------
    >>> from femtobarn.coffea import preprocess
    >>> available, updated = preprocess({"muons": {"files": {dimuon: "Events"}}}, step_size=6000)
    >>> available["muons"]["files"][dimuon]["steps"]
    [[0, 6000], [6000, 12000]]
    """
    if isinstance(fileset, DataGroupSpec):
        given = fileset.model_dump()
        found = preprocess(
            given,
            step_size,
            align_clusters,
            recalculate_steps,
            skip_bad_files,
            file_exceptions,
            cache=cache,
            treename=treename,
            files_at_once=files_at_once,
            progress=progress,
            storage_options=storage_options,
        )
        specs = Preprocessed(DataGroupSpec.model_validate(part) for part in found)
        specs.errors = found.errors
        return specs
    if step_size is not None and step_size < 1:
        raise UsageError(f"step_size must be at least 1, not {step_size}")
    files = {dataset: dict(_files(dataset, described, treename)) for dataset, described in fileset.items()}
    wanted = [(url, file["object_path"]) for one in files.values() for url, file in one.items()]
    known: dict[tuple[str, str], Known] = {}
    errors: dict[str, str] = {}
    done = examined(wanted, align_clusters, cache, files_at_once, progress, storage_options)
    for key, outcome in done:
        if isinstance(outcome, Known):
            known[key] = outcome
        elif skip_bad_files and isinstance(outcome, file_exceptions):
            errors[key[0]] = str(outcome)
        else:
            raise outcome
    if errors:
        few = "".join(f"\n  {message}" for message in list(errors.values())[:5])
        warnings.warn(
            f"{len(errors)} of {len(wanted)} files are left out, see `errors` of the result:{few}", stacklevel=2
        )
    available, updated = {}, {}
    for dataset, described in fileset.items():
        whole = dict(described) if isinstance(described, Mapping) and "files" in described else {}
        steps = {
            url: _with_steps(file, known[url, file["object_path"]], step_size, align_clusters, recalculate_steps)
            for url, file in files[dataset].items()
            if url not in errors
        }
        available[dataset] = whole | {"files": steps}
        updated[dataset] = whole | {"files": {url: steps.get(url, file) for url, file in files[dataset].items()}}
    result = Preprocessed((available, updated))
    result.errors = errors
    return result


def _files(dataset: str, described: Any, treename: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the files of a dataset, each with its name of the ntuple, steps, number of entries and UUID."""
    is_nested = isinstance(described, Mapping) and "files" in described
    files = described["files"] if is_nested else described
    treename = described.get("treename", treename) if is_nested else treename
    if isinstance(files, str) or not isinstance(files, Iterable):
        raise UsageError(f"dataset {dataset!r}: 'files' must be a dict of URLs or a list, not {files!r}")
    for url in files:
        file = files[url] if isinstance(files, Mapping) else None
        file = {"object_path": file} if not isinstance(file, Mapping) else file
        name = file.get("object_path") or treename
        if name is None:
            raise UsageError(f"dataset {dataset!r}: {url!r} has no name of its ntuple; write {{url: 'Events'}}")
        yield str(url), {"object_path": name, **{key: file.get(key) for key in ("steps", "num_entries", "uuid")}}


def _with_steps(
    file: dict[str, Any], known: Known, step_size: int | None, align_clusters: bool, again: bool
) -> dict[str, Any]:
    uuid = str(UUID(bytes=known.uuid))
    kept = file["steps"] if file["uuid"] == uuid and not again else None
    steps = kept or steps_of(known, step_size, align_clusters)
    return file | {"steps": steps, "num_entries": known.num_entries, "uuid": uuid}


def steps_of(known: Known, step_size: int | None, align_clusters: bool) -> list[list[int]]:
    """Return the steps of a file, by the rules of coffea."""
    n_entries = known.num_entries
    if n_entries == 0:
        return [[0, 0]]
    target = n_entries if step_size is None else step_size
    if align_clusters:
        limits = [0]
        for limit in known.clusters or ():
            if limit >= limits[-1] + target or (limit == n_entries and limit > limits[-1]):
                limits.append(limit)
        return [[start, stop] for start, stop in itertools.pairwise(limits)]
    n_steps = max(round(n_entries / target), 1)
    size = math.ceil(n_entries / n_steps)
    return [[at * size, min((at + 1) * size, n_entries)] for at in range(n_steps)]


def examine(url: str, name: str, clusters: bool = False, storage_options: Mapping[str, Any] | None = None) -> Known:
    """Open an ntuple, and return its UUID, number of entries, and clusters if they are needed."""
    with open_pairs([(url, name)], threads=1, progress=False, storage_options=storage_options) as ntuple:
        n_entries = ntuple.num_entries
        limits = None
        if clusters:
            limits = (*sorted({cluster["first_entry"] for cluster in ntuple._core.clusters()} | {n_entries}),)
        return Known(ntuple.uuid.bytes, n_entries, limits)


def examined(
    files: Iterable[tuple[str, str]],
    clusters: bool = False,
    cache: PathLike | FileCache | None = None,
    at_once: int = _AT_ONCE,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[tuple[tuple[str, str], Known | BaseException]]:
    """Open files, many at the same time, and yield what is known of each, or the error.

    What the cache knows is yielded first. It gets what was found even if the caller stops.
    """
    kept = FileCache(cache) if cache is not None and not isinstance(cache, FileCache) else cache
    opening: list[tuple[str, str]] = []
    for url, name in dict.fromkeys(files):
        known = None if kept is None else kept.find(url, name, clusters=clusters)
        if known is None:
            opening.append((url, name))
        else:
            yield (url, name), known
    new: list[tuple[str, str, Known]] = []
    stopped = threading.Event()

    def opened(url: str, name: str) -> Known | BaseException:
        if stopped.is_set():
            return FemtobarnError("stopped")
        try:
            return examine(url, name, clusters, storage_options)
        except Exception as error:
            return error

    with Progress("preprocessing", progress, "files") as shown, ThreadPoolExecutor(at_once) as pool:
        waiting: deque[tuple[tuple[str, str], Future[Known | BaseException]]] = deque()
        rest = iter(opening)
        try:
            for done in range(len(opening)):
                # a pool takes all tasks at once: with few waiting, stopping is quick
                while len(waiting) < 2 * at_once and (key := next(rest, None)) is not None:
                    waiting.append((key, pool.submit(opened, *key)))
                key, future = waiting.popleft()
                outcome = future.result()
                if isinstance(outcome, Known) and kept is not None:
                    new.append((*key, outcome))
                    if len(new) >= _BATCH:
                        kept.add(new)
                        new = []
                shown.tick(done + 1, len(opening))
                yield key, outcome
        finally:
            stopped.set()
            if kept is not None and new:
                kept.add(new)
