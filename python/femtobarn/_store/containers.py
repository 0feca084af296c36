"""Datasets, runs, subruns and events of an event store."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from femtobarn._files.libraries import plain_output
from femtobarn._files.numpy_arrays import frombuffer
from femtobarn._shared.compat import known_options
from femtobarn._shared.optional import optional
from femtobarn._store.product_names import (
    check_columns,
    check_there,
    counts_of,
    hint,
    is_unusual,
    listed,
    named,
    none_has,
    resolved,
    spelled,
)
from femtobarn._store.product_types import checked_text, fitting
from femtobarn._store.products import As, encoded, loaded, reading, type_name_of
from femtobarn._store.ptr import MISSING, Ptr, is_same, path_of
from femtobarn._store.twins import instead
from femtobarn.errors import KeyNotFoundError, UsageError

if TYPE_CHECKING:
    from femtobarn._core_types import Node
    from femtobarn._store.datastore import DataStore, Product, WriteBatch

__all__ = ["Container", "DataSet", "Event", "Run", "SubRun", "at_least"]

_ABSENT = 2**64 - 1
_PAGE = 4096
_COUNTED = 65_536  # events whose keys are fetched together to be counted

_Child = TypeVar("_Child", bound="Container")
P = ParamSpec("P")
R = TypeVar("R")


class Container:
    """A container of products: a dataset, run, subrun or event."""

    def __init__(self, store: DataStore, key: bytes, path: str | None = None) -> None:
        self._store = store
        self._key = key
        self._path = path  # of its dataset, where that is known

    @staticmethod
    def _of(store: DataStore, key: bytes) -> Container:
        """Return the container of a key: a run, a subrun, an event, or a dataset of unknown name."""
        run, subrun, event = (int.from_bytes(key[at : at + 8], "big") for at in (16, 24, 32))
        if run == _ABSENT:
            return Container(store, key)
        if subrun == _ABSENT:
            return Run(store, key)
        return SubRun(store, key) if event == _ABSENT else Event(store, key)

    @property
    def datastore(self) -> DataStore:
        """The store of the container."""
        return self._store

    @property
    def dataset(self) -> DataSet:
        """The dataset of the container; for a dataset, itself."""
        path = path_of(self._store, self._key[:16]) if self._path is None else self._path
        if path is None:
            raise KeyNotFoundError(
                f"{self._store.url}: {self} belongs to no dataset of this store: the dataset with the UUID "
                f"{self._key[:16].hex()} was deleted"
            )
        return DataSet(self._store, path, self._key[:16] + b"\xff" * 24)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Container) and self._key == other._key and is_same(self._store, other._store)

    def __hash__(self) -> int:
        return hash((self._store.url, self._key))

    @known_options()
    def store(
        self,
        label: str,
        value: Any,
        *,
        typename: Any = None,
        overwrite: bool = True,
        batch: WriteBatch | None = None,
    ) -> None:
        """Store a product.

        Parameters
        ----------
        label : str
            The label. Several products can have the same label if their types differ.
        value : object
            Bytes, numbers, strings, arrays of Awkward, NumPy or Arrow, tables of pandas, Polars or Arrow, dataclasses
            or lists of them; dicts are stored as msgpack.
        typename : str or type, optional
            The type, such as "std::vector<Track>" or ``list[Track]``; by default the type of the value. The class of
            Awkward records is their name, or the label if they have none. "msgpack" and "pickle" store other objects.
        overwrite : bool
            Whether to replace an existing product with this label and type. A product with another type is kept: give
            `typename`, or call `delete_product` first.
        batch : WriteBatch, optional
            Batch that collects the write; by default it is written at once.

        Raises
        ------
        ExistsError
            If the product exists and `overwrite` is false.
        KeyNotFoundError
            If its dataset was deleted. The deletion of a single run, subrun or event is not detected, nor the deletion
            of their dataset by another process.
        UsageError
            If the value cannot be stored, if the store has its class with other members, or if the batch belongs to
            another store.

        Examples
        --------
        >>> import femtobarn as fb, numpy as np
        >>> subrun = fb.DataStore.connect("memory:").root.create_dataset("a").create_run(1).create_subrun(1)
        >>> event = subrun.create_event(1)
        >>> event.store("pt", np.array([1.5, 2.5], "f4"))
        >>> event.products()
        [Product(label='pt', type='std::vector<float>')]
        """
        if not isinstance(label, str):
            raise UsageError(f"invalid label {label!r}: expected a string; give its type with typename=")
        overwrite = true_or_false("overwrite", overwrite)
        if batch is not None:
            if not overwrite:
                raise UsageError(
                    "overwrite cannot be given with batch: set it for the whole batch, write_batch(overwrite=False)"
                )
            _put_in(batch, self)
        type_name, stored = encoded(self._store, label, value, typename)
        if batch is not None:
            batch._core.store(self._key, (label, type_name), stored)
        else:
            self._check_there()
            self._store._core.store(self._key, (label, type_name), stored, overwrite)

    @known_options()
    def load(
        self,
        label: str | tuple[str, Any],
        form: Any = None,
        *,
        typename: Any = None,
        default: Any = MISSING,
        unpickle: bool = False,
    ) -> Any:
        """Load a product.

        Parameters
        ----------
        label : str or tuple
            The label, or label and type.
        form : optional
            `fb.Awkward`, `fb.NumPy` or `fb.Arrow`; `bytes` for the stored bytes; a dataclass or ``list[dataclass]``. By
            default arrays are loaded as Awkward Arrays, and other values as Python objects.
        typename : str or type, optional
            The type. It is required if there are several products with this label, unless the form selects one of them:
            `float` selects a ``double``, or else a ``float``, and `int` selects the only integer.
        default : object, optional
            Value to return if the product does not exist.
        unpickle : bool
            Whether to unpickle a pickled product. Unpickling can run any code.

        Returns
        -------
        object
            The value.

        Raises
        ------
        KeyNotFoundError
            If the product does not exist and no default is given.
        FormatError
            If the stored value is damaged.
        """
        label, typename = named(label, typename)
        name = self._find(label, typename, form)
        stored = None if name is None else self._store._core.load(self._key, name)
        if name is None or stored is None:
            if default is not MISSING:
                return default
            raise self._missing(label, None if name is None else name[1])
        return loaded(self._store, label, name[1], stored, form, unpickle=unpickle)

    @known_options()
    def ref(self, label: str | tuple[str, Any], *, typename: Any = None, index: int | None = None) -> Ptr:
        """Return a reference to a product, which can itself be stored.

        Parameters
        ----------
        label : str or tuple
            The label, or label and type.
        typename : str or type, optional
            The type; then nothing is looked up, and the product may be stored later. By default, the type of the
            existing product with this label.
        index : int, optional
            Index of an element, if the product is a list.

        Returns
        -------
        Ptr
            The reference.

        Raises
        ------
        KeyNotFoundError
            If the product does not exist and no type is given.

        Examples
        --------
        >>> import femtobarn as fb
        >>> subrun = fb.DataStore.connect("memory:").root.create_dataset("a").create_run(1).create_subrun(1)
        >>> event = subrun.create_event(1)
        >>> event.store("pt", [1.5, 2.5])
        >>> event.store("best", event.ref("pt", index=1))
        >>> event.load("best").load()
        2.5
        """
        label, typename = named(label, typename)
        name = self._find(label, typename)
        if name is None:
            raise self._missing(label, None)
        return Ptr(self, *name, index)

    def _find(self, label: str, kind: Any, form: Any = None) -> tuple[str, str] | None:
        """Return the label and the type of a product; of several, the one that the form selects."""
        if kind is not None:
            return spelled(label, kind, self._store._core.names(self._key, label) if is_unusual(kind) else ())
        there = self._store._core.names(self._key, label)
        if len(there) > 1:
            kinds = [name[1] for name in there]
            if form is not None and form is not bytes and not isinstance(form, As):
                chosen = fitting(form, kinds)
                if chosen is not None:
                    return label, chosen
            raise UsageError(
                f"{self} has several products {label!r}, of types {', '.join(map(repr, kinds))}: select one with "
                f"typename=, or as ({label!r}, {kinds[0]!r})"
            )
        return there[0] if there else None

    def _missing(self, label: str, type_name: str | None) -> KeyNotFoundError:
        what = repr(label) if type_name is None else f"{label!r} of type {type_name}"
        there = hint("it has", label, type_name, self._store._core.names(self._key))
        return KeyNotFoundError(f"{self._store.url}: {self} has no product {what}; {there}")

    def products(self, label: str | tuple[str, Any] | None = None) -> list[Product]:
        """Return the existing products.

        Parameters
        ----------
        label : str or tuple, optional
            Return only products with this label, or with this label and type.

        Returns
        -------
        list of Product
            Their labels and types.
        """
        from femtobarn._store.datastore import Product

        label, kind = (None, None) if label is None else named(label)
        wanted = None if kind is None else type_name_of(kind)
        names = self._store._core.names(self._key, label)
        return [Product(*name) for name in names if wanted in (None, name[1])]

    @known_options()
    def delete_product(self, label: str | tuple[str, Any], *, typename: Any = None) -> None:
        """Delete a product of this container; do nothing if it does not exist.

        `DataSet.delete_products` deletes a product of all events.

        Parameters
        ----------
        label : str or tuple
            The label, or label and type.
        typename : str or type, optional
            The type; by default products of all types are deleted.
        """
        label, typename = named(label, typename)
        if typename is not None:
            name = self._find(label, typename)
            names = [] if name is None else [name]
        else:
            names = self._store._core.names(self._key, label)
        for name in names:
            self._store._core.remove_products(self._key, name)

    def exists(self) -> bool:
        """Return whether the container exists in the store.

        Returns
        -------
        bool
            True if it exists.
        """
        return self._store._core.exists(self._key)

    def delete(self) -> None:
        """Delete the container with all its contents; repeat this if the deletion was interrupted."""
        self._store._core.remove(self._key)

    def _check_there(self) -> None:
        """Raise if it is a deleted dataset, even if a new dataset has its name."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}{'' if self._path is None else f' of dataset {self._path!r}'}>"

    def __str__(self) -> str:
        return f"dataset {self._key[:16].hex()}"

    def _numbers(self) -> tuple[int, int, int]:
        """Return run, subrun and event."""
        run, subrun, event = (int.from_bytes(self._key[at : at + 8], "big") for at in (16, 24, 32))
        return run, subrun, event


