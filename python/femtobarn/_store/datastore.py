"""Event stores: products by dataset, run, subrun and event, as in HEPnOS."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np

import femtobarn
from femtobarn import _core
from femtobarn._files.open import settings_of
from femtobarn._shared.compat import known_options
from femtobarn._shared.steps import num_bytes
from femtobarn._store.containers import Container, DataSet, at_least, true_or_false
from femtobarn._store.prefetch import Prefetcher
from femtobarn._store.product_names import listed
from femtobarn._store.product_types import BYTES, DTYPES, MSGPACK, PICKLE
from femtobarn._store.products import column, encoded, form_of, loaded, told_how, type_name_of
from femtobarn._store.ptr import MISSING, is_same, load_refs
from femtobarn._store.twins import instead
from femtobarn.errors import ExistsError, KeyNotFoundError, QueueEndedError, UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from femtobarn._store.threads import Threads

__all__ = ["DataStore", "Product", "Queue", "Swept", "WriteBatch"]

_MAX_ITEMS = 16_384
_MAX_BYTES = 16 << 20

_MOST = 2**63 - 1

_T = TypeVar("_T", "WriteBatch", "Queue")


class Product(NamedTuple):
    """Label and type of a product; `load`, `arrays` and others take it as ``(label, type)``.

    Attributes
    ----------
    label : str
        Its label.
    type : str
        The name of its type.
    """

    label: str
    type: str


@dataclass(frozen=True)
class Swept:
    """Result of `DataStore.sweep_objects`.

    Attributes
    ----------
    used : int
        Objects that products refer to.
    deleted, deleted_bytes : int
        Deleted objects, and their size in bytes.
    young : int
        Objects without a product that were kept because they are new: a product may soon refer to them.
    strange : int
        Files that this store did not write; they were kept.
    """

    used: int
    deleted: int
    deleted_bytes: int
    young: int
    strange: int


class DataStore:
    """An event store: nested datasets, which hold runs, subruns and events, each with products.

    Open a store with `DataStore.connect`. All objects of a store can be used by several threads. A ``with`` block
    closes the store at its end.

    Attributes
    ----------
    url : str
        The URL of the store.
    root : DataSet
        The dataset that contains all others.
    objects : str or None
        Location of the objects of large products; None if all products are in the store.
    objects_over : int or None
        Size in bytes above which a product is stored as an object.

    Examples
    --------
    >>> import femtobarn as fb
    >>> store = fb.DataStore.connect("memory:")
    >>> event = store.root.create_dataset("fermilab/nova").create_run(43).create_subrun(56).create_event(25)
    >>> event.store("energy", 1.5)
    >>> store["fermilab/nova"][43][56][25].load("energy")
    1.5
    """

    def __init__(
        self, core: _core.Store, given: str = "", mode: str = "a", settings: Mapping[str, str] | None = None
    ) -> None:
        if not isinstance(core, _core.Store):
            raise UsageError(f"open a store with DataStore.connect({core!r})")
        self._core = core
        self._codec = core.codec
        self._given = given  # including passwords, which messages do not show
        self._mode = mode
        self._threads: Threads | None = None  # for asyncio, created at first use
        self._settings = dict(settings or {})
        self._lock = threading.Lock()
        self._open: weakref.WeakSet[WriteBatch | Queue] = weakref.WeakSet()  # objects that are closed with the store
        self._process = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store: write batches, close queues, and release the directory or the connections.

        Then another process can write to the directory. Using objects of a closed store raises a `UsageError`. Other
        connections of this process to the same directory stay open. Closing again does nothing. In a forked child,
        closing only releases the store; the parent writes its batches.

        Examples
        --------
        >>> import femtobarn as fb
        >>> with fb.DataStore.connect("memory:") as store:
        ...     dataset = store.root.create_dataset("a")
        >>> dataset.numbers()
        Traceback (most recent call last):
          ...
        femtobarn.errors.UsageError: memory:: this store was closed: connect to it again
        """
        with self._lock:
            if self._core.is_closed:
                return
            threads, self._threads = self._threads, None
            with contextlib.ExitStack() as last:  # each step is done, even if others fail
                if threads is not None and threads.process == os.getpid():
                    last.callback(threads.close)
                last.callback(self._core.close)
                last.callback(self._flush)
                for one in list(self._open):
                    last.callback(one.close)

    def _flush(self) -> None:
        try:
            self._core.flush()
        except UsageError:
            if self._process == os.getpid():  # a store that cannot be used after a fork holds nothing of this process
                raise

    @property
    def closed(self) -> bool:
        """Whether the store was closed."""
        return self._core.is_closed

    @classmethod
    @known_options()
    def connect(
        cls,
        url: str | os.PathLike[str],
        *,
        mode: str = "a",
        objects: str | os.PathLike[str] | None = None,
        objects_over: int | str | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Open a store, and create it if it does not exist and ``mode`` is "a".

        Parameters
        ----------
        url : str or path
            ``memory:``, which ends with the process; ``dir:PATH``, a directory on a local disk; ``redis://host:port``,
            a Redis server or cluster; or the path of a configuration file that ends in ``.json``.
        mode : str
            "a" to read and write, and create the store if it does not exist; "r+" to read and write an existing store;
            "r" to read an existing store. One process at a time can write to a directory, and any number can read it.
        objects : str or path, optional
            Location of large products: a directory, or ``s3://bucket/prefix``. The store records it, so later calls
            need not give it.
        objects_over : int or str, optional
            Size above which products are large, such as ``"1MiB"``; by default the recorded size, and 1 MiB for a new
            store.
        storage_options : dict, optional
            Settings for the bucket, as in `open`.

        Returns
        -------
        DataStore
            The store.

        Raises
        ------
        UsageError
            If the URL is invalid, or the large products of the store are elsewhere.
        KeyNotFoundError
            If the store does not exist and is not created.
        FileError
            If another process writes to the store.
        FormatError
            If the directory has other contents.

        Examples
        --------
        >>> import femtobarn as fb, os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> store = fb.DataStore.connect(f"dir:{folder}/store", objects=f"{folder}/large", objects_over="64kB")
        >>> run = store.root.create_dataset("a").create_run(1)
        >>> run.store("image", bytes(100_000))
        >>> len(run.load("image"))
        100000
        >>> store.sweep_objects()
        Swept(used=1, deleted=0, deleted_bytes=0, young=0, strange=0)
        """
        if mode not in ("a", "r+", "r"):
            raise UsageError(
                "mode must be 'a' (read and write, create if missing), 'r+' (read and write an existing store) or "
                f"'r' (read), not {mode!r}"
            )
        text = os.fspath(url)
        if not text.strip():
            raise UsageError(
                f"{text!r} is not a store: give memory:, dir:PATH, redis://HOST:PORT or a configuration (.json)"
            )
        if text.startswith("dir:"):
            text = f"dir:{Path(text.removeprefix('dir:')).expanduser()}"
        place = None if objects is None else _place(os.fspath(objects))
        over = None if objects_over is None else min(at_least("objects_over", num_bytes(objects_over), 0), _MOST)
        settings = {} if storage_options is None else settings_of(storage_options)
        core = _core.Store.connect(text, mode, place, over, settings)
        return cls(core, _from_anywhere(text), mode, settings)

    @property
    def url(self) -> str:
        """The URL of the store."""
        return self._core.url

    @property
    def is_durable(self) -> bool:
        """Whether flushed data survive the end of the processes that hold the store.

        True for a directory, and for Redis if every server keeps a log (``appendonly yes``); False for a store in
        memory.
        """
        return self._core.is_durable

    @property
    def objects(self) -> str | None:
        """Location of the objects of large products; None if all products are in the store."""
        return None if self._core.objects is None else self._core.objects[0]

    @property
    def objects_over(self) -> int | None:
        """Size in bytes above which a product is stored as an object; None if there are no objects."""
        return None if self._core.objects is None else self._core.objects[1]

    def sweep_objects(self, *, age: float = 3600.0) -> Swept:
        """Delete orphans: objects that no product refers to, left by crashes.

        Parameters
        ----------
        age : float
            Minimum age of an object in seconds: a product may soon refer to a younger object.

        Returns
        -------
        Swept
            Numbers of used and deleted objects.
        """
        return Swept(*self._core.sweep(age))

    @staticmethod
    def compact(url: str | os.PathLike[str]) -> tuple[int, int]:
        """Rewrite the file of a store in a directory to free the space of deleted data.

        Deleting does not make the file smaller; later writes reuse the space. The new file replaces the old one when it
        is complete and on disk, so that a crash leaves one of them. The disk must have space for both.

        Parameters
        ----------
        url : str or path
            ``dir:PATH``, or the path of a configuration file that ends in ``.json``.

        Returns
        -------
        tuple of int
            Size of the file in bytes, before and after.

        Raises
        ------
        FileError
            If any process, including this one, has the store open.
        FormatError
            If the store is damaged.
        UsageError
            If it is not a store in a directory.

        Examples
        --------
        >>> import femtobarn as fb, os, tempfile
        >>> url = f"dir:{tempfile.mkdtemp()}/store"
        >>> with fb.DataStore.connect(url) as store:
        ...     run = store.create_dataset("a").create_run(1)
        ...     run.store("noise", os.urandom(1_000_000))
        ...     run.delete_product("noise")
        >>> before, after = fb.DataStore.compact(url)
        >>> after < before / 10
        True
        """
        return _core.Store.compact(os.fspath(url))

    def sweep_nameless(self) -> int:
        """Remove data of datasets without a name, left by writes during a deletion.

        These data cannot be found any more, but take up space. This scans the whole store. Do not use it after servers
        of a cluster have lost data: the names of existing datasets may be lost.

        Returns
        -------
        int
            Number of datasets whose data were removed.

        Examples
        --------
        >>> import femtobarn as fb
        >>> fb.DataStore.connect("memory:").sweep_nameless()
        0
        """
        return self._core.sweep_nameless()

    def forget_class(self, name: str) -> None:
        """Forget the members of a class, so that a class with this name and other members can be stored.

        This reads the names of all products of the store, and again after seven seconds, because connected programs may
        remember the old class for that long; no program may store it meanwhile. Queues and unwritten batches of other
        programs are not checked.

        Parameters
        ----------
        name : str
            The class, such as "Track".

        Raises
        ------
        KeyNotFoundError
            If the store does not know the class.
        UsageError
            If a product uses the class.

        Examples
        --------
        >>> import femtobarn as fb
        >>> from dataclasses import make_dataclass
        >>> dataset = fb.DataStore.connect("memory:").root.create_dataset("a")
        >>> dataset.store("track", make_dataclass("Track", [("pt", float)])(0.5))
        >>> dataset.delete_product("track")
        >>> dataset.datastore.forget_class("Track")
        >>> dataset.store("track", make_dataclass("Track", [("pt", float), ("eta", float)])(0.5, 2.5))
        """
        self._codec.forget_class(name)

    @property
    def root(self) -> DataSet:
        """The dataset that contains all others. It holds datasets, and neither runs nor products."""
        return DataSet(self, *self._core.dataset(""))

    def create_dataset(self, name: str) -> DataSet:
        """Create a dataset in `root`, including the datasets above it; existing ones are kept.

        Parameters
        ----------
        name : str
            The full name; "a/b" is b in a.

        Returns
        -------
        DataSet
            The dataset.
        """
        return self.root.create_dataset(name)

    @property
    def aio(self) -> femtobarn.aio.DataStore:
        """The same store for asyncio."""
        return femtobarn.aio.DataStore(self)

    def __getitem__(self, name: str) -> DataSet:
        return self.root[name]

    def __contains__(self, name: object) -> bool:
        return name in self.root

    def __iter__(self) -> Iterator[DataSet]:
        return iter(self.root)

    def __repr__(self) -> str:
        return f"<DataStore {self.url!r}{', closed' if self.closed else ''}>"

    def _as_read(self) -> tuple[str, str, dict[str, str]]:
        """Return how another process opens the store for reading."""
        self.__reduce__()
        return self._given, "r" if self.url.startswith("dir:") else self._mode, self._settings

    def __reduce__(self) -> tuple[Any, tuple[str, str, dict[str, str]]]:
        if self.closed:
            raise UsageError(f"{self.url}: this store was closed: connect to it again")
        if not self._core.is_kept:  # other processes can use a Redis without a log
            raise UsageError(f"{self.url}: a store in memory cannot be pickled: it ends with its process")
        # unpickling must not create a directory
        mode = "r+" if self._mode == "a" and self.url.startswith("dir:") else self._mode
        return (reconnect, (self._given, mode, self._settings))

    def flush(self) -> None:
        """Wait until all writes are as durable as the store allows."""
        self._core.flush()

    @known_options()
    def write_batch(
        self,
        *,
        max_items: int = _MAX_ITEMS,
        max_bytes: int = _MAX_BYTES,
        overwrite: bool = True,
        threads: int = 0,
    ) -> WriteBatch:
        """Return a batch that collects containers and products, and writes them together.

        Parameters
        ----------
        max_items : int
            Maximum number of containers and products collected for each target of the store.
        max_bytes : int
            Maximum size of these in bytes.
        overwrite : bool
            Whether to replace existing products; otherwise they are kept, and listed in `WriteBatch.kept`.
        threads : int
            Threads that write in the background; with 0, the caller that fills the batch writes it.

        Returns
        -------
        WriteBatch
            A context manager, which writes the rest at its end.

        Examples
        --------
        >>> import femtobarn as fb
        >>> store = fb.DataStore.connect("memory:")
        >>> subrun = store.root.create_dataset("a").create_run(1).create_subrun(1)
        >>> with store.write_batch() as batch:
        ...     for n in range(3):
        ...         subrun.create_event(n, batch=batch).store("n", n, batch=batch)
        >>> subrun.arrays("n").tolist()
        [0, 1, 2]
        """
        limits = at_least("max_items", max_items, 1), at_least("max_bytes", max_bytes, 1)
        core = self._core.write_batch(*limits, at_least("threads", threads, 0), true_or_false("overwrite", overwrite))
        return self._opened(WriteBatch(self, core))

    def _opened(self, one: _T) -> _T:
        """Register an object to be closed with the store."""
        with self._lock:
            self._open.add(one)
        return one

    @known_options()
    def async_write_batch(
        self,
        *,
        threads: int = 1,
        max_items: int = _MAX_ITEMS,
        max_bytes: int = _MAX_BYTES,
        overwrite: bool = True,
    ) -> WriteBatch:
        """Return a batch whose containers and products are written by threads in the background.

        Parameters
        ----------
        threads : int
            Number of threads.
        max_items, max_bytes, overwrite
            As in `write_batch`.

        Returns
        -------
        WriteBatch
            A context manager, which waits at its end until all is written.
        """
        at_least("threads", threads, 1)  # for 0 threads, use `write_batch`
        return self.write_batch(max_items=max_items, max_bytes=max_bytes, overwrite=overwrite, threads=threads)

    @known_options()
    def prefetcher(
        self,
        products: str | tuple[str, Any] | Iterable[str | tuple[str, Any]] = (),
        *,
        batch_size: int = 16_384,
        ahead: int = 2,
    ) -> Prefetcher:
        """Return a prefetcher, which fetches events and their products ahead of a loop.

        Parameters
        ----------
        products : str, tuple or list
            A label, or a label and a type; or several of these.
        batch_size : int
            Number of events fetched together.
        ahead : int
            Number of batches fetched in advance.

        Returns
        -------
        Prefetcher
            Call it with a dataset, run or subrun to iterate over its events.
        """
        return Prefetcher(self, listed(products), batch_size, ahead)

    def load_refs(self, refs: Any, *, default: Any = MISSING) -> Any:
        """Load the targets of many references with few requests, each product once.

        Parameters
        ----------
        refs : array or sequence of Ptr
            References, or a column of references, in lists of any depth.
        default : object, optional
            Replacement for missing products and null references; None for a missing value.

        Returns
        -------
        ak.Array
            One value per reference, in the shape of `refs`.

        Raises
        ------
        KeyNotFoundError
            If a target does not exist and no default is given.

        Examples
        --------
        >>> import femtobarn as fb
        >>> store = fb.DataStore.connect("memory:")
        >>> dataset = store.root.create_dataset("a")
        >>> for event in map(dataset.create_run(1).create_subrun(1).create_event, range(3)):
        ...     event.store("pt", [event.number + 0.25, event.number + 0.5])
        ...     event.store("best", event.ref("pt", index=1))
        >>> store.load_refs(dataset.arrays("best"))
        <Array [0.5, 1.5, 2.5] type='3 * float64'>
        """
        return load_refs(self, refs, default)

    @known_options()
    def create_queue(self, name: str, kind: Any = bytes) -> None:
        """Create a queue, which passes values between programs.

        Parameters
        ----------
        name : str
            Its name.
        kind : type or str
            The type of its values. Queues with the same name and different types are different queues.

        Raises
        ------
        ExistsError
            If a queue with this name and type exists.
        """
        if not self._core.create_queue(_queue(name, kind)):
            raise ExistsError(f"{self.url}: queue {name!r} of {type_name_of(kind)} already exists")

    @known_options()
    def open_queue(self, name: str, kind: Any = bytes, *, mode: str, unpickle: bool = False) -> Queue:
        """Open a queue.

        Parameters
        ----------
        name, kind
            As in `create_queue`.
        mode : str
            "producer" to push values, "consumer" to pop them.
        unpickle : bool
            Whether to unpickle pickled values. Unpickling can run any code.

        Returns
        -------
        Queue
            The queue. While a producer has it open, consumers wait for more values.

        Raises
        ------
        KeyNotFoundError
            If the queue does not exist.
        """
        if mode not in ("producer", "consumer"):
            raise UsageError(f"mode must be 'producer' or 'consumer', not {mode!r}")
        try:
            core = self._core.open_queue(_queue(name, kind), mode == "producer")
        except KeyNotFoundError as error:
            raise self._no_queue(name, kind) from error
        return self._opened(Queue(self, core, name, kind, unpickle))

    @known_options()
    def destroy_queue(self, name: str, kind: Any = bytes) -> None:
        """Remove a queue with all its values.

        Parameters
        ----------
        name, kind
            As in `create_queue`.

        Raises
        ------
        KeyNotFoundError
            If the queue does not exist.
        """
        if not self._core.destroy_queue(_queue(name, kind)):
            raise self._no_queue(name, kind)

    def _no_queue(self, name: str, kind: Any) -> KeyNotFoundError:
        """Return the error for a missing queue, with the existing types of this name."""
        wanted = type_name_of(kind)
        others = [*_OF_QUEUES, f"std::vector<{wanted}>", wanted.removeprefix("std::vector<").removesuffix(">")]
        there = []
        for other in others:
            with contextlib.suppress(KeyNotFoundError):
                self._core.open_queue(f"{name}#{other}", False)
                there.append(other)
        hint = f"it exists for {', '.join(there)}: give its type" if there else "create it first"
        return KeyNotFoundError(f"{self.url}: there is no queue {name!r} of {wanted}; {hint}")


def reconnect(url: str, mode: str, settings: dict[str, str]) -> DataStore:
    """Open a store as in another process; the location of large products is recorded in the store."""
    return DataStore(_core.Store.connect(url, mode, settings=settings), url, mode, settings)


def _from_anywhere(url: str) -> str:
    """Return the absolute location of a store, for processes in another directory."""
    scheme, _, rest = url.partition(":")
    if scheme == "dir":
        return f"dir:{Path(rest).absolute()}"
    return str(Path(url).absolute()) if url.endswith(".json") and "://" not in url else url


def _place(text: str) -> str:
    """Return the location of objects: a URL, or a path."""
    return text if "://" in text else str(Path(text).expanduser())


# Usual types of queues, for messages
_OF_QUEUES = (BYTES, MSGPACK, PICKLE, "std::string", *DTYPES, *(f"std::vector<{name}>" for name in DTYPES))


def _queue(name: str, kind: Any) -> str:
    return f"{name}#{type_name_of(kind)}"


_BATCHES: weakref.WeakSet[WriteBatch] = weakref.WeakSet()
_BATCHES_LOCK = threading.Lock()  # a set must not change while it is iterated over


def _forget_batches() -> None:
    """Forget batches of the parent after a fork: the parent writes them."""
    global _BATCHES, _BATCHES_LOCK
    _BATCHES, _BATCHES_LOCK = weakref.WeakSet(), threading.Lock()


os.register_at_fork(after_in_child=_forget_batches)


def flush_open(*, durable: bool = True) -> None:
    """Write all batches of this process; without `durable`, as durable as single writes."""
    with _BATCHES_LOCK:
        batches = list(_BATCHES)
    for batch in batches:
        try:
            if durable:
                batch.flush()
            else:
                batch._core.write_all()
        except UsageError:
            if not batch._is_closed:  # another thread has written it
                raise


class WriteBatch:
    """A collection of containers and products, which is written when it is full, or at the end of a ``with`` block.

    Data that could not be written are kept, and the next `flush` tries again.
    """

    def __init__(self, store: DataStore, core: _core.WriteBatch) -> None:
        self._store = store
        self._core = core
        self._kept: list[tuple[Container, Product]] = []
        self._datasets: set[bytes] = set()  # existing products that were kept
        self._is_closed = False
        self._process = os.getpid()
        with _BATCHES_LOCK:
            _BATCHES.add(self)

    def __repr__(self) -> str:
        return f"<WriteBatch of {self._store.url!r}>"

    def _take(self, container: Container) -> None:
        """Raise if a container does not belong to the store of this batch."""
        self._check_process()
        if not is_same(container._store, self._store):
            other = "another store" if self._store.url == container._store.url else self._store.url
            raise UsageError(
                f"{container} is in {container._store.url}, but this batch writes to {other}: use a batch of the "
                "container's store"
            )
        uuid = container._key[:16]
        if container._path is not None and uuid not in self._datasets:
            DataSet(self._store, container._path, uuid + b"\xff" * 24)._check_there()
            self._datasets.add(uuid)

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise UsageError(f"{self!r} was made before this process was forked: make one in each process")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        self._check_process()
        return len(self._core)

    def flush(self) -> None:
        """Write everything collected, and wait until it is as durable as the store allows."""
        self._check_process()
        self._core.flush()
        self._note(self._core.take_kept())

    def close(self) -> None:
        """Write everything collected, and close the batch.

        In a forked child, nothing is written: the parent writes it.
        """
        self._is_closed = True
        if self._process != os.getpid():
            return
        self._note(self._core.close())

    @property
    def kept(self) -> list[tuple[Container, Product]]:
        """The existing products that were kept by writes so far, with their containers."""
        return list(self._kept)

    def _note(self, kept: list[tuple[bytes, str, str]]) -> None:
        self._kept += [(Container._of(self._store, key), Product(label, kind)) for key, label, kind in kept]

    @known_options()
    def store_arrays(
        self,
        dataset: DataSet,
        products: Mapping[str, Any],
        *,
        run: npt.ArrayLike,
        subrun: npt.ArrayLike,
        event: npt.ArrayLike,
        types: Mapping[str, Any] | None = None,
    ) -> None:
        """Create many events, and store their products from columns.

        Parameters
        ----------
        dataset : DataSet
            Dataset for the events, with their runs and subruns.
        products : dict
            For each label an array with one value per event.
        run, subrun, event : array of int
            The numbers of the events, or one number for all.
        types : dict, optional
            The types of products; by default the types of the arrays.

        Raises
        ------
        UsageError
            If an event occurs twice, or an array does not have one value per event; then nothing is created.
        KeyNotFoundError
            If the dataset was deleted.

        Examples
        --------
        >>> import femtobarn as fb
        >>> store = fb.DataStore.connect("memory:")
        >>> dataset = store.root.create_dataset("a")
        >>> with store.write_batch() as batch:
        ...     batch.store_arrays(dataset, {"pt": [1.5, 2.5]}, run=1, subrun=2, event=[3, 4])
        >>> dataset[1][2][4].load("pt")
        2.5
        """
        if not isinstance(dataset, DataSet):
            raise UsageError(
                f"dataset must be a DataSet, e.g. from store[name] or create_dataset, not {_shown(dataset)}"
                + instead(dataset, "use the batch of its store for asyncio")
            )
        if not isinstance(products, Mapping):
            raise UsageError(
                f"products must be a dict with an array per label, not {_shown(products)}; for a table with a column "
                "per product, give {name: table[name] for name in table.columns}, and .fields of Awkward's records"
            )
        self._take(dataset)
        types = types or {}
        unknown = set(types) - set(products)
        if unknown:
            raise UsageError(f"types has {', '.join(sorted(unknown))}, which is not in products")
        keys = _keys(dataset, run, subrun, event)
        if (twice := _twice(keys)) is not None:
            raise UsageError(f"{twice} is given several times")
        columns = []
        try:
            for label, values in products.items():
                type_name, batches = column(self._store, label, values, types.get(label))
                if batches.num_entries not in (None, len(keys) // 40):
                    raise UsageError(f"product {label!r} has {batches.num_entries} values for {len(keys) // 40} events")
                columns.append(((label, type_name), batches))
            self._core.create_all(keys)
            for name, batches in columns:
                self._core.store_rows(keys, name, batches)
        except UsageError as error:
            raise told_how(error, "types={label: 'NEW'}, or of lists 'std::vector<NEW>'") from error.__cause__


def _keys(dataset: DataSet, run: npt.ArrayLike, subrun: npt.ArrayLike, event: npt.ArrayLike) -> bytes:
    """Return the keys of events, concatenated."""
    numbers = [_numbers(name, values) for name, values in (("run", run), ("subrun", subrun), ("event", event))]
    try:
        runs, subruns, events = np.broadcast_arrays(*numbers)
    except ValueError as error:
        raise UsageError(f"run, subrun and event differ in length: {error}") from None
    if runs.ndim != 1:
        raise UsageError("run, subrun and event must be numbers or arrays of numbers")
    keys = np.empty((len(runs), 5), ">u8")
    keys[:, :2] = np.frombuffer(dataset._key[:16], ">u8")
    keys[:, 2], keys[:, 3], keys[:, 4] = runs, subruns, events
    return keys.tobytes()


def _twice(keys: bytes) -> str | None:
    """Return the name of an event whose key occurs several times; None if all are unique."""
    found = np.frombuffer(keys, "S40")
    if (found[1:] > found[:-1]).all():
        return None
    unique, n = np.unique(found, return_counts=True)
    if len(unique) == len(found):
        return None
    key = unique[n > 1][0].ljust(40, b"\0")
    run, subrun, event = (int.from_bytes(key[at : at + 8], "big") for at in (16, 24, 32))
    return f"run {run}, subrun {subrun}, event {event}"


def _shown(value: Any) -> str:
    """Return a value as shown in messages."""
    return repr(value) if isinstance(value, str | int) else f"a {type(value).__name__}"


def _numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    array = np.atleast_1d(np.asarray(values))
    if array.dtype.kind not in "iu" and isinstance(values, list | tuple):
        # NumPy converts empty lists, and mixed signed and unsigned 64-bit integers, to floats
        wrong = [value for value in values if isinstance(value, bool) or not isinstance(value, int | np.integer)]
        if wrong:
            raise UsageError(f"{name} must hold integers, not {wrong[0]!r}")
        array = np.array(values, object)
        if len(array) and not 0 <= array.min() <= array.max() < 2**64:
            raise UsageError(f"{name} holds {array.min()} to {array.max()}, but numbers must be from 0 to {2**64 - 2}")
        array = array.astype(np.uint64)
    if array.dtype.kind not in "iu":
        raise UsageError(f"{name} must hold integers, not {array.dtype}")
    if array.dtype.kind == "i" and len(array) and array.min() < 0:
        raise UsageError(f"{name} holds {array.min()}, but numbers must be 0 or more")
    numbers = array.astype(np.uint64)
    if len(numbers) and numbers.max() == np.iinfo(np.uint64).max:
        raise UsageError(f"{name} holds {numbers.max()}, which is reserved for missing numbers")
    return numbers


class Queue:
    """A queue between programs: each value is popped once, in the order of pushes.

    A ``with`` block closes it at its end. Iterating over it pops values until no producer has it open.
    """

    def __init__(self, store: DataStore, core: _core.Queue, name: str, kind: Any, unpickle: bool) -> None:
        self._store = store
        self._core = core
        self.name = name
        self.type = type_name_of(kind)
        self._form = form_of(kind)
        self._unpickle = unpickle
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} of {self.type} in {self._store.url!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._core)

    def push(self, value: Any) -> None:
        """Append a value to the end.

        Parameters
        ----------
        value : object
            A value of the queue's type.
        """
        try:
            _, stored = encoded(self._store, self.name, value, self.type)
        except UsageError as error:
            why = str(error).removeprefix(f"product {self.name!r}: ")
            raise UsageError(
                f"queue {self.name!r} of {self.type} cannot take a {type(value).__name__}: {why}"
            ) from error
        self._core.push(stored)

    def pop(self) -> Any:
        """Pop the first value; wait for one while a producer has the queue open.

        Returns
        -------
        object
            The value; for a queue of a dataclass or of ``list[dataclass]``, as these.

        Raises
        ------
        QueueEndedError
            If the queue is empty and no producer has it open.
        UsageError
            If its values are pickled, and it was opened without ``unpickle=True``; then nothing is popped.
        FormatError
            If the value is damaged. It stays in the queue, as after other errors.
        """
        self._check()
        stored = self._core.pop()
        if stored is None:
            raise self._ended()
        return self._value(stored)

    def _ended(self) -> QueueEndedError:
        return QueueEndedError(f"queue {self.name!r} is empty, and no producer has it open")

    def _check(self) -> None:
        """Raise if values cannot be unpickled."""
        if self.type == PICKLE and not self._unpickle:
            raise UsageError(
                f"values of queue {self.name!r} are pickled, and unpickling can run any code: if you trust the program "
                "that pushes them, open the queue with unpickle=True"
            )

    def _value(self, stored: bytes) -> Any:
        """Decode a popped value; on errors, return it to the queue."""
        try:
            return loaded(self._store, self.name, self.type, stored, self._form, unpickle=self._unpickle)
        except BaseException:
            self._core.put_back(stored)
            raise

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self.pop()
        except EOFError:
            raise StopIteration from None

    def close(self) -> None:
        """End pushing from here; in a forked child, do nothing."""
        if self._process == os.getpid():  # another thread may have held the lock, and does not exist in the child
            self._core.close()
