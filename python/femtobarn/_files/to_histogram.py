"""Histograms of other libraries as histograms of ROOT."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn import _core
from femtobarn._files.histogram import Histogram
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["is_histogram", "to_histogram"]

_PROTOCOL = ("axes", "kind", "values", "variances")

# types of contents that ROOT has, except 64-bit integers: old versions of ROOT cannot read those
_STORED = ("i1", "i2", "i4", "f4", "f8")

_MOMENTS = {
    "Mean": ("count", "count", "value", "_sum_of_deltas_squared"),
    "WeightedMean": ("sum_of_weights", "sum_of_weights_squared", "value", "_sum_of_weighted_deltas_squared"),
}

# what ROOT and hist call axes without names
_NO_TITLE = re.compile(r"[xyz]axis|Axis \d+")

_Axis = tuple[str, list[float], list[tuple[int, str]]]


def is_histogram(data: object) -> bool:
    """Return whether something is a histogram: an object with UHI's protocol, or what NumPy's functions return."""
    if isinstance(data, Histogram) or _edges_of(data) is not None:
        return True
    return all(hasattr(data, name) for name in _PROTOCOL) and callable(getattr(data, "values", None))


def to_histogram(data: Any, name: str) -> _core.Histogram:
    """Translate a histogram.

    Parameters
    ----------
    data : Histogram, object with UHI's protocol, or tuple
        The histogram; a tuple has the contents and the edges, as from ``numpy.histogram``.
    name : str
        Its name.

    Returns
    -------
    _core.Histogram
        The histogram in ROOT's form.

    Raises
    ------
    UsageError
        If ROOT has no such histogram.
    """
    if isinstance(data, Histogram):
        return data._core
    edges = _edges_of(data)
    if edges is not None:
        counts = np.pad(np.asarray(data[0]), 1)
        bins: list[_Axis] = [("", _doubles_of(it), []) for it in edges]
        return _core.Histogram.counts(name, "", bins, _contents(counts), None)
    axes = [_axis(axis) for axis in data.axes]
    title = next((it for it in (getattr(data, "title", None), getattr(data, "label", None)) if isinstance(it, str)), "")
    kind = str(getattr(data.kind, "value", data.kind)).upper()
    if kind == "MEAN":
        weights, squares, means, deltas = (_flat(it, ">f8") for it in _moments(data))
        return _core.Histogram.means(name, title, axes, (weights, squares, means, deltas))
    if kind != "COUNT":
        raise UsageError(f"{name!r} is a histogram of the kind {kind}: only COUNT and MEAN can be written")
    values = _with_flow(data, data.values)
    variances = None if data.variances() is None else _with_flow(data, data.variances)
    is_weighted = _storage(data) == "Weight" or (variances is not None and not np.array_equal(variances, values))
    stored = _flat(variances, ">f8") if is_weighted and variances is not None else None
    return _core.Histogram.counts(name, title, axes, _contents(values), stored)


def _edges_of(data: object) -> Sequence[NDArray[Any]] | None:
    """Return the edges if something is a result of numpy.histogram, histogram2d or histogramdd; otherwise None."""
    if not isinstance(data, tuple) or len(data) < 2:
        return None
    counts, *edges = data
    if len(edges) == 1 and isinstance(edges[0], (list, tuple)):
        edges = list(edges[0])
    # of Awkward Arrays, they return such arrays
    if not all(isinstance(it, np.ndarray) or hasattr(it, "layout") for it in (counts, *edges)):
        return None
    try:
        counts, *edges = (np.asarray(it) for it in (counts, *edges))
    except ValueError:  # lists of different lengths
        return None
    are_edges = all(it.ndim == 1 for it in edges) and counts.shape == tuple(len(it) - 1 for it in edges)
    return edges if are_edges else None


def _doubles_of(edges: NDArray[Any]) -> list[float]:
    """Return edges in double precision; those of bins of equal width in single precision are not exactly equal."""
    first, last, n = float(edges[0]), float(edges[-1]), len(edges)
    if math.isfinite(last - first) and np.array_equal(edges, np.linspace(first, last, n, dtype=edges.dtype)):
        edges = np.linspace(first, last, n)
    return list(map(float, edges))


def _storage(data: Any) -> str:
    """Return the name of the storage of a boost-histogram."""
    return str(getattr(getattr(data, "storage_type", None), "__name__", ""))


def _moments(data: Any) -> list[NDArray[Any]]:
    """Return sums of weights and of their squares, means, and sums of squared differences from the mean."""
    fields = _MOMENTS.get(_storage(data))
    if fields is not None:
        view = data.view(flow=True)
        return [_padded(data, np.asarray(view[field])) for field in fields]
    counts, means, variances = (
        np.nan_to_num(_with_flow(data, it)) for it in (data.counts, data.values, data.variances)
    )
    # so that ROOT computes the same errors of the means
    return [counts, counts, means, variances * counts**2]


def _with_flow(data: Any, method: Any) -> NDArray[Any]:
    """Return numbers of all bins with an under- and an overflow bin for each axis, which are zero if there are none."""
    try:
        numbers = method(flow=True)
    except TypeError:
        numbers = method()
    return _padded(data, np.asarray(numbers))


def _padded(data: Any, numbers: NDArray[Any]) -> NDArray[Any]:
    missing = []
    for axis, n in zip(data.axes, numbers.shape, strict=True):
        lacks = len(axis) + 2 - n
        before = 0 if lacks == 0 or getattr(axis.traits, "underflow", False) else 1
        missing.append((before, lacks - before))
    return np.pad(numbers, missing)


def _contents(values: NDArray[Any]) -> tuple[str, bytes]:
    dtype = f"{values.dtype.kind}{values.dtype.itemsize}"
    if dtype not in _STORED:
        if values.dtype.kind not in "iufb":
            raise UsageError(f"the contents of a histogram must be numbers, not {values.dtype}")
        reals = values.astype(float)
        if values.dtype.kind in "iu" and not np.array_equal(reals.astype(values.dtype), values):
            raise UsageError("some contents are integers above 2**53, which float64 cannot represent")
        dtype, values = "f8", reals
    return dtype, _flat(values, f">{dtype}")


def _flat(values: NDArray[Any], dtype: str) -> bytes:
    return values.astype(dtype).tobytes(order="F")


def _axis(axis: Any) -> _Axis:
    """Return title, edges and labels of an axis."""
    n = len(axis)
    traits = axis.traits
    edges = getattr(axis, "edges", None)
    edges = edges() if callable(edges) else edges
    items = [axis[i] for i in range(n)]
    labels: list[tuple[int, str]] = []
    # an axis of integers has the same items as one of categories, but they are in order
    if traits.discrete and not (getattr(traits, "ordered", False) and all(isinstance(it, int) for it in items)):
        labels = [(i + 1, str(item)) for i, item in enumerate(items)]
    if edges is None or len(edges) != n + 1:
        edges = range(n + 1) if traits.discrete else [*(low for low, _ in items), items[-1][1]]
    return _title(axis), [float(edge) for edge in edges], labels


def _title(axis: Any) -> str:
    if callable(getattr(axis, "member", None)):  # an axis of uproot
        return str(axis.member("fTitle"))
    for attribute in ("title", "label", "name", "metadata"):
        found = getattr(axis, attribute, None)
        if isinstance(found, str) and found and _NO_TITLE.fullmatch(found) is None:
            return found
    return ""