def _one_argument(method: Callable[P, R]) -> Callable[P, R]:
    """Make `arrays` explain its arguments if more than the products are given by position."""

    @functools.wraps(method)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if len(args) <= 2:
            return method(*args, **kwargs)
        products, given = args[1:3]
        if isinstance(given, As):
            raise UsageError(
                f"select the library of arrays with library=: arrays({products!r}, library={given.value!r})"
            )
        raise UsageError(
            f"arrays takes products (several as a list), and other arguments by name, e.g. library='np', not {given!r}"
        )

    return checked


class _Holder(Container, Generic[_Child]):
    """A container with numbered containers."""

    _child: type[_Child]

    def _create(self, number: int, batch: WriteBatch | None) -> _Child:
        number = _number(number)
        if batch is None:
            self._check_there()
            return self._child(self._store, self._store._core.create(self._key, number), self._path)
        _put_in(batch, self)
        key = self._store._core.child(self._key, number)
        batch._core.create(key)
        return self._child(self._store, key, self._path)

    @overload
    def __getitem__(self, number: int) -> _Child: ...
    @overload
    def __getitem__(self, number: slice) -> Iterator[_Child]: ...
    def __getitem__(self, number: int | slice) -> _Child | Iterator[_Child]:
        if isinstance(number, slice):
            return self._slice(number)
        return self._child(self._store, self._store._core.get(self._key, _number(number)), self._path)

    def _pages(self, start: int = 0, stop: int = _ABSENT) -> Generator[list[_Child], None, None]:
        """Iterate over its containers, in batches of one request."""
        self._check_there()
        while start < stop:
            numbers = self._store._core.numbers(self._key, start, stop, _PAGE)
            keys = [self._store._core.child(self._key, number) for number in numbers]
            yield [self._child(self._store, key, self._path) for key in keys]
            if len(numbers) < _PAGE:
                return
            start = numbers[-1] + 1

    def _children(self) -> Iterator[_Child]:
        return itertools.chain.from_iterable(self._pages())

    def _slice(self, part: slice) -> Iterator[_Child]:
        return itertools.chain.from_iterable(self._pages(*_range(part)))

    def __contains__(self, number: object) -> bool:
        if isinstance(number, Container):
            return self._holds(number) and number.exists()
        if not isinstance(number, int) or not 0 <= number < _ABSENT:
            return False
        return self._child(self._store, self._store._core.child(self._key, number)).exists()

    def _holds(self, other: Container) -> bool:
        """Whether a container would be in this one, if it exists."""
        if not isinstance(other, self._child) or not is_same(self._store, other._store):
            return False
        number: int = getattr(other, "number")  # noqa: B009 - all that are held by number have one
        return self._store._core.child(self._key, number) == other._key

    def numbers(self, start: int = 0, stop: int | None = None) -> list[int]:
        """Return the numbers of its containers, in ascending order.

        Parameters
        ----------
        start : int
            Lowest number.
        stop : int, optional
            End of the range, exclusive.

        Returns
        -------
        list of int
            The numbers.

        Raises
        ------
        KeyNotFoundError
            If this is a deleted dataset.
        """
        self._check_there()
        stop = _ABSENT if stop is None else _end(stop)
        return self._store._core.numbers(self._key, _number(start), stop, 2**63 - 1)

    def events(self, *, batch_size: int = 16_384) -> Iterator[Event]:
        """Iterate over all events, sorted by run, subrun and event.

        Parameters
        ----------
        batch_size : int
            Number of keys fetched per request.

        Returns
        -------
        iterator of Event
            The items, one by one.

        Raises
        ------
        KeyNotFoundError
            If this is a deleted dataset.
        """
        return itertools.chain.from_iterable(self._event_pages(batch_size))

    def n_events(self) -> int:
        """Count all events, by reading their keys.

        Returns
        -------
        int
            Number of events.

        Raises
        ------
        KeyNotFoundError
            If this is a deleted dataset.

        Examples
        --------
        >>> import femtobarn as fb
        >>> dataset = fb.DataStore.connect("memory:").root.create_dataset("a")
        >>> _ = dataset.create_run(43).create_subrun(1).create_event(2)
        >>> dataset.n_events()
        1
        """
        self._check_there()
        loader = self._store._core.loader(self._key, [], _COUNTED, 1)
        try:
            return sum(len(some) for some in loader)
        finally:
            loader.close()

    def event_products(self) -> dict[Product, int]:
        """Count the events that have each product, by reading the names of all products.

        Returns
        -------
        dict of Product to int
            Number of events for each product, sorted by label.

        Examples
        --------
        >>> import femtobarn as fb
        >>> store = fb.DataStore.connect("memory:")
        >>> dataset = store.root.create_dataset("a")
        >>> with store.write_batch() as batch:
        ...     batch.store_arrays(dataset, {"n": range(3)}, run=1, subrun=2, event=range(3))
        >>> dataset[1][2][0].store("weight", 0.5)
        >>> dataset.event_products()
        {Product(label='n', type='std::int64_t'): 3, Product(label='weight', type='double'): 1}
        """
        from femtobarn._store.datastore import Product

        return {Product(*name): n for name, n in sorted(counts_of([self]).items())}

    def _event_pages(self, batch_size: int) -> Generator[list[Event], None, None]:
        self._check_there()
        loader = self._store._core.loader(self._key, [], at_least("batch_size", batch_size, 1), 1)
        try:
            for some in loader:
                keys = some.keys()
                yield [Event(self._store, keys[at : at + 40], self._path) for at in range(0, len(keys), 40)]
        finally:
            loader.close()

    @known_options()
    @_one_argument
    def arrays(
        self,
        products: str | tuple[str, Any] | Iterable[str | tuple[str, Any]],
        *,
        typename: Any = None,
        numbers: bool = False,
        library: str = "ak",
    ) -> Any:
        """Load products of all events as arrays.

        Parameters
        ----------
        products : str, tuple or list
            A label, or a label and a type; or several of these. Missing types are found by reading the names of all
            products.
        typename : str or type, optional
            The type, for a single label.
        numbers : bool
            Whether to add the fields ``run``, ``subrun`` and ``event``.
        library : str
            "ak", "np", "arrow", "pd" or "pl".

        Returns
        -------
        array
            For one product its values, for several products records with a field per label. If an event lacks a
            product, its value is missing.

        Raises
        ------
        KeyNotFoundError
            If no event has the product (with this type, if given), or if this is a deleted dataset.
        UsageError
            If events have products with this label of several types, and no type is given.
        """
        return self._arrays([self], _typed(products, typename), numbers, library)

    def _arrays(
        self,
        parts: Sequence[_Holder[Any]],
        products: str | tuple[str, Any] | Iterable[str | tuple[str, Any]],
        numbers: bool,
        library: str,
    ) -> Any:
        """Load products of all events in some of its containers, or in itself."""
        self._check_there()
        wanted = listed(products)
        names = resolved(self, wanted, parts)
        check_columns(names, numbers)
        try:
            with reading(names):
                batch = self._store._core.arrays([part._key for part in parts], names, numbers)
        except UsageError:
            check_there(self, parts, names)  # an unknown type may be a type that no product has
            raise
        if batch.num_entries:
            columns = dict(batch.columns())
            check_there(self, parts, [name for name in names if _is_missing(columns[name[0]])])
        single = names[0][0] if isinstance(products, str | tuple) and not numbers else None
        output = plain_output(batch, single, library)
        if batch.num_entries or type(output).__module__.partition(".")[0] != "awkward":
            return output
        ak = optional("awkward", "all")
        for product in wanted:
            if isinstance(product, str):  # its type is unknown
                output = ak.Array([]) if single else ak.with_field(output, ak.Array([]), product)
        return output

    @known_options()
    def delete_products(self, label: str | tuple[str, Any], *, typename: Any = None) -> int:
        """Delete a product of all events.

        Products of the container itself, and of its runs and subruns, are kept. If the deletion was interrupted, some
        products remain: delete them again.

        Parameters
        ----------
        label : str or tuple
            The label of the product, or label and type.
        typename : str or type, optional
            The type; by default products of all types are deleted.

        Returns
        -------
        int
            Number of deleted products.

        Raises
        ------
        KeyNotFoundError
            If no event has the product (with this type, if given).

        Examples
        --------
        >>> import femtobarn as fb
        >>> run = fb.DataStore.connect("memory:").root.create_dataset("a").create_run(43)
        >>> for number in range(3):
        ...     run.create_subrun(1).create_event(number).store("mass", 91.2)
        >>> run.delete_products("mass")
        3
        """
        return self._delete_products([self], label, typename)

    def _delete_products(self, parts: Sequence[_Holder[Any]], label: str | tuple[str, Any], typename: Any) -> int:
        label, kind = named(label, typename)
        if kind is not None:
            label, kind = spelled(label, kind, counts_of(parts) if is_unusual(kind) else ())
        n, others = self._store._core.remove_event_products([part._key for part in parts], label, kind)
        if n == 0:
            raise none_has(self, parts, label, kind, others)
        return n

    def _subruns(self) -> Iterator[SubRun]:
        """Iterate over the subruns of its events."""
        below: Iterator[Any] = self._children()
        return itertools.chain.from_iterable(child._subruns() for child in below)


