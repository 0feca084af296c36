"""Batches of writes."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from femtobarn._shared.compat import known_options
from femtobarn._store.containers import container_of
from femtobarn._store.dataset import DataSet
from femtobarn._store.product_encoding import column, told_how
from femtobarn._store.product_names import Product
from femtobarn._store.twins import instead
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from femtobarn import _core
    from femtobarn._store.container import Container
    from femtobarn._store.datastore import DataStore

__all__ = ["WriteBatch", "flush_open", "keys_of"]

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
        if not container._store._core.is_same(self._store._core):
            other = "another store" if self._store.url == container._store.url else self._store.url
            raise UsageError(
                f"{container} is in {container._store.url}, but this batch writes to {other}: use a batch of the "
                "container's store"
            )
        uuid = container._core.uuid
        if uuid not in self._datasets and container._core.path is not None:
            container._core.check_dataset()
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

    def _note(self, kept: list[tuple[_core.Container, str, str]]) -> None:
        self._kept += [(container_of(self._store, core), Product(label, kind)) for core, label, kind in kept]

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
        keys = keys_of(dataset, run, subrun, event)
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


def keys_of(dataset: DataSet, run: npt.ArrayLike, subrun: npt.ArrayLike, event: npt.ArrayLike) -> bytes:
    """Return the keys of events, concatenated."""
    numbers = [_numbers(name, values) for name, values in (("run", run), ("subrun", subrun), ("event", event))]
    try:
        runs, subruns, events = np.broadcast_arrays(*numbers)
    except ValueError as error:
        raise UsageError(f"run, subrun and event differ in length: {error}") from None
    if runs.ndim != 1:
        raise UsageError("run, subrun and event must be numbers or arrays of numbers")
    keys = np.empty((len(runs), 5), ">u8")
    keys[:, :2] = np.frombuffer(dataset._core.uuid, ">u8")
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
