"""What all containers of products are: datasets, runs, subruns and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from femtobarn._shared.compat import known_options
from femtobarn._store.arguments import true_or_false
from femtobarn._store.product_decoding import loaded
from femtobarn._store.product_encoding import encoded
from femtobarn._store.product_forms import As
from femtobarn._store.product_names import (
    Product,
    hint,
    is_unusual,
    named,
    spelled,
)
from femtobarn._store.product_types import fitting, type_name_of
from femtobarn._store.ptr import MISSING, Ptr, named_dataset
from femtobarn._store.twins import instead, reads
from femtobarn.errors import KeyNotFoundError, UsageError

if TYPE_CHECKING:
    from femtobarn import _core
    from femtobarn._store.dataset import DataSet
    from femtobarn._store.datastore import DataStore
    from femtobarn._store.write_batch import WriteBatch

__all__ = ["Container", "put_in"]


class Container:
    """A container of products: a dataset, run, subrun or event."""

    def __init__(self, store: DataStore, core: _core.Container) -> None:
        self._store = store
        self._core = core

    def __reduce__(self) -> tuple[Any, ...]:
        from femtobarn._store.containers import of_key

        return of_key, (self._store, self._core.key, self._core.path)

    @property
    def datastore(self) -> DataStore:
        """The store of the container."""
        return self._store

    @property
    def dataset(self) -> DataSet:
        """The dataset of the container; for a dataset, itself."""
        from femtobarn._store.dataset import DataSet

        core = self._core.named or named_dataset(self._store, self._core)
        if core is None:
            raise KeyNotFoundError(
                f"{self._store.url}: {self} belongs to no dataset of this store: the dataset with the UUID "
                f"{self._core.uuid.hex()} was deleted"
            )
        return DataSet(self._store, core)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Container) and self._core == other._core

    def __hash__(self) -> int:
        return hash(self._core)

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
            put_in(batch, self)
        type_name, stored = encoded(self._store, label, value, typename)
        if batch is not None:
            batch._core.store(self._core, (label, type_name), stored)
        else:
            self._check_there()
            self._core.store((label, type_name), stored, overwrite)

    @reads
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
        stored = None if name is None else self._core.load(name)
        if name is None or stored is None:
            if default is not MISSING:
                return default
            raise self._missing(label, None if name is None else name[1])
        return loaded(self._store, label, name[1], stored, form, unpickle=unpickle)

    @reads
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
            return spelled(label, kind, self._core.names(label) if is_unusual(kind) else ())
        there = self._core.names(label)
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
        there = hint("it has", label, type_name, self._core.names())
        return KeyNotFoundError(f"{self._store.url}: {self} has no product {what}; {there}")

    @reads
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
        label, kind = (None, None) if label is None else named(label)
        wanted = None if kind is None else type_name_of(kind)
        names = self._core.names(label)
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
            names = self._core.names(label)
        for name in names:
            self._core.remove_product(name)

    @reads
    def exists(self) -> bool:
        """Return whether the container exists in the store.

        Returns
        -------
        bool
            True if it exists.
        """
        return self._core.exists()

    def delete(self) -> None:
        """Delete the container with all its contents; repeat this if the deletion was interrupted."""
        self._core.remove()

    def _check_there(self) -> None:
        """Raise if it is a deleted dataset, even if a new dataset has its name."""

    def __repr__(self) -> str:
        path = self._core.path
        return f"<{type(self).__name__} {self}{'' if path is None else f' of dataset {path!r}'}>"

    def __str__(self) -> str:
        return str(self._core)


def put_in(batch: WriteBatch, container: Container) -> None:
    """Raise if the batch does not belong to the container's store."""
    take = getattr(batch, "_take", None)
    if take is None:
        way = instead(batch, "write through the container's own twin")
        raise UsageError(f"invalid batch {batch!r}: expected a batch of store.write_batch(){way}")
    take(container)
