"""Calls a function for all events, load-balanced and exactly once."""

from __future__ import annotations

import contextlib
import inspect
import os
import pickle
import reprlib
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from femtobarn._files.bad_files import BadFile, BadFiles, SkipBadFiles
from femtobarn._files.filesets import metadata_of
from femtobarn._files.libraries import regularize
from femtobarn._files.ntuple import NTuple
from femtobarn._files.queries import Conditions, conditions
from femtobarn._files.reading import NOT_VIRTUAL
from femtobarn._processing.accumulate import GivenStates, HeldPieces, Unfinished
from femtobarn._processing.checkpoint import Checkpoint, State, function_identity, noted_identity
from femtobarn._processing.dask import dask_executor
from femtobarn._processing.entries import FilesetWork, NTupleWork
from femtobarn._processing.mpi import MpiPool, serve_mpi
from femtobarn._processing.pool import Pool
from femtobarn._processing.pools import FuturesPool, ProcessPool, ThreadPool, Workers
from femtobarn._processing.statistics import ProcessStatistics
from femtobarn._processing.work import (
    TRIES,
    Failure,
    Lazy,
    Outcome,
    Piece,
    Sizes,
    StoreWork,
    Task,
    Work,
    failure,
    is_of_a_store,
)
from femtobarn._processing.workers import pickled_work
from femtobarn._shared.compat import known_options, with_cache
from femtobarn._shared.optional import optional
from femtobarn._shared.progress import Progress
from femtobarn._shared.repr import plural
from femtobarn._store.arguments import at_least
from femtobarn._store.containers import Holder
from femtobarn._store.product_names import listed
from femtobarn._store.threads import check_wanted
from femtobarn._store.twins import instead
from femtobarn._store.write_batch import flush_open
from femtobarn.errors import FemtobarnError, KeyNotFoundError, UsageError, WorkerDiedError

if TYPE_CHECKING:
    from types import ModuleType

    from femtobarn._files.filters import Filter
    from femtobarn._files.lumi_mask import LumiMask
    from femtobarn._files.open import Files
    from femtobarn._shared.output import Path as PathLike

__all__ = ["ProcessError", "ProcessResult", "process"]

_FETCHED = 16_384  # events that are fetched together, unless batches of columns choose their size
_PATIENCE = 0.5  # timeout in seconds for counting all events, for the progress bar
_AHEAD = 1024  # pieces that may be finished before the slowest one: allows it to take a thousand times as long


class ProcessError(FemtobarnError, RuntimeError):
    """The function failed for an event. The message names the event; the original error is the cause."""

    __module__ = "femtobarn"
    kind = "process-failed"


@dataclass(repr=False)
class ProcessResult:
    """Result of `process`.

    Attributes
    ----------
    value : object
        With `reduce`, the reduced result (None if there were no results); without, the list of all results except None,
        in the order of the events. With `by_dataset`, a dict with such a value for each dataset.
    n_events : int
        Number of events whose results are in `value`, including those from a checkpoint and those that `cut` leaves
        out.
    failures : list of Failure
        The skipped events.
    statistics : ProcessStatistics
        Work and time of each worker.
    bad_files : list of BadFile
        The files that were left out by `skip_bad_files`.
    """

    value: Any
    n_events: int
    failures: list[Failure]
    statistics: ProcessStatistics
    bad_files: list[BadFile] = field(default_factory=list)

    def __repr__(self) -> str:
        value = reprlib.repr(self.value)
        failed = f", {self.n_failed:,} failed," if self.failures else ""
        if self.bad_files:
            failed += f"{'' if failed else ','} {plural(len(self.bad_files), 'file')} left out,"
        statistics = f"{self.statistics.total_time:.3g} s on {plural(self.statistics.n_workers, 'worker')}"
        return f"<ProcessResult {value}: {plural(self.n_events, 'event')}{failed} in {statistics}>"

    @property
    def n_failed(self) -> int:
        """Number of skipped events, including events that were lost with a failed event of their batch."""
        return sum(one.n_events for one in self.failures)