def _put_in(batch: WriteBatch, container: Container) -> None:
    """Raise if the batch does not belong to the container's store."""
    take = getattr(batch, "_take", None)
    if take is None:
        way = instead(batch, "write through the container's own twin")
        raise UsageError(f"invalid batch {batch!r}: expected a batch of store.write_batch(){way}")
    take(container)


def _typed(products: Any, kind: Any) -> Any:
    """Return products as given; a single one with its type."""
    if kind is None:
        return products
    if not isinstance(products, str | tuple):
        raise UsageError("typename= is for a single label: give several products as (label, type) each")
    return named(products, kind)


def _is_missing(column: Node) -> bool:
    """Whether a column has no value at all."""
    return column[0] == "option" and bool((frombuffer(column[1], "i8") < 0).all())


def _range(part: slice) -> tuple[int, int]:
    """Return the first number of a slice, and its exclusive end."""
    if part.step not in (None, 1):
        raise UsageError("containers can only be sliced by numbers, without a step")
    start, stop = part.start, part.stop
    return 0 if start is None else _number(start), _ABSENT if stop is None else _end(stop)


def at_least(name: str, number: Any, least: int) -> int:
    """Check that a number has a minimum value, and return it.

    Parameters
    ----------
    name : str
        Its name, for messages.
    number : int
        The number.
    least : int
        The minimum.

    Returns
    -------
    int
        The number.

    Raises
    ------
    UsageError
        If it is smaller, or not a number.
    """
    value = _index(number)
    if value is None or value < least:
        raise UsageError(f"{name} must be {least} or more, not {number!r}")
    return value


