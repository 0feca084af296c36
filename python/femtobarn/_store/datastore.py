"""Event stores: products by dataset, run, subrun and event, as HEPnOS keeps them."""

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
from femtobarn._store.products import ColumnType, column, encoded, form_of, loaded, told_how, type_name_of
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
    """A product that was kept, or that there is: what `load`, `arrays` and others take as ``(label, type)``.

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
    """What `DataStore.sweep_objects` has done.

    Attributes
    ----------
    used : int
        Objects that products refer to.
    deleted, deleted_bytes : int
        Objects that were deleted, and their bytes.
    young : int
        Objects that nobody refers to, and that were left as they may be about to be referred to.
    strange : int
        What has a name that no object of a store has; it was left.
    """

    used: int
    deleted: int
    deleted_bytes: int
    young: int
    strange: int


class DataStore:
    """An event store: nested datasets, which hold runs, subruns and events, each with products.

    Open one by `DataStore.connect`. All objects of a store may be used by any number of threads. At the end of a
    ``with``, it is closed.

    Attributes
    ----------
    url : str
        Where it is.
    root : DataSet
        The dataset that all others are in.
    objects : str or None
        Where large products are, if not in the store.
    objects_over : int or None
        More bytes than which make a product a large one.

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
            raise UsageError(f"a store is opened by DataStore.connect({core!r})")
        self._core = core
        self._codec = core.codec
        self._given = given  # with what messages do not show, as passwords
        self._mode = mode
        self._threads: Threads | None = None  # for asyncio, when it is first used
        self._settings = dict(settings or {})
        self._lock = threading.Lock()
        self._open: weakref.WeakSet[WriteBatch | Queue] = weakref.WeakSet()  # what is closed with it
        self._process = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close it: write what batches have collected, close queues, and give up the folder or the connections.

        A folder may be written by another process then, also if there are still objects of this store: using one is a
        `UsageError`. Others that this process has connected to the same folder stay open. Closing again does nothing. A
        process that was forked since lets it go; what its batches have collected is written by the parent.

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
            with contextlib.ExitStack() as last:  # all of it is done, whatever fails
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
            if self._process == os.getpid():  # a store that cannot be used behind a fork has nothing of this process
                raise

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
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
        """Open a store, and make it if it is not there and ``mode`` is "a".

        Parameters
        ----------
        url : str or path
            ``memory:``, whose content ends with the process; ``dir:PATH``, a folder on a disk of this machine;
            ``redis://host:port``, a Redis or a cluster of it; a path that ends in ``.json``, which says where it is.
        mode : str
            "a" to read and write, of a store that is made if it is not there; "r+" to read and write one that is there;
            "r" to read one that is there. One process at a time writes to a folder, and any number read it.
        objects : str or path, optional
            Where large products are: a folder, or ``s3://bucket/prefix``. The store notes it, so that it is said once.
        objects_over : int or str, optional
            Products of more bytes are large (``"1MiB"``); as the store has noted, and 1 MiB for a new one.
        storage_options : dict, optional
            Settings by which the bucket is asked, as of `open`.

        Returns
        -------
        DataStore
            The store.

        Raises
        ------
        UsageError
            If the URL names no store, or its large products are at another place.
        KeyNotFoundError
            If it is not there, and not to be made.
        FileError
            If another process writes to it.
        FormatError
            If the folder holds something else.

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
                "mode is 'a' (read and write, and make it if it is not there), 'r+' (read and write what is there) or "
                f"'r' (read), not {mode!r}"
            )
        text = os.fspath(url)
        if not text.strip():
            raise UsageError(
                f"{text!r} names no store: give memory:, dir:PATH, redis://HOST:PORT or a configuration (.json)"
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
        """Where it is."""
        return self._core.url

    @property
    def is_durable(self) -> bool:
        """Whether what was flushed is there when the processes have ended that keep it.

        So it is in a folder, and in a Redis of which every server keeps a log (``appendonly yes``), but not in memory.
        """
        return self._core.is_durable

    @property
    def objects(self) -> str | None:
        """Where large products are, if not in the store."""
        return None if self._core.objects is None else self._core.objects[0]

    @property
    def objects_over(self) -> int | None:
        """More bytes than which make a product a large one; None if none is."""
        return None if self._core.objects is None else self._core.objects[1]

    def sweep_objects(self, *, age: float = 3600.0) -> Swept:
        """Delete objects beside the store that no product refers to, as crashes leave them.

        Parameters
        ----------
        age : float
            Seconds that an object must have been there: younger ones may be about to be referred to.

        Returns
        -------
        Swept
            How many objects are used, and how many were deleted.
        """
        return Swept(*self._core.sweep(age))

    @staticmethod
    def compact(url: str | os.PathLike[str]) -> tuple[int, int]:
        """Write the file of a store in a folder anew, without the room of what was deleted.

        Deleting does not make the file smaller: what is written later takes the room. The new file takes the place of
        the old one when it is whole and on the disk, so that a crash leaves one of them. The disk must have room for
        both.

        Parameters
        ----------
        url : str or path
            ``dir:PATH``, or a path that ends in ``.json``, which says where it is.

        Returns
        -------
        tuple of int
            The bytes of the file before and after.

        Raises
        ------
        FileError
            If a process has the store open, this one included.
        FormatError
            If the store is damaged.
        UsageError
            If it is not a store in a folder.

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
        """Remove what is left of datasets that have no name, as whoever wrote while others deleted them leaves it.

        Nobody can find it, and it takes up room. The whole store is looked through. Do not do it when servers of a
        cluster have lost what they had: the names of datasets may be what is missing.

        Returns
        -------
        int
            Of how many datasets there was something.

        Examples
        --------
        >>> import femtobarn as fb
        >>> fb.DataStore.connect("memory:").sweep_nameless()
        0
        """
        return self._core.sweep_nameless()

    def forget_class(self, name: str) -> None:
        """Forget which members a class has, so that products may be stored whose class of this name has others.

        The names of all products of the store are read, and again after seven seconds: so long programs that are
        connected may take the class for what it was, and nobody stores it. Queues are not looked at, nor products that
        wait in batches of other programs.

        Parameters
        ----------
        name : str
            The class, as "Track".

        Raises
        ------
        KeyNotFoundError
            If the store knows no such class.
        UsageError
            If there is a product that has it.

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
        """The dataset that all others are in. It holds datasets, and neither runs nor products."""
        return DataSet(self, *self._core.dataset(""))

    def create_dataset(self, name: str) -> DataSet:
        """Create a dataset, and those that it is in, if they are not there: as of `root`.

        Parameters
        ----------
        name : str
            Its full name; "a/b" is b in a.

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
        """Return how another process opens it to be read."""
        self.__reduce__()
        return self._given, "r" if self.url.startswith("dir:") else self._mode, self._settings

    def __reduce__(self) -> tuple[Any, tuple[str, str, dict[str, str]]]:
        if self.closed:
            raise UsageError(f"{self.url}: this store was closed: connect to it again")
        if not self._core.is_kept:  # a Redis without a log is there for other processes
            raise UsageError(f"{self.url}: a store in memory cannot be pickled: it ends with its process")
        # whoever unpickles it makes no folder
        mode = "r+" if self._mode == "a" and self.url.startswith("dir:") else self._mode
        return (reconnect, (self._given, mode, self._settings))

    def flush(self) -> None:
        """Return when all that was written is as durable as the store makes it."""
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
        """Begin to collect containers and products that are written together.

        Parameters
        ----------
        max_items : int
            Containers and products for each target of the store that are collected, at most.
        max_bytes : int
            Bytes of these, at most.
        overwrite : bool
            Whether products that are there are replaced; if not, they stay, and `WriteBatch.kept` names them.
        threads : int
            Threads that write in the background; with 0, whoever adds the last that fits writes.

        Returns
        -------
        WriteBatch
            A context manager, which writes what is left at its end.

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
        """Note what is to be closed with the store."""
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
        """Begin to collect containers and products that threads write in the background.

        Parameters
        ----------
        threads : int
            How many do.
        max_items, max_bytes, overwrite
            As of `write_batch`.

        Returns
        -------
        WriteBatch
            A context manager, which waits at its end until all is written.
        """
        at_least("threads", threads, 1)  # without any, use `write_batch`
        return self.write_batch(max_items=max_items, max_bytes=max_bytes, overwrite=overwrite, threads=threads)

    @known_options()
    def prefetcher(
        self,
        products: str | tuple[str, Any] | Iterable[str | tuple[str, Any]] = (),
        *,
        batch_size: int = 16_384,
        ahead: int = 2,
    ) -> Prefetcher:
        """Return what fetches events and products of theirs ahead of who iterates over them.

        Parameters
        ----------
        products : str, tuple or list
            A label, or a label and a type; or several of these.
        batch_size : int
            Events that are fetched together.
        ahead : int
            How many of these batches are fetched before they are asked for.

        Returns
        -------
        Prefetcher
            Call it with a dataset, run or subrun to iterate over its events.
        """
        return Prefetcher(self, listed(products), batch_size, ahead)

    def load_refs(self, refs: Any, *, default: Any = MISSING) -> Any:
        """Load what many references refer to, each product once, by few requests.

        Parameters
        ----------
        refs : array or sequence of Ptr
            References, or a column of them, however deep in lists.
        default : object, optional
            What stands in place of what is not there, or of a reference to nothing; None for a missing value.

        Returns
        -------
        ak.Array
            A value for each reference, in the shape of `refs`.

        Raises
        ------
        KeyNotFoundError
            If something is not there, and there is no default.

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
        """Create a queue between programs.

        Parameters
        ----------
        name : str
            Its name.
        kind : type or str
            The type of its values; queues of one name and several types are several queues.

        Raises
        ------
        ExistsError
            If there is one of this name and type.
        """
        if not self._core.create_queue(_queue(name, kind)):
            raise ExistsError(f"{self.url}: there is a queue {name!r} of {type_name_of(kind)} already")

    @known_options()
    def open_queue(self, name: str, kind: Any = bytes, *, mode: str, unpickle: bool = False) -> Queue:
        """Open a queue.

        Parameters
        ----------
        name, kind
            As of `create_queue`.
        mode : str
            "producer" to push to it, "consumer" to take from it.
        unpickle : bool
            Whether pickled values are unpickled, which runs whatever is in them.

        Returns
        -------
        Queue
            The queue. As long as a producer has it open, consumers wait for more.

        Raises
        ------
        KeyNotFoundError
            If there is none.
        """
        if mode not in ("producer", "consumer"):
            raise UsageError(f"mode is 'producer' or 'consumer', not {mode!r}")
        try:
            core = self._core.open_queue(_queue(name, kind), mode == "producer")
        except KeyNotFoundError as error:
            raise self._no_queue(name, kind) from error
        return self._opened(Queue(self, core, name, kind, unpickle))

    @known_options()
    def destroy_queue(self, name: str, kind: Any = bytes) -> None:
        """Remove a queue, with what is in it.

        Parameters
        ----------
        name, kind
            As of `create_queue`.

        Raises
        ------
        KeyNotFoundError
            If there is none.
        """
        if not self._core.destroy_queue(_queue(name, kind)):
            raise self._no_queue(name, kind)

    def _no_queue(self, name: str, kind: Any) -> KeyNotFoundError:
        """Return the error that says of which type there is a queue of this name."""
        wanted = type_name_of(kind)
        others = [*_OF_QUEUES, f"std::vector<{wanted}>", wanted.removeprefix("std::vector<").removesuffix(">")]
        there = []
        for other in others:
            with contextlib.suppress(KeyNotFoundError):
                self._core.open_queue(f"{name}#{other}", False)
                there.append(other)
        hint = f"there is one of {', '.join(there)}: say its type" if there else "create it first"
        return KeyNotFoundError(f"{self.url}: there is no queue {name!r} of {wanted}; {hint}")


