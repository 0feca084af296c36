"""Event stores: products by dataset, run, subrun and event, as in HEPnOS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import femtobarn
from femtobarn._shared.compat import known_options
from femtobarn._store.arguments import at_least, true_or_false
from femtobarn._store.connection import Connection
from femtobarn._store.dataset import DataSet
from femtobarn._store.load_refs import load_refs
from femtobarn._store.prefetch import Prefetcher
from femtobarn._store.product_names import listed
from femtobarn._store.product_types import type_name_of
from femtobarn._store.ptr import MISSING
from femtobarn._store.queue import Queue, no_queue, queue_name
from femtobarn._store.twins import at_once, reads
from femtobarn._store.write_batch import WriteBatch
from femtobarn.errors import ExistsError, KeyNotFoundError, UsageError

__all__ = ["DataStore"]

_MAX_ITEMS = 16_384
_MAX_BYTES = 16 << 20


class DataStore(Connection):
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
        return DataSet(self, self._core.root)

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

    @at_once
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

    @at_once
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

    @at_once
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

    @reads
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
        if not self._core.create_queue(queue_name(name, kind)):
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
            core = self._core.open_queue(queue_name(name, kind), mode == "producer")
        except KeyNotFoundError as error:
            raise no_queue(self, name, kind) from error
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
        if not self._core.destroy_queue(queue_name(name, kind)):
            raise no_queue(self, name, kind)
