"""Conversion of the core's nodes and of Awkward layouts to NumPy arrays.

Numbers become plain arrays, and strings arrays of dtype "U". Columns of varying length become object arrays
with one array per entry, even if all lengths are equal, so that the dtype depends only on the type of the field.
Optional numbers become masked arrays, and records structured arrays.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from femtobarn._core_types import Node

__all__ = ["frombuffer", "is_simple", "layout_to_numpy", "node_to_numpy"]


def frombuffer(buffer: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a buffer of the core as an array that shares its memory."""
    return np.frombuffer(buffer, dtype)


def is_simple(node: Node) -> bool:
    """Return whether a node consists of numbers or lists of numbers; `node_to_numpy` accepts only these."""
    return bool(node[0] == "numpy" or (node[0] == "list" and node[2][0] == "numpy"))


def node_to_numpy(node: Node) -> npt.NDArray[Any]:
    """Return a simple node as an array, without copies."""
    if node[0] == "numpy":
        return frombuffer(node[2], node[1])
    _, offsets, (_, dtype, content), _ = node
    return _split(frombuffer(offsets, np.int64), frombuffer(content, dtype))


def layout_to_numpy(layout: Any) -> npt.NDArray[Any]:
    """Return an Awkward layout of any type as an array."""
    if layout.is_union:
        return _objects(layout.to_list())
    if layout.is_unknown:
        return np.empty(layout.length, np.float64)
    if layout.is_numpy:
        return np.asarray(layout.data)
    if layout.is_option:
        return _option(layout)
    if layout.parameter("__array__") in ("string", "bytestring"):
        import awkward as ak

        array: npt.NDArray[Any] = ak.to_numpy(layout)
        return array
    if layout.is_record:
        return _record(layout)
    if layout.is_regular:
        content = layout_to_numpy(layout.content[: layout.length * layout.size])
        return content.reshape((layout.length, layout.size, *content.shape[1:]))
    if layout.is_list:
        packed = layout.to_ListOffsetArray64(True)
        offsets = np.asarray(packed.offsets.data)
        return _split(offsets, layout_to_numpy(packed.content[: offsets[-1]]))
    return layout_to_numpy(layout.project())


def _split(offsets: npt.NDArray[np.int64], content: npt.NDArray[Any]) -> npt.NDArray[Any]:
    bounds = offsets.tolist()
    return _objects([content[a:b] for a, b in itertools.pairwise(bounds)])


def _objects(items: list[Any]) -> npt.NDArray[Any]:
    out = np.empty(len(items), object)
    for i, item in enumerate(items):  # assigning the list would turn equal lengths into a second dimension
        out[i] = item
    return out


def _option(layout: Any) -> npt.NDArray[Any]:
    index = np.asarray(layout.to_IndexedOptionArray64().index.data)
    content = layout_to_numpy(layout.to_IndexedOptionArray64().content)
    missing = index < 0
    if len(content) == 0:
        content = np.zeros(1, content.dtype) if content.ndim == 1 else np.zeros((1, *content.shape[1:]), content.dtype)
    values = content[np.where(missing, 0, index)]
    if content.dtype == object:
        values[missing] = None
        return values
    mask = missing.reshape(-1, *[1] * (values.ndim - 1))
    return np.ma.MaskedArray(values, np.broadcast_to(mask, values.shape))


def _record(layout: Any) -> npt.NDArray[Any]:
    columns = [(name, layout_to_numpy(layout.content(name))) for name in layout.fields]
    dtype = [(name, column.dtype, column.shape[1:]) for name, column in columns]
    out = np.empty(layout.length, dtype)
    for name, column in columns:
        out[name] = column[: layout.length]
    return out