def reconnect(url: str, mode: str, settings: dict[str, str]) -> DataStore:
    """Open a store as another process has it open; where its large products are, the store says."""
    return DataStore(_core.Store.connect(url, mode, settings=settings), url, mode, settings)


def _from_anywhere(url: str) -> str:
    """Return where a store is for processes that work in another folder."""
    scheme, _, rest = url.partition(":")
    if scheme == "dir":
        return f"dir:{Path(rest).absolute()}"
    return str(Path(url).absolute()) if url.endswith(".json") and "://" not in url else url


def _place(text: str) -> str:
    """Return a place of objects: a URL, or a path."""
    return text if "://" in text else str(Path(text).expanduser())


# Types that queues have as a rule, for messages
_OF_QUEUES = (BYTES, MSGPACK, PICKLE, "std::string", *DTYPES, *(f"std::vector<{name}>" for name in DTYPES))


def _queue(name: str, kind: Any) -> str:
    return f"{name}#{type_name_of(kind)}"


_BATCHES: weakref.WeakSet[WriteBatch] = weakref.WeakSet()
_BATCHES_LOCK = threading.Lock()  # a set cannot be gone through while another thread adds to it


def _forget_batches() -> None:
    """Behind a fork: what batches of the parent have collected is the parent's to write."""
    global _BATCHES, _BATCHES_LOCK
    _BATCHES, _BATCHES_LOCK = weakref.WeakSet(), threading.Lock()