@known_options()
def process(
    source: Holder[Any] | Files,
    function: Callable[..., Any],
    *,
    preload: str | tuple[str, Any] | Iterable[str | tuple[str, Any]] = (),
    cut: str | LumiMask | Mapping[str, str | LumiMask] | None = None,
    filter_name: Filter = None,
    aliases: Mapping[str, str | LumiMask] | None = None,
    virtual: bool = False,
    record: PathLike | Literal[False] | None = None,
    by: str = "event",
    library: str | ModuleType = "ak",
    executor: Any = "threads",
    workers: int | None = None,
    input_batch_size: int | None = None,
    output_batch_size: int | None = None,
    reduce: Callable[[Any, Any], Any] | None = None,
    state: Callable[[], Any] | None = None,
    by_dataset: bool = False,
    progress: bool | None = None,
    checkpoint: PathLike | None = None,
    key: str | None = None,
    on_error: str = "raise",
    skip_bad_files: SkipBadFiles = False,
    allow_missing: bool = False,
    cache: PathLike | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ProcessResult:
    """Call a function for all events on many workers; each event is exactly once in the results.

    Events are fetched in large batches, and workers take small batches from them, so that the load is balanced even if
    some events take long.

    Parameters
    ----------
    source : DataSet, Run, SubRun, NTuple, str, path, list or dict
        The container of the events; or files or a fileset, as for `iterate`, which are opened when they are needed.
    function : callable
        Takes an event or a batch, and returns a new result each time; to fill the same object, as a histogram, for all
        events, use `state`. For a store, an event loads the products in `preload` from memory (`Event.load`), and
        a batch is an `EventBatch`; for an ntuple and files, they are a record and an `EntryBatch`, an array of records
        that knows its dataset, file and entries.
    preload : str, tuple or list
        Products to fetch with the events: a label, or a label and a type, or several of these; for an ntuple and files,
        the fields to read, and columns to compute.
    cut, filter_name, aliases
        For an ntuple and files, a condition that entries must fulfil to be passed to the function, names or patterns
        of fields to read where files have them, and names of expressions, as for `iterate`. Batches that the cut
        leaves empty are passed, too.
    virtual : bool
        For an ntuple and files, whether to read columns when the function touches them. Later batches are fetched in
        advance in the columns that the function has touched in most earlier ones.
    record : str, path or False, optional
        A directory that keeps what was learned of the function, for other processes and the next run. Only with
        `virtual`. With False, nothing is learned: each touch reads one column.
    by : str
        "event", or "batch": `output_batch_size` events at a time. A batch has entries of one file.
    library : str
        Type of the batches of an ntuple or of files, as for `NTuple.arrays`; other types than "ak" only with
        ``by="batch"``, and without an origin.
    executor : str or executor
        "threads", "processes", "mpi" (all ranks must call this), "dask" (the client of this process), an object with
        the interface of ``concurrent.futures.Executor``, or a `Pool`, whose workers several calls use.
    workers : int, optional
        Number of workers; by default the number of processors, or of the executor's workers.
    input_batch_size : int
        Events that are fetched together; by default 16,384, or a batch if that is larger. With `virtual` on threads,
        whole clusters are.
    output_batch_size : int, optional
        Number of events that a worker takes together; by default 64, and with ``by="batch"`` 1024, or fewer if a worker
        would get less than 8 batches. For an ntuple and files by default up to 16,384, and with ``by="batch"`` up to
        100,000 in 100 MB, in whole clusters if these are smaller; or fewer, down to 64, if a worker would get less than
        8 batches (with ``by="batch"`` 4, on other processes 2, as adjacent entries are decompressed together).
    reduce : callable, optional
        Combines two results, each of one event or of several events that were combined before. It must be associative,
        like ``operator.add`` and ``max``. Work on single events belongs in the function: for sums of squares, return
        ``x * x`` and use ``operator.add``, not ``lambda acc, x: acc + x * x``, which also squares sums. It is called in
        the order of the events. Sums of floats are the same for any number of workers if `output_batch_size` is given;
        otherwise, their last digits may differ.
    state : callable, optional
        Makes what each worker fills, as a histogram. The function is called with an event or a batch and the state,
        and changes the state or returns another one. `reduce` combines states at the end, in any order. Each event
        counts exactly once, also if a worker dies. Executors of ``concurrent.futures`` and checkpoints have a state for
        each batch.
    by_dataset : bool
        Whether results of different datasets of a fileset are kept apart: the value is a dict.
    progress : bool, optional
        Whether to show a progress bar; by default on a terminal and in a notebook. With True, lines are printed
        elsewhere.
    checkpoint : str or path, optional
        A file that records finished work every few seconds. Called again with the same arguments, `process` continues
        from it; other arguments raise an error. It is removed at the end. As its results are unpickled, it must belong
        to you or root, and no other user may be able to write to it.
    key : str, optional
        Identifies the work in `checkpoint`, instead of the source and the arguments of `function` and `reduce`.
    on_error : str
        "raise"; "skip" events that fail or cannot be loaded; or "retry" them, three times in total, before the error is
        raised: single events, or with ``by="batch"`` the batch. Errors of the whole store, such as an emptied or
        unreachable one, are always raised.
    skip_bad_files : bool or list
        Whether to leave out files that cannot be opened, with a warning for each. They are in the `bad_files` of the
        result; a list gets them, too. `on_error` is for events that cannot be read.
    allow_missing, cache, storage_options
        For files, as for `open`.

    Returns
    -------
    ProcessResult
        The results, and statistics of the workers. With MPI, the same on all ranks.

    Raises
    ------
    ProcessError
        If the function fails; the message names the event.
    KeyNotFoundError
        If the dataset, run or subrun does not exist, e.g. because it was deleted.
    WorkerDiedError
        If processes die three times on the same events.

    Examples
    --------
    >>> import femtobarn as fb
    >>> store = fb.DataStore.connect("memory:")
    >>> dataset = store.root.create_dataset("a")
    >>> with store.write_batch() as batch:
    ...     batch.store_arrays(dataset, {"n": range(1000)}, run=1, subrun=1, event=range(1000))
    >>> result = fb.process(dataset, lambda event: event.load("n"), preload=["n"], reduce=lambda a, b: a + b)
    >>> result.value, result.n_events
    (499500, 1000)
    """
    kept = None
    if isinstance(executor, Pool):
        executor, workers, kept = executor._for_call(workers)
    executor = dask_executor(executor)
    comm = _communicator(executor)
    failed: BaseException | None = None
    try:
        sizes: Sizes = output_batch_size, input_batch_size or _FETCHED
        _check(by, on_error, executor, workers, function, reduce, (input_batch_size, output_batch_size))
        lazy = _lazy(source, function, virtual, record)
        opening = _Opening(BadFiles(skip_bad_files), allow_missing, with_cache(storage_options, cache))
        given = _conditions(source, cut, aliases, virtual)
        work = _work(source, preload, filter_name, given, lazy, _library(library, by, source), opening)
        _check_datasets(work, by_dataset)
        _check_state(state, by, reduce, on_error)
        tries = TRIES if on_error == "retry" else 1
        task = Task(function, by == "event", reduce, on_error == "skip", tries, state, checkpoint is None)
        if comm is None or comm.rank == 0:
            if output_batch_size is None:
                size = work.batch_size(by, _n_workers(executor, workers), executor == "threads")
                size = _noted_size(checkpoint) or size
                if by == "event" or isinstance(source, Holder) or input_batch_size is not None:
                    size = size and min(size, sizes[1])
                sizes = size, max(sizes[1], size or 0)
            done = Checkpoint(checkpoint, {} if checkpoint is None else _identity(work, task, by, sizes[0], key))
            if by_dataset:
                done.state.groups = done.state.groups or {}
            pool = _pool(work, task, executor, workers, kept)
    except BaseException as error:
        failed = error
        raise
    finally:
        _agree(comm, failed)
    if comm is None:
        return _run(work, task, done, pool, sizes, on_error, progress)
    result = None
    try:
        if comm.rank > 0:
            serve_mpi(work, task, comm)
        else:
            result = _run(work, task, done, pool, sizes, on_error, progress)
    except BaseException as error:
        with contextlib.suppress(ProcessError):  # its own error has more details
            _shared(comm, None, error)
        raise
    return _shared(comm, result, None)


def _check(
    by: str, on_error: str, executor: Any, workers: int | None, function: Any, reduce: Any, sizes: tuple[Any, Any]
) -> None:
    if by not in ("event", "batch"):
        raise UsageError(f"by must be 'event' or 'batch', not {by!r}")
    if on_error not in ("raise", "skip", "retry"):
        raise UsageError(f"on_error must be 'raise', 'skip' or 'retry', not {on_error!r}")
    for name, size in zip(("input_batch_size", "output_batch_size", "workers"), (*sizes, workers), strict=True):
        if size is not None:
            at_least(name, size, 1)
    if not callable(function):
        raise UsageError(f"the function must be callable, as it is called for each event or batch, not {function!r}")
    if reduce is not None and not callable(reduce):
        raise UsageError(f"reduce must be a function of two results, not {reduce!r}")
    if isinstance(executor, type):
        raise UsageError(f"executor is the class {executor.__name__}: give an instance, e.g. {executor.__name__}(8)")
    _check_returns("the function", function)
    _check_returns("reduce", reduce)
    called, module = getattr(reduce, "__name__", None), getattr(reduce, "__module__", None) or ""
    if called in ("sum", "fsum") and module.split(".")[0] in ("builtins", "math", "numpy", "awkward"):
        raise UsageError(f"reduce must combine two results, but {called}(a, b) sums over a: use operator.add")


def _check_state(state: Any, by: str, reduce: Any, on_error: str) -> None:
    if state is None:
        return
    if not callable(state):
        raise UsageError(f"state must be a function that makes a state, as a histogram, not {state!r}")
    if reduce is None:
        raise UsageError("state needs reduce, which combines the states of two workers, e.g. operator.add")
    if by == "event" and on_error != "raise":
        raise UsageError(f"on_error={on_error!r} with a state needs by='batch': an event that fails spoils the state")
    _check_returns("state", state)


def _check_returns(what: str, function: Any) -> None:
    """Raise if calling the function only creates a coroutine or generator."""
    if function is None:
        return
    for called in (function, type(function).__call__):
        if inspect.iscoroutinefunction(called):
            raise UsageError(
                f"{what} {function!r} is a coroutine function: use `await femtobarn.aio.process(…)`, which takes a "
                "function defined with `async def`; reduce is never awaited"
            )
        if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
            raise UsageError(f"{what} {function!r} is a generator, but process uses returned values: return a list")


def _noted_size(checkpoint: PathLike | None) -> int | None:
    """Return the batch size of an interrupted run, which its continuation keeps."""
    noted = {} if checkpoint is None else noted_identity(checkpoint)
    return int(noted["output_batch_size"]) if noted.get("output_batch_size", "None") != "None" else None


def _n_workers(executor: Any, workers: int | None) -> int:
    """Return the number of workers."""
    if executor == "mpi":
        return max(int(_communicator(executor).size) - 1, 1)
    return workers or int(getattr(executor, "_max_workers", len(os.sched_getaffinity(0))))


def _identity(work: Work, task: Task, by: str, size: int | None, key: str | None) -> dict[str, str]:
    """Return the identity of the work, which must be equal to continue it."""
    return {
        **work.identity(),
        "by": by,
        "output_batch_size": str(size),
        **function_identity("function", task.function, key),
        **function_identity("reduce", task.reduce, key),
        **({} if task.state is None else function_identity("state", task.state, key)),
    }


def _lazy(
    source: Any, function: Callable[[Any], Any], virtual: bool, record: PathLike | Literal[False] | None
) -> Lazy | None:
    if virtual and isinstance(source, Holder):
        raise UsageError("virtual=True reads columns of an ntuple when they are touched; a store loads whole products")
    if virtual:
        return Lazy.of(function, record)
    if record is not None:
        raise UsageError("record keeps what virtual arrays touch: add virtual=True")
    return None


def _library(library: str | ModuleType, by: str, source: Any) -> str:
    known = regularize(library)
    if known != "ak" and (by != "batch" or isinstance(source, Holder)):
        raise UsageError(f"library={library!r} is for batches of entries of files: add by='batch'")
    return known


@dataclass(frozen=True)
class _Opening:
    """How files are opened that are not open yet."""

    bad_files: BadFiles
    allow_missing: bool
    storage_options: Mapping[str, Any] | None

    def check_unused(self, source: Any) -> None:
        """Raise if an option was given that does not concern the source."""
        given = {
            "skip_bad_files": self.bad_files.are_skipped,
            "allow_missing": self.allow_missing,
            "cache or storage_options": self.storage_options is not None,
        }
        for name in (name for name, is_given in given.items() if is_given):
            what = "an open ntuple: give it to fb.open" if isinstance(source, NTuple) else "a store"
            raise UsageError(f"{name} is for files that process opens, not for {what}")


def _conditions(source: Any, cut: Any, aliases: Any, virtual: bool) -> Conditions:
    """Return the cut and the aliases, which events of a store do not have."""
    if isinstance(source, Holder) and (cut is not None or aliases is not None):
        raise UsageError("cut and aliases are for ntuples and files: select the events of a store in the function")
    if virtual and cut is not None:
        raise UsageError(NOT_VIRTUAL)
    return conditions(cut, aliases, metadata_of(source))


def _work(
    source: Any,
    preload: Any,
    filter_name: Filter,
    given: Conditions,
    lazy: Lazy | None,
    library: str,
    opening: _Opening,
) -> Work:
    fields = (preload,) if isinstance(preload, str) else tuple(preload)
    if isinstance(source, Holder):
        opening.check_unused(source)
        if filter_name is not None:
            raise UsageError("filter_name is for ntuples and files: name the products of a store in preload")
        if not source.exists():
            raise KeyNotFoundError(f"{source._store.url}: {source} does not exist: it was deleted, or not written yet")
        return StoreWork(source, listed(preload))
    if isinstance(source, NTuple):
        opening.check_unused(source)
        return NTupleWork(source, (fields, filter_name), given, lazy, library)
    hint = instead(source, "await aio.process(…)")
    if hint or not (isinstance(source, (str, os.PathLike, Iterable)) or hasattr(source, "model_dump")):
        raise UsageError(
            f"events must come from a dataset, run or subrun of a store, from an ntuple, or from files, not {source!r}"
            f"{hint}"
        )
    options = {"allow_missing": opening.allow_missing, "storage_options": opening.storage_options}
    return FilesetWork(source, (fields, filter_name), given, lazy, library, options, opening.bad_files)


def _check_datasets(work: Work, by_dataset: bool) -> None:
    if by_dataset and not (isinstance(work, FilesetWork) and work.datasets):
        raise UsageError("by_dataset needs a fileset: give the files as {dataset: [path, …]}")


def _communicator(executor: Any) -> Any:
    return optional("mpi4py.MPI", "mpi").COMM_WORLD if executor == "mpi" else None


def _agree(comm: Any, error: BaseException | None) -> None:
    """Start on all ranks, or on none if one cannot start."""
    if comm is None:
        return
    told = comm.allgather(None if error is None else _with_class(error))
    if error is None:
        for rank, what in enumerate(told):
            if what is not None:
                raise ProcessError(f"rank {rank} cannot begin: {what}")


def _with_class(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _shared(comm: Any, result: ProcessResult | None, error: BaseException | None) -> ProcessResult:
    """Return the result of the first rank on all ranks, or raise its error."""
    told = None if error is None else str(error) if isinstance(error, ProcessError) else _with_class(error)
    packed = b""
    if comm.rank == 0 and told is None:
        try:
            packed = pickle.dumps(result)
        except Exception as failed:
            told = f"the result cannot be sent to the other ranks: {failed}"
    packed, told = comm.bcast((packed, told))
    if told is not None:
        raise ProcessError(told)
    shared: ProcessResult = pickle.loads(packed) if result is None else result
    return shared


def _pool(work: Work, task: Task, executor: Any, workers: int | None, kept: ProcessPool | None) -> Workers:
    n = _n_workers(executor, workers)
    if executor == "threads":
        return ThreadPool(work, task, n)
    if executor == "processes":
        packed = pickled_work(work, task, by_name=True)
        return ProcessPool(n, packed) if kept is None else kept.begun(packed)
    if executor == "mpi":
        return MpiPool(work, task, _communicator(executor))
    if hasattr(executor, "submit"):
        return FuturesPool(work, task, executor, n)
    raise UsageError(
        "executor must be 'threads', 'processes', 'mpi', 'dask', an executor of concurrent.futures or a Pool, not "
        f"{executor!r}"
    )


def _run(
    work: Work,
    task: Task,
    checkpoint: Checkpoint,
    pool: Workers,
    sizes: Sizes,
    on_error: str,
    progress: bool | None,
) -> ProcessResult:
    state = checkpoint.state
    statistics = ProcessStatistics(pool.n_workers)
    pieces = _pieces(work, sizes, state, loads=pool.shares_memory)
    ends_early = True
    try:
        with Progress(f"processing {work.name}", progress, "events") as bar:
            total = work.total(_PATIENCE) if bar.is_wanted else None
            for n in _master(work, task, pool, pieces, checkpoint, statistics, on_error):
                bar.tick(n, None if total is None else max(n, total))  # events may be stored meanwhile
                check_wanted(f"processing {work.name}")
        work.check_left()
        flush_open()  # write the functions' batches together with the results
        ends_early = False
    except BaseException as error:
        try:
            checkpoint.save(now=True)
        except FemtobarnError as failed:
            if str(failed) != str(error):  # which may have ended the work
                error.add_note(str(failed))
        raise
    finally:
        pool.close(ends_early=ends_early)
        pieces.close()
    checkpoint.remove()
    statistics._end()
    datasets = work.datasets if isinstance(work, FilesetWork) else []
    groups = state.groups
    value = _value(state.values, task) if groups is None else {n: _value(groups.get(n, []), task) for n in datasets}
    n_failed = sum(one.n_events for one in state.failures)
    bad_files = work.bad_files if isinstance(work, FilesetWork) else []
    return ProcessResult(value, state.n_events - n_failed, state.failures, statistics, bad_files)


def _value(values: list[Any], task: Task) -> Any:
    return values if task.reduce is None else next(iter(values), None)


def _pieces(work: Work, sizes: Sizes, state: State, *, loads: bool) -> Generator[Piece, None, None]:
    """Iterate over unfinished pieces; workers load those that cannot be loaded together, and report failures."""
    number, after = state.n_pieces, state.after
    try:
        for piece in work.pieces(sizes, number, after, loads=loads):
            number, after = piece.number + 1, work.last(piece)
            yield piece
        return
    except Exception as error:
        if not loads or is_of_a_store(error):
            raise
    yield from work.pieces(sizes, number, after, loads=False)


def _master(
    work: Work,
    task: Task,
    pool: Workers,
    pieces: Iterator[Piece],
    checkpoint: Checkpoint,
    statistics: ProcessStatistics,
    on_error: str,
) -> Iterator[int]:
    """Hand out pieces, and process outcomes in order; yields the number of finished events."""
    state = checkpoint.state
    again: list[Piece] = []
    tries: dict[int, int] = {}
    out: dict[int, Piece] = {}
    early: dict[int, tuple[Outcome, Piece]] = {}  # outcomes that came too early, without products
    held = HeldPieces()
    n_given = state.n_pieces
    # The number of results that wait for their turn is bounded. Without `reduce`, all are kept anyway.
    most = sys.maxsize if task.reduce is None else max(_AHEAD, 32 * pool.n_workers)
    has_more = True
    while True:
        while (again or (has_more and n_given - state.n_pieces < most)) and pool.has_room():
            piece = again.pop() if again else next(pieces, None)
            if piece is None:
                has_more = False
                break
            n_given = max(n_given, piece.number + 1)
            out[piece.number] = piece
            pool.send(piece)
        piece = None  # loaded products are not needed after the piece is handed out
        if not out:
            return
        for answer in pool.wait():
            if isinstance(answer, Unfinished):
                held.lost((answer.piece.number,))
                again.append(answer.piece)
                continue
            finished = held.given(answer.given) if isinstance(answer, GivenStates) else []
            if not isinstance(answer, GivenStates):
                finished = _answered(work, task, answer, (out, again, tries, held), statistics, on_error)
            for one in finished:
                tries.pop(one.piece, None)
                early[one.piece] = one, out.pop(one.piece).without_loaded()
        while state.n_pieces in early:
            outcome, done = early.pop(state.n_pieces)
            try:
                state.add(outcome, task.reduce, work.last(done), done.dataset)
            except Exception as error:
                raise ProcessError(f"{work.name}: reduce failed at {work.where(done, None)}: {error!r}") from error
        checkpoint.save(now=False)
        yield state.n_events


def _answered(
    work: Work,
    task: Task,
    answer: Outcome | Piece,
    known: tuple[dict[int, Piece], list[Piece], dict[int, int], HeldPieces],
    statistics: ProcessStatistics,
    on_error: str,
) -> list[Outcome]:
    """Return the outcomes that are complete with an answer for a piece, which may have to be done again."""
    out, again, tries, held = known
    number = answer.number if isinstance(answer, Piece) else answer.piece
    outcome = answer if isinstance(answer, Outcome) and answer.raised is None else None
    finished = []
    if isinstance(answer, Outcome):
        held.lost(answer.lost)
        again += [out[other] for other in answer.lost]
        if answer.is_held:
            held.hold(answer)
            out[number] = out[number].without_loaded()
        finished = held.given(answer.given)
        answer.given = []
    if outcome is None:
        tries[number] = tries.get(number, 0) + 1
        outcome = _given_up(work, task, out[number], answer, tries[number], on_error)
    else:
        statistics._add(outcome)
    if outcome is None:
        again.append(out[number])
    elif not outcome.is_held:
        finished.append(outcome)
    return finished


def _given_up(work: Work, task: Task, piece: Piece, answer: Any, n_tries: int, on_error: str) -> Outcome | None:
    """Raise the error of a piece, or return its replacement; None to try again."""
    if isinstance(answer, Piece):
        if n_tries < TRIES:
            return None
        died = WorkerDiedError(f"{work.name}: {n_tries} processes died while they processed {work.where(piece, None)}")
        if on_error != "skip":
            raise died
        return Outcome(piece.number, piece.n, failures=[failure(work.where(piece, None), died, piece.n)])
    if isinstance(answer.raised, KeyboardInterrupt):
        raise answer.raised
    is_retried = on_error == "retry" and isinstance(answer.raised, Exception) and not is_of_a_store(answer.raised)
    if is_retried and (answer.what == "loading" or task.state is not None) and n_tries < TRIES:
        return None
    if is_retried and answer.failures:
        n_tries = TRIES  # where it was called
    where = answer.failures[-1].where if answer.failures and answer.what == "the function" else work.where(piece, None)
    tried = f", tried {n_tries} times" if n_tries > 1 else ""
    told = f"{answer.what} failed for {where}{tried}: {answer.raised!r}{answer.advice}"
    raise ProcessError(f"{work.name}: {told}") from answer.raised