def true_or_false(name: str, value: Any) -> bool:
    """Check that a value is a boolean, and return it.

    Parameters
    ----------
    name : str
        Its name, for messages.
    value : bool
        The value.

    Returns
    -------
    bool
        The same.

    Raises
    ------
    UsageError
        If it is not a boolean.
    """
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def _index(number: Any) -> int | None:
    """Return an integer of any kind, or None: arrays look like integers until they are converted."""
    try:
        return operator.index(number)
    except TypeError:
        return None


def _number(number: Any) -> int:
    value = None if isinstance(number, bool) else _index(number)
    if value is None:
        raise UsageError(f"invalid number {number!r}: expected the integer of a run, subrun or event")
    if not 0 <= value < _ABSENT:
        raise UsageError(f"{value} is not a number of a run, subrun or event: expected 0 to 2**64 - 2")
    return value


def _end(number: Any) -> int:
    """Return the exclusive end of a range, which may be one more than the highest number."""
    return _ABSENT if number == _ABSENT else _number(number)


class Event(Container):
    """An event: holds products by label and type."""

    @property
    def number(self) -> int:
        """Its number."""
        return self._numbers()[2]

    @property
    def run(self) -> Run:
        """Its run."""
        return Run(self._store, self._key[:24] + b"\xff" * 16, self._path)

    @property
    def subrun(self) -> SubRun:
        """Its subrun."""
        return SubRun(self._store, self._key[:32] + b"\xff" * 8, self._path)

    def __str__(self) -> str:
        run, subrun, event = self._numbers()
        return f"run {run}, subrun {subrun}, event {event}"


