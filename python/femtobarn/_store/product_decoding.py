"""Decoding of products: from their stored bytes to values."""

from __future__ import annotations

import contextlib
import functools
import pickle
import re
import typing
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn import _core
from femtobarn._files.numpy_arrays import layout_to_numpy
from femtobarn._shared.optional import optional
from femtobarn._store.product_forms import Arrow, As, NumPy, check_form
from femtobarn._store.product_types import (
    MSGPACK,
    NUMBERS,
    PICKLE,
    is_opaque,
)
from femtobarn._store.ptr import PTR, Ptr
from femtobarn.errors import ChecksumError, FormatError, UsageError

if TYPE_CHECKING:
    from femtobarn._core import Batch
    from femtobarn._store.datastore import DataStore

__all__ = ["Column", "decoded", "element", "loaded", "reading", "rows_dtype"]

_LITTLE = {name: np.dtype(name).newbyteorder("<") for name in NUMBERS}
_UNKNOWN = re.compile("no description of class|not a known type")


_OF_BOOST = re.compile(r"hepnos::(Ptr<|ProductID\b)")


def loaded(store: DataStore, label: str, type_name: str, stored: bytes, form: Any, *, unpickle: bool = False) -> Any:
    """Return a stored value in the requested form.

    Parameters
    ----------
    store : DataStore
        Its store.
    label : str
        The product's label.
    type_name : str
        The type in its name.
    stored : bytes
        The stored bytes.
    form : As, type or None
        The requested form; None for the natural one of the type.
    unpickle : bool
        Whether to unpickle pickled values. Unpickling can run any code.

    Returns
    -------
    object
        The value.

    Raises
    ------
    UsageError
        If it cannot be loaded in this form.
    """
    if form is bytes:
        return stored
    if is_opaque(type_name):
        value = _opaque(label, type_name, stored, form, unpickle)
        if form is None or value is None or isinstance(value, typing.get_origin(form) or form):
            return value
        raise UsageError(
            f"product {label!r} is stored as {type_name}, and is a {type(value).__name__}: load it without a form"
        )
    try:
        if not isinstance(form, As):
            value = store._codec.read(store, label, stored, type_name, form)
            if value is not NotImplemented:
                return value
        view = None if form is Arrow else store._codec.view(stored, type_name)
    except (UsageError, FormatError) as error:
        raise _of_boost([(label, type_name)], error) from None
    array = None if view is None else _array(stored, view, form)
    return decoded(store, label, type_name, [stored]).at(0, form) if array is None else array


def _array(stored: bytes, view: Any, form: As | None) -> Any:
    """Return what lies as an array of NumPy does; None of booleans, whose bytes may be any."""
    name, shape, rest = view
    if isinstance(shape, int):
        return _rows(stored, name, shape, rest, form)
    if name == "bool":
        return None
    array: Any = np.ndarray(shape, _LITTLE[name], stored, rest)
    if form is NumPy:
        return array
    ak = optional("awkward", "all")
    return ak.Array(ak.contents.NumpyArray(array))  # the same result as ak.Array, without inspecting the argument


def _rows(stored: bytes, name: str, size: int, members: list[tuple[str, str, int]], form: As | None) -> Any:
    """Return a list of a class of numbers: as an array of NumPy with fields, or as an Awkward Array of records."""
    rows = np.frombuffer(stored, rows_dtype(size, members), offset=8)
    dtypes = [(member, np.dtype(dtype)) for member, dtype, _ in members]
    columns = [rows[member] != 0 if dtype.kind == "b" else rows[member].astype(dtype) for member, dtype in dtypes]
    if form is NumPy:
        array = np.empty(len(rows), dtypes)
        for (member, _), column in zip(dtypes, columns, strict=True):
            array[member] = column
        return array
    ak = optional("awkward", "all")
    contents = [ak.contents.NumpyArray(column) for column in columns]
    names = [member for member, _ in dtypes]
    return ak.Array(ak.contents.RecordArray(contents, names, len(rows), parameters={"__record__": name}))


def rows_dtype(size: int, members: list[tuple[str, str, int]]) -> np.dtype[Any]:
    """Return where numbers lie; that of a bool is a byte, which may be any in what C++ has stored."""
    names, dtypes, offsets = zip(*members, strict=True)
    formats = [_LITTLE[name.replace("bool", "uint8")] for name in dtypes]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


def element(store: DataStore, label: str, type_name: str, stored: bytes, form: Any, index: int) -> Any:
    """Return an element of a stored value in the requested form.

    Parameters
    ----------
    store : DataStore
        Its store.
    label : str
        The product's label.
    type_name : str
        The type in its name.
    stored : bytes
        The stored bytes.
    form : As, type or None
        The requested form; None for the natural one of the type.
    index : int
        Index of the element.

    Returns
    -------
    object
        The element.

    Raises
    ------
    IndexError
        If it has fewer elements.
    UsageError
        If it has no elements, or cannot be loaded in this form.
    """
    if is_opaque(type_name) or form is bytes:
        what = "an element cannot be loaded as bytes" if form is bytes else "it has no elements to refer to"
        raise UsageError(f"product {label!r} is a {type_name}: {what}")
    if form is None or isinstance(form, As):
        return decoded(store, label, type_name, [stored]).elements(0).at(index, form)
    check_form(label, form)
    elements = loaded(store, label, type_name, stored, list[form])
    if index >= len(elements):
        raise IndexError(f"it has {len(elements)} elements")
    return elements[index]


