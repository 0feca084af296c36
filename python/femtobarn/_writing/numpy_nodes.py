"""Conversion of NumPy arrays, and of lists of NumPy numbers, to nodes of the core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._core_types import Node

__all__ = ["bytes_of", "items_node", "no_counterpart", "numpy_node"]


def items_node(items: list[Any], name: str) -> Node | None:
    """Return the node of a list of NumPy numbers, or of arrays or lists of them, and keep their type.

    Arrays may be masked. Awkward would lose the type.

    Parameters
    ----------
    items : list
        The entries of a column.
    name : str
        The name of the column, for messages.

    Returns
    -------
    tuple or None
        The node; None if the items are anything else, or of several types.
    """
    whole = _numbers(items)
    if whole is not None:
        return numpy_node(whole, name)
    arrays: list[Any] = []
    for item in items:
        # tuples are records
        array = _numbers(item) if isinstance(item, list) else item
        is_empty_list = isinstance(item, list) and not item
        if not is_empty_list and not (isinstance(array, np.ndarray) and array.ndim == 1):
            return None
        arrays.append(array)
    lengths = [0 if array is None else len(array) for array in arrays]
    content = _joined([array for array in arrays if array is not None])
    if content is None or content.dtype.kind not in "biuf" or content.dtype.itemsize > 8:
        return None
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    node = numpy_node(np.ma.getdata(content), name)
    if np.ma.is_masked(content):
        index = np.where(np.ma.getmaskarray(content), -1, np.arange(content.size))
        node = ("option", bytes_of(index.astype(np.int64, copy=False)), node)
    return ("list", bytes_of(offsets), node)


def _joined(arrays: list[Any]) -> Any:
    """Concatenate arrays of one type, with their masks; None if they have several types, or there are none."""
    # empty arrays as np.array([]) have a default type that nobody chose
    said = [array for array in arrays if array.size] or [array for array in arrays if array.dtype != np.float64]
    if len({array.dtype for array in said}) != 1:
        return None
    joined: Any = np.concatenate([np.ma.getdata(array) for array in said])
    if any(np.ma.is_masked(array) for array in said):
        return np.ma.array(joined, mask=np.concatenate([np.ma.getmaskarray(array) for array in said]))
    return joined


def _numbers(items: Any) -> Any:
    """Return NumPy numbers of one type as an array; None if there is anything else, or if the list is empty."""
    kind = type(items[0]) if items else None
    if kind is None or not issubclass(kind, np.number | np.bool_) or any(type(item) is not kind for item in items):
        return None
    array = np.array(items)
    return array if array.dtype.kind in "biuf" and array.dtype.itemsize <= 8 else None


def unwritable(name: str, reason: str) -> UsageError:
    """Return the error for a column that cannot be written."""
    error = UsageError(f"field {name!r} cannot be written: {reason}")
    error._told = (name, reason)
    return error


def no_counterpart(name: str, what: str) -> UsageError:
    """Return the error for a column of a type that RNTuple does not support."""
    advice = "convert it to numbers or strings"
    if "datetime64" in what or "timedelta64" in what:
        advice = 'write the integers that it counts, .astype("int64"), or strings, .astype("U")'
    return unwritable(name, f"{what} has no counterpart in RNTuple; {advice}")


def bytes_of(array: Any) -> Any:
    """Return the memory of an array as bytes, contiguous and in native byte order."""
    array = np.require(array, requirements=["C", "A"])
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array.reshape(-1).view(np.uint8)


def numpy_node(array: Any, name: str) -> Node:
    """Return the node of an array of numbers; further dimensions become arrays of fixed size."""
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise no_counterpart(name, f"NumPy's {array.dtype}")
    dtype = array.dtype.newbyteorder("=").name
    node: Node = ("numpy", dtype, bytes_of(array))
    length = array.size
    for size in reversed(array.shape[1:]):
        length = length // size if size else 0
        if not size:
            raise unwritable(name, "arrays of length 0 have no type in C++")
        node = ("regular", size, length, node)
    return node