class SubRun(_Holder[Event]):
    """A subrun: holds events by number, and products."""

    _child = Event

    @property
    def number(self) -> int:
        """Its number."""
        return self._numbers()[1]

    @property
    def run(self) -> Run:
        """Its run."""
        return Run(self._store, self._key[:24] + b"\xff" * 16, self._path)

    def create_event(self, number: int, *, batch: WriteBatch | None = None) -> Event:
        """Create an event; an existing one is returned.

        Parameters
        ----------
        number : int
            Its number, from 0 to 2**64 - 2.
        batch : WriteBatch, optional
            Batch that collects the write; by default it is written at once.

        Returns
        -------
        Event
            The event.
        """
        return self._create(number, batch)

    def __iter__(self) -> Iterator[Event]:
        return self.events()

    def _subruns(self) -> Iterator[SubRun]:
        return iter((self,))

    def __str__(self) -> str:
        run, subrun, _ = self._numbers()
        return f"run {run}, subrun {subrun}"


class Run(_Holder[SubRun]):
    """A run: holds subruns by number, and products."""

    _child = SubRun

    @property
    def number(self) -> int:
        """Its number."""
        return self._numbers()[0]

    def create_subrun(self, number: int, *, batch: WriteBatch | None = None) -> SubRun:
        """Create a subrun; an existing one is returned.

        Parameters
        ----------
        number : int
            Its number, from 0 to 2**64 - 2.
        batch : WriteBatch, optional
            Batch that collects the write; by default it is written at once.

        Returns
        -------
        SubRun
            The subrun.
        """
        return self._create(number, batch)

    def __iter__(self) -> Iterator[SubRun]:
        return self._children()

    def _subruns(self) -> Iterator[SubRun]:
        return self._children()

    def __str__(self) -> str:
        return f"run {self.number}"


