"""The connection to a store: opened, closed, pickled, and what the store says about itself."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from femtobarn import _core
from femtobarn._files.open import settings_of
from femtobarn._shared.caller import note_line
from femtobarn._shared.compat import known_options
from femtobarn._shared.steps import num_bytes
from femtobarn._store.arguments import at_least
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._store.queue import Queue
    from femtobarn._store.threads import Threads
    from femtobarn._store.write_batch import WriteBatch

__all__ = ["Connection", "Swept"]

_MOST = 2**63 - 1

_T = TypeVar("_T", "WriteBatch", "Queue")


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


class Connection:
    """A connection to an event store, which is closed at the end of a ``with`` block."""

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
        place = None if objects is None else _place(os.fspath(objects))
        over = None if objects_over is None else min(at_least("objects_over", num_bytes(objects_over), 0), _MOST)
        settings = {} if storage_options is None else settings_of(storage_options)
        note_line()
        core = _core.Store.connect(text, mode, place, over, settings)
        return cls(core, _core.absolute_store(text), mode, settings)

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

    def flush(self) -> None:
        """Wait until all writes are as durable as the store allows."""
        self._core.flush()

    def _opened(self, one: _T) -> _T:
        """Register an object to be closed with the store."""
        with self._lock:
            self._open.add(one)
        return one

    @classmethod
    def _reconnect(cls, url: str, mode: str, settings: dict[str, str]) -> Self:
        """Open a store as in another process; the location of large products is recorded in the store."""
        return cls(_core.Store.connect(url, mode, settings=settings), url, mode, settings)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url!r}{', closed' if self.closed else ''}>"

    def _as_read(self) -> tuple[str, str, dict[str, str]]:
        """Return how another process opens the store for reading."""
        self.__reduce__()
        return self._given, "r" if self.url.startswith("dir:") else self._mode, self._settings

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[str, str, dict[str, str]]]:
        if self.closed:
            raise UsageError(f"{self.url}: this store was closed: connect to it again", kind="store-closed")
        if not self._core.is_kept:  # other processes can use a Redis without a log
            raise UsageError(f"{self.url}: a store in memory cannot be pickled: it ends with its process")
        # unpickling must not create a directory
        mode = "r+" if self._mode == "a" and self.url.startswith("dir:") else self._mode
        return (type(self)._reconnect, (self._given, mode, self._settings))


def _place(text: str) -> str:
    """Return the location of objects: a URL, or a path."""
    return text if "://" in text else _core.local_path(text)