os.register_at_fork(after_in_child=_forget_batches)


def flush_open(*, durable: bool = True) -> None:
    """Write all that batches of this process have collected; if not to be durable, it is as after single writes."""
    with _BATCHES_LOCK:
        batches = list(_BATCHES)
    for batch in batches:
        try:
            if durable:
                batch.flush()
            else:
                batch._core.write_all()
        except UsageError:
            if not batch._is_closed:  # by another thread, which has written it
                raise


class WriteBatch:
    """Containers and products that are collected, and written when there are many, or at the end of a ``with``.

    What could not be written is kept, and written by the next `flush` if that can.
    """

    def __init__(self, store: DataStore, core: _core.WriteBatch) -> None:
        self._store = store
        self._core = core
        self._kept: list[tuple[Container, Product]] = []
        self._datasets: set[bytes] = set()  # that were found to be there
        self._is_closed = False
        self._process = os.getpid()
        with _BATCHES_LOCK:
            _BATCHES.add(self)

    def __repr__(self) -> str:
        return f"<WriteBatch of {self._store.url!r}>"

    def _take(self, container: Container) -> None:
        """Fail if what is put in here for a container would go nowhere."""
        self._check_process()
        if not is_same(container._store, self._store):
            other = "another store" if self._store.url == container._store.url else self._store.url
            raise UsageError(
                f"{container} is in {container._store.url}, and this batch writes to {other}: make a batch of the "
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
        """Write all that was collected, and return when it is as durable as the store makes it."""
        self._check_process()
        self._core.flush()
        self._note(self._core.take_kept())

    def close(self) -> None:
        """Write all that was collected; nothing can be added any more.

        In a process that was forked since, nothing is written: it is the parent's.
        """
        self._is_closed = True
        if self._process != os.getpid():
            return
        self._note(self._core.close())

    @property
    def kept(self) -> list[tuple[Container, Product]]:
        """The products that were there and stayed as they were, as far as was written, with their containers."""
        return list(self._kept)

    def _take_kept(self) -> list[tuple[bytes, str, str]]:
        """Return the products that were kept as keys, labels and types, and forget them."""
        kept = [(container._key, product.label, product.type) for container, product in self._kept]
        self._kept = []
        return kept

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
        """Create many events, and store products of them by columns.

        Parameters
        ----------
        dataset : DataSet
            Where they are created, with their runs and subruns.
        products : dict
            A label, and an array with a value for each event.
        run, subrun, event : array of int
            The numbers of the events, or one number for all.
        types : dict, optional
            The types of products; by default what the arrays are.

        Raises
        ------
        UsageError
            If an event is there twice, or an array has not one value for each; nothing is created then.
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
                f"dataset is a DataSet, as of store[name] or create_dataset, not {_shown(dataset)}"
                + instead(dataset, "use the batch of its store for asyncio")
            )
        if not isinstance(products, Mapping):
            raise UsageError(
                f"products is a dict of labels with an array each, not {_shown(products)}; of a table with a column "
                "for each product, give {name: table[name] for name in table.columns}, and .fields of Awkward's records"
            )
        self._take(dataset)
        types = types or {}
        unknown = set(types) - set(products)
        if unknown:
            raise UsageError(f"types has {', '.join(sorted(unknown))}, which is no product that is given")
        keys = _keys(dataset, run, subrun, event)
        if (twice := _twice(keys)) is not None:
            raise UsageError(f"{twice} is given several times")
        try:
            self._store_columns(keys, products, types, create=True)
        except UsageError as error:
            raise told_how(error, "types={label: 'NEW'}, or of lists 'std::vector<NEW>'") from error.__cause__

    def _store_columns(self, keys: bytes, products: Mapping[str, Any], types: Mapping[str, Any], create: bool) -> None:
        """Store products of containers, of which these are the keys."""
        columns = []
        for name, values in products.items():
            kind = types.get(name)
            label, form = name, "value"
            if isinstance(kind, ColumnType):
                label, form = kind.label or name, kind.form
            type_name, batches = column(self._store, label, values, kind)
            if batches.num_entries not in (None, len(keys) // 40):
                raise UsageError(f"product {label!r} has {batches.num_entries} values for {len(keys) // 40} events")
            columns.append((label, form, type_name, batches))
        if create:
            self._core.create_all(keys)
        for label, form, type_name, batches in columns:
            self._core.store_rows(keys, (label, type_name), batches, form)


def _keys(dataset: DataSet, run: npt.ArrayLike, subrun: npt.ArrayLike, event: npt.ArrayLike) -> bytes:
    """Return the keys of events, one behind the other."""
    numbers = [_numbers(name, values) for name, values in (("run", run), ("subrun", subrun), ("event", event))]
    try:
        runs, subruns, events = np.broadcast_arrays(*numbers)
    except ValueError as error:
        raise UsageError(f"run, subrun and event are not of one length: {error}") from None
    if runs.ndim != 1:
        raise UsageError("run, subrun and event are numbers or arrays of numbers")
    keys = np.empty((len(runs), 5), ">u8")
    keys[:, :2] = np.frombuffer(dataset._key[:16], ">u8")
    keys[:, 2], keys[:, 3], keys[:, 4] = runs, subruns, events
    return keys.tobytes()


def _twice(keys: bytes) -> str | None:
    """Return the name of an event whose key is there several times; None if none is."""
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
    """Return a value as messages show it."""
    return repr(value) if isinstance(value, str | int) else f"a {type(value).__name__}"


def _numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    array = np.atleast_1d(np.asarray(values))
    if array.dtype.kind not in "iu" and isinstance(values, list | tuple):
        # NumPy makes reals of none, and of integers of which some need 64 bits
        wrong = [value for value in values if isinstance(value, bool) or not isinstance(value, int | np.integer)]
        if wrong:
            raise UsageError(f"{name} holds numbers without a fraction, not {wrong[0]!r}")
        array = np.array(values, object)
        if len(array) and not 0 <= array.min() <= array.max() < 2**64:
            raise UsageError(f"{name} holds {array.min()} to {array.max()}, and numbers are from 0 to {2**64 - 2}")
        array = array.astype(np.uint64)
    if array.dtype.kind not in "iu":
        raise UsageError(f"{name} holds numbers without a fraction, not {array.dtype}")
    if array.dtype.kind == "i" and len(array) and array.min() < 0:
        raise UsageError(f"{name} holds {array.min()}, and numbers are 0 or more")
    numbers = array.astype(np.uint64)
    if len(numbers) and numbers.max() == np.iinfo(np.uint64).max:
        raise UsageError(f"{name} holds {numbers.max()}, which stands for none")
    return numbers


class Queue:
    """A queue between programs: values come out in the order in which they went in, each once.

    As a context manager, it is closed at the end; iterating over it takes values until no producer has it open.
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
        """Add a value to the end.

        Parameters
        ----------
        value : object
            Of the queue's type.
        """
        try:
            _, stored = encoded(self._store, self.name, value, self.type)
        except UsageError as error:
            why = str(error).removeprefix(f"product {self.name!r}: ")
            raise UsageError(f"queue {self.name!r} of {self.type} takes no {type(value).__name__}: {why}") from error
        self._core.push(stored)

    def pop(self) -> Any:
        """Take a value from the front, and wait for one as long as a producer has the queue open.

        Returns
        -------
        object
            The value; in a queue of a dataclass, or of ``list[dataclass]``, these.

        Raises
        ------
        QueueEndedError
            If the queue is empty, and nobody will push any more.
        UsageError
            If its values are pickled, and it was opened without ``unpickle=True``; nothing is taken then.
        FormatError
            If the value is damaged. It is still in the queue then, as it is if it cannot be had for another reason.
        """
        self._check()
        stored = self._core.pop()
        if stored is None:
            raise self._ended()
        return self._value(stored)

    def _ended(self) -> QueueEndedError:
        return QueueEndedError(f"queue {self.name!r} is empty, and no producer has it open")

    def _check(self) -> None:
        """Fail if values can be taken and not be had."""
        if self.type == PICKLE and not self._unpickle:
            raise UsageError(
                f"values of queue {self.name!r} are pickled, and unpickling runs whatever is in them: if you trust who "
                "pushes them, open it with unpickle=True"
            )

    def _value(self, stored: bytes) -> Any:
        """Return a value that was taken; what fails puts it back."""
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
        """Say that nothing more will be pushed from here; in a process that was forked since, it says nothing."""
        if self._process == os.getpid():  # another thread may have had it locked, and is not there
            self._core.close()