class DataSet(_Holder[Run]):
    """A dataset: holds datasets by name, runs by number, and products.

    Attributes
    ----------
    path : str
        Its full name.
    """

    _child = Run

    def __init__(self, store: DataStore, path: str, key: bytes) -> None:
        super().__init__(store, key, path)
        self.path = path

    @property
    def name(self) -> str:
        """The last part of its full name."""
        return self.path.rpartition("/")[2]

    @property
    def uuid(self) -> str:
        """The UUID in the keys of its containers and products, in hexadecimal digits."""
        return self._key[:16].hex()

    def _within(self, name: str) -> str:
        checked_text(name, "dataset's name")
        return f"{self.path}/{name.strip('/')}" if self.path else name

    def create_dataset(self, name: str) -> DataSet:
        """Create a dataset in this one, including the datasets between; existing ones are kept.

        Parameters
        ----------
        name : str
            The name; "a/b" is b in a.

        Returns
        -------
        DataSet
            The dataset.

        Raises
        ------
        ExistsError
            If one of them is being deleted, or its deletion was interrupted: finish it with `delete_dataset`.
        KeyNotFoundError
            If this dataset was deleted, even if a new dataset has its name.
        """
        self._check_name(name)
        return DataSet(self._store, *self._store._core.create_dataset(self.path, self._key, name))

    def delete_dataset(self, name: str) -> None:
        """Delete a dataset in this one, with all its datasets, runs and products.

        It becomes invisible at once. An interrupted deletion is finished by calling this again.

        Parameters
        ----------
        name : str
            The name; "a/b" is b in a.

        Raises
        ------
        KeyNotFoundError
            If it does not exist, and nothing of it remains.
        """
        self._check_name(name)
        self._store._core.delete_dataset(self._within(name))

    def _check_name(self, name: str) -> None:
        if not isinstance(name, str):
            raise UsageError(f"the name of a dataset must be a string, not {name!r}")
        if not name.strip("/"):
            raise UsageError(f"invalid dataset name {name!r}: it is empty")
        checked_text(name, "dataset's name")

    def create_run(self, number: int, *, batch: WriteBatch | None = None) -> Run:
        """Create a run; an existing one is returned.

        Parameters
        ----------
        number : int
            Its number, from 0 to 2**64 - 2.
        batch : WriteBatch, optional
            Batch that collects the write; by default it is written at once.

        Returns
        -------
        Run
            The run.
        """
        return self._create(number, batch)

    @overload
    def __getitem__(self, key: str) -> DataSet: ...
    @overload
    def __getitem__(self, key: int) -> Run: ...
    @overload
    def __getitem__(self, key: slice) -> Iterator[Run]: ...
    def __getitem__(self, key: str | int | slice) -> DataSet | Run | Iterator[Run]:
        if isinstance(key, str):
            return DataSet(self._store, *self._store._core.dataset(self._within(key)))
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            return self._store._core.find_dataset(self._within(key)) is not None
        if isinstance(key, DataSet):
            is_child = is_same(self._store, key._store) and key.path == self._within(key.name)
            return is_child and key.path != self.path and key.exists()
        return super().__contains__(key)

    def __iter__(self) -> Iterator[DataSet]:
        return self.datasets()

    @known_options()
    def load(
        self,
        label: str | tuple[str, Any],
        form: Any = None,
        *,
        event: tuple[int, int, int] | None = None,
        typename: Any = None,
        default: Any = MISSING,
        unpickle: bool = False,
    ) -> Any:
        """Load a product of the dataset, or of one of its events.

        ``dataset.load(label, event=(1, 2, 3))`` is the same as ``dataset[1][2][3].load(label)``. With a typename it
        sends one request to a server instead of four; without a typename, both send two more to find the type.

        Parameters
        ----------
        label : str or tuple
            The label, or label and type.
        form : optional
            As in `Container.load`.
        event : tuple of three int, optional
            Run, subrun and event of the product; by default, a product of the dataset itself is loaded.
        typename : str or type, optional
            As in `Container.load`.
        default : object, optional
            Value to return if the dataset or event exists, but has no such product.
        unpickle : bool
            Whether to unpickle a pickled product. Unpickling can run any code.

        Returns
        -------
        object
            The value.

        Raises
        ------
        KeyNotFoundError
            If the run, subrun or event does not exist; or if the product does not exist and no default is given.
        FormatError
            If the stored value is damaged.

        Examples
        --------
        >>> import femtobarn as fb
        >>> dataset = fb.DataStore.connect("memory:").root.create_dataset("a")
        >>> dataset.create_run(1).create_subrun(2).create_event(3).store("pt", 1.5)
        >>> dataset.load("pt", event=(1, 2, 3), typename=float)
        1.5
        """
        if event is None:
            return super().load(label, form, typename=typename, default=default, unpickle=unpickle)
        try:
            run, subrun, number = event
        except (TypeError, ValueError):
            raise UsageError(f"invalid event={event!r}: expected a tuple (run, subrun, event)") from None
        run, subrun, number = _number(run), _number(subrun), _number(number)
        key = functools.reduce(self._store._core.child, (run, subrun, number), self._key)
        of_event, nothing = Event(self._store, key, self._path), object()
        value = of_event.load(label, form, typename=typename, default=nothing, unpickle=unpickle)
        if value is nothing:
            self[run][subrun][number]  # an error if it does not exist
            return of_event.load(label, form, typename=typename, default=default, unpickle=unpickle)
        return value

    def datasets(self) -> Iterator[DataSet]:
        """Iterate over its datasets, sorted by name.

        Yields
        ------
        DataSet
            The items, one by one.
        """
        for path, key in self._store._core.datasets(self.path):
            yield DataSet(self._store, path, key)

    def runs(self) -> Iterator[Run]:
        """Iterate over its runs, sorted by number.

        Returns
        -------
        iterator of Run
            The items, one by one.
        """
        return self._children()

    @known_options()
    @_one_argument
    def arrays(
        self,
        products: str | tuple[str, Any] | Iterable[str | tuple[str, Any]],
        *,
        runs: int | slice | Iterable[int] | None = None,
        typename: Any = None,
        numbers: bool = False,
        library: str = "ak",
    ) -> Any:
        """Load products of all its events as arrays.

        Parameters
        ----------
        products : str, tuple or list
            A label, or a label and a type; or several of these.
        runs : int, iterable of int, slice or range, optional
            Only events of these runs, sorted by number. All given runs must exist; in a slice or range, missing runs
            are skipped.
        typename : str or type, optional
            The type, for a single label.
        numbers : bool
            Whether to add the fields ``run``, ``subrun`` and ``event``.
        library : str
            "ak", "np", "arrow", "pd" or "pl".

        Returns
        -------
        array
            For one product its values, for several products records with a field per label.

        Examples
        --------
        >>> import femtobarn as fb
        >>> dataset = fb.DataStore.connect("memory:").root.create_dataset("a")
        >>> dataset.create_run(43).create_subrun(1).create_event(2).store("n", 5)
        >>> dataset.arrays("n", runs=43, numbers=True).tolist()
        [{'run': 43, 'subrun': 1, 'event': 2, 'n': 5}]
        """
        parts = [self] if runs is None else self._runs(runs)
        return self._arrays(parts, _typed(products, typename), numbers, library)

    @known_options()
    def delete_products(
        self, label: str | tuple[str, Any], *, typename: Any = None, runs: int | slice | Iterable[int] | None = None
    ) -> int:
        """Delete a product of all its events, but not of events of nested datasets.

        Products of the dataset itself, and of its runs and subruns, are kept. If the deletion was interrupted, some
        products remain: delete them again.

        Parameters
        ----------
        label : str or tuple
            The label of the product, or label and type.
        typename : str or type, optional
            The type; by default products of all types are deleted.
        runs : int, iterable of int, slice or range, optional
            Only of events of these runs; in a slice or range, missing runs are skipped.

        Returns
        -------
        int
            Number of deleted products.

        Raises
        ------
        KeyNotFoundError
            If no event has the product (with this type, if given).

        Examples
        --------
        >>> import femtobarn as fb
        >>> dataset = fb.DataStore.connect("memory:").root.create_dataset("a")
        >>> for number in range(3):
        ...     dataset.create_run(43).create_subrun(1).create_event(number).store("mass", 91.2)
        >>> dataset.delete_products("mass", runs=43)
        3
        """
        parts = [self] if runs is None else self._runs(runs)
        return self._delete_products(parts, label, typename)

    def _runs(self, runs: int | str | slice | Iterable[int]) -> list[Run]:
        """Return the runs with these numbers, in ascending order."""
        if isinstance(runs, str):
            raise UsageError(f"runs must be numbers, e.g. 301, [301, 305] or slice(300, 310), not the string {runs!r}")
        if isinstance(runs, slice):
            return list(self[runs])
        if isinstance(runs, range):
            ends = sorted((runs[0], runs[-1])) if runs else (0, -1)
            return [run for run in self[ends[0] : ends[1] + 1] if run.number in runs]
        numbers = runs if isinstance(runs, Iterable) else [runs]
        return [self[number] for number in sorted({_number(number) for number in numbers})]

    def exists(self) -> bool:
        """Return whether the dataset exists in the store: a deleted one does not, even if a new dataset has its name.

        Returns
        -------
        bool
            True if it exists.
        """
        found = self._store._core.find_dataset(self.path)
        return found is not None and found[1] == self._key

    def _check_there(self) -> None:
        if not self.exists():
            raise self._gone()

    def _gone(self) -> KeyNotFoundError:
        return KeyNotFoundError(
            f"{self._store.url}: {self} was deleted after this object was made: find it by its name, or create it, "
            "again"
        )

    def __repr__(self) -> str:
        return f"<DataSet {self}>"

    def delete(self) -> None:
        """Delete the dataset with all its datasets, runs and products; the root is emptied.

        It becomes invisible at once, with its contents. After an interrupted deletion, some data remain, and nothing
        can be created with its name until the deletion is repeated with this method or `delete_dataset`.
        """
        if not self._store._core.remove_dataset(self.path, self._key):
            raise self._gone()

    def __str__(self) -> str:
        return f"dataset {self.path!r}"