def decoded(store: DataStore, label: str, type_name: str, stored: list[bytes | None]) -> Column:
    """Return stored values of one type.

    Parameters
    ----------
    store : DataStore
        Their store.
    label : str
        The products' label.
    type_name : str
        The type in their names.
    stored : list of bytes or None
        The stored bytes of each, or None.

    Returns
    -------
    Column
        The values.

    Raises
    ------
    FormatError
        If one of them is damaged.
    UsageError
        If only C++ can read them.
    """
    with reading([(label, type_name)]):
        batch = store._core.decode(stored, type_name, label)
    return Column(store, label, type_name, _awkward(batch, label))


@contextlib.contextmanager
def reading(names: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Add to errors of reading products that Boost may have written them.

    Parameters
    ----------
    names : iterable of (str, str)
        Labels and types of the products.

    Raises
    ------
    UsageError
        If only C++ can read one.
    """
    names = list(names)
    for name in names:
        if _OF_BOOST.search(name[1]):
            raise _only_boost(*name)
    try:
        yield
    except (UsageError, FormatError) as error:
        raise _of_boost(names, error) from None


def _only_boost(label: str, type_name: str) -> UsageError:
    return UsageError(
        f"product {label!r} is a {type_name}, which HEPnOS's classes store with Boost: only C++ can read it; load it "
        "as bytes"
    )


def _of_boost(names: list[tuple[str, str]], error: UsageError | FormatError) -> UsageError | FormatError:
    """Return an error of reading products as one that says so where Boost may have written them."""
    for name in names:
        if _OF_BOOST.search(name[1]):
            return _only_boost(*name)
    if isinstance(error, UsageError):
        is_unknown = _UNKNOWN.search(str(error)) is not None and "did you mean" not in str(error)
        if error.kind != "product-type" or not is_unknown:
            return error
        return UsageError(
            f"{error}; C++ may have stored it with Boost, which only C++ can read: load it as bytes", kind=error.kind
        )
    if isinstance(error, ChecksumError) or error._object is not None:
        return error  # it is not what was stored, whoever has
    others = [label for label, kind in names if _core.may_be_of_boost(kind)]
    if not others:
        return error
    which = f"product {others[0]!r}: " if len(names) == 1 else ""
    return FormatError(
        f"{which}{error}; or hepnos.hpp has stored it: except for numbers, plain structs and vectors of them, it uses "
        "Boost, which only C++ can read; load it as bytes",
        kind=error.kind,
    )


def _opaque(label: str, type_name: str, stored: bytes, form: Any, unpickle: bool) -> Any:
    if isinstance(form, As):
        raise UsageError(f"product {label!r} is stored as {type_name}, which is not an array: load it without a form")
    if form is not None and not isinstance(typing.get_origin(form) or form, type):
        check_form(label, form)
    if type_name == MSGPACK:
        try:
            return optional("msgpack", "msgpack").unpackb(stored, strict_map_key=False)
        except (ValueError, TypeError) as error:
            raise FormatError(
                f"product {label!r} is not readable as msgpack: {error}", kind="product-damaged"
            ) from error
    if type_name == PICKLE:
        if not unpickle:
            raise UsageError(
                f"product {label!r} is pickled, and unpickling can run any code: if you trust the program that stored "
                "it, load it with unpickle=True"
            )
        return pickle.loads(stored)
    return stored


def _awkward(batch: Batch, label: str) -> Any:
    optional("awkward", "all")
    from femtobarn._files.awkward_arrays import to_array

    return to_array(batch, named=True)[label]


class Column:
    """Values of one type that are decoded together; each event has one or none.

    Parameters
    ----------
    store : DataStore
        Their store.
    label : str
        The products' label.
    type_name : str
        The type in their names.
    array : ak.Array
        The values.
    """

    def __init__(self, store: DataStore, label: str, type_name: str, array: Any) -> None:
        self._store = store
        self._label = label
        self._type_name = type_name
        self._array = array

    @functools.cached_property
    def _values(self) -> Any:
        return self._array.tolist()

    @functools.cached_property
    def _arrays(self) -> Any:
        return layout_to_numpy(self._array.layout)

    def elements(self, n: int) -> Column:
        """Return the elements of a value.

        Parameters
        ----------
        n : int
            Index of the value.

        Returns
        -------
        Column
            Its elements.

        Raises
        ------
        UsageError
            If its type has no elements.
        """
        if self._array.ndim < 2:
            raise UsageError(f"product {self._label!r} is a {self._type_name}, which has no elements to refer to")
        item = self._type_name.removeprefix("std::vector<").removesuffix(">")
        return Column(self._store, self._label, item, self._array[n])

    def at(self, n: int, form: As | None) -> Any:
        """Return an existing value.

        Parameters
        ----------
        n : int
            Which.
        form : As or None
            The requested form; None for the natural one of the type.

        Returns
        -------
        object
            The value.

        Raises
        ------
        IndexError
            If there are fewer values.
        UsageError
            If it cannot be loaded in this form.
        """
        if n >= len(self._array):
            raise IndexError(f"it has {len(self._array)} elements")
        if form is NumPy:
            return self._arrays[n]
        if form is None and self._array.ndim == 1 and not self._array.fields:
            return self._values[n]
        value = self._array[n]
        if form is None and self._type_name == PTR:
            return Ptr.from_record(self._store, value)
        if form is not Arrow:
            return value
        ak, arrow = optional("awkward", "all"), optional("pyarrow", "arrow")
        if isinstance(value, ak.Array):
            return ak.to_arrow(value, extensionarray=False)
        return arrow.scalar(value.tolist() if hasattr(value, "tolist") else value)
