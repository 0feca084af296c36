"""Loading the targets of many references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn._shared.optional import optional
from femtobarn._store.product_decoding import decoded
from femtobarn._store.ptr import ABSENT, MEMBERS, MISSING, NOTHING, PTR, Ptr, note_ptr
from femtobarn.errors import KeyNotFoundError, UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from femtobarn._store.datastore import DataStore

__all__ = ["load_refs"]


def load_refs(store: DataStore, refs: Any, default: Any) -> Any:
    """Load the targets of many references; see `DataStore.load_refs`.

    Parameters
    ----------
    store : DataStore
        The store that they refer into.
    refs : array or sequence of Ptr
        The references.
    default : object
        Replacement for missing targets.

    Returns
    -------
    ak.Array
        The values.
    """
    ak = optional("awkward", "all")
    if isinstance(refs, Sequence):
        refs = _column(store, list(refs))
    layout = ak.to_packed(ak.Array(refs)).layout
    return ak.Array(_loaded(ak, layout, lambda records: _values(ak, store, ak.Array(records), default).layout))


def _column(store: DataStore, refs: list[Any]) -> Any:
    """Return references as records."""
    kind = f"std::vector<{note_ptr(store._codec)}>"
    stored = store._codec.write("references", refs, kind)
    return decoded(store, "references", kind, [stored]).elements(0)._array


def _loaded(ak: Any, layout: Any, values: Callable[[Any], Any]) -> Any:
    """Return a packed layout with references replaced by their values."""
    if layout.is_record:
        missing = [name for name, _ in MEMBERS if name not in layout.fields]
        if missing:
            raise UsageError(f"not references: records of {', '.join(layout.fields)} are not a {PTR}")
        return values(layout)
    if layout.is_option:
        option = layout.to_IndexedOptionArray64()
        return ak.contents.IndexedOptionArray.simplified(option.index, _loaded(ak, option.content, values))
    if (layout.is_list or layout.is_regular) and layout.parameter("__array__") is None:
        return layout.copy(content=_loaded(ak, layout.content, values))
    if len(layout) == 0:
        return layout
    raise UsageError(f"expected references, found {ak.Array(layout).type}")


def _values(ak: Any, store: DataStore, refs: Any, default: Any) -> Any:
    """Return the values of a flat column of references."""
    names: dict[tuple[str, str], list[int]] = {}
    for at, name in enumerate(zip(refs["label"].tolist(), refs["type"].tolist(), strict=True)):
        names.setdefault(name, []).append(at)
    keys = np.empty((len(refs), 40), np.uint8)
    keys[:, :16] = ak.to_numpy(refs["dataset"])
    numbers = np.stack([ak.to_numpy(refs[name]) for name in ("run", "subrun", "event")], axis=-1)
    keys[:, 16:] = np.ascontiguousarray(numbers.astype(">u8")).view(np.uint8).reshape(-1, 24)
    index = ak.to_numpy(refs["index"]).astype(np.uint64)
    parts: dict[str, list[tuple[Any, npt.NDArray[np.int64]]]] = {}
    for name, places in names.items():
        for some in _whole_or_element(np.array(places, np.int64), index):
            values, is_there = _of_one_name(ak, store, name, keys[some], index[some])
            if default is MISSING and not is_there.all():
                raise _first_of(store, refs, some[~is_there])
            if any(name):  # a null reference has no type
                parts.setdefault(str(values.type.content), []).append((values, some))
    where = np.full(len(refs), -1, np.int64)
    order = [some for group in parts.values() for _, some in group]
    if not order:
        return ak.Array([default if default is not MISSING else None] * len(refs))
    where[np.concatenate(order)] = np.arange(sum(map(len, order)))
    values = _picked(ak, _joined(ak, [[values for values, _ in group] for group in parts.values()]), where)
    return values if default in (MISSING, None) else ak.fill_none(values, default, axis=0)


def _joined(ak: Any, groups: list[list[Any]]) -> Any:
    """Return concatenated arrays; each group has one type."""
    arrays = [group[0] if len(group) == 1 else ak.concatenate(group) for group in groups]
    if len(arrays) == 1:
        return arrays[0]
    tags = np.repeat(np.arange(len(arrays), dtype=np.int8), [len(array) for array in arrays])
    places = np.concatenate([np.arange(len(array)) for array in arrays])
    contents = [array.layout for array in arrays]
    return ak.Array(ak.contents.UnionArray.simplified(ak.index.Index8(tags), ak.index.Index64(places), contents))


def _whole_or_element(places: npt.NDArray[np.int64], index: npt.NDArray[np.uint64]) -> Iterator[npt.NDArray[np.int64]]:
    """Separate references to whole products from references to elements: their values differ in type."""
    is_whole = index[places] == ABSENT
    return (some for some in (places[is_whole], places[~is_whole]) if len(some))


def _of_one_name(
    ak: Any, store: DataStore, name: tuple[str, str], keys: npt.NDArray[np.uint8], index: npt.NDArray[np.uint64]
) -> tuple[Any, npt.NDArray[np.bool_]]:
    """Return the values of references to products of one name, with missing values, and a mask of existing ones."""
    n = len(keys)
    rows = np.ascontiguousarray(keys).view("V40").reshape(-1)
    is_set = (keys != np.frombuffer(NOTHING, np.uint8)).any(axis=1)
    if not is_set.any():
        return ak.Array([None] * n), is_set
    # each product is loaded once for all references to it; sorting groups them by target
    unique, at = np.unique(rows[is_set], return_inverse=True)
    events = store._core.load_events(unique.tobytes(), [name])
    from femtobarn._files.awkward_arrays import to_array

    products = to_array(events.arrays(False), named=True)[name[0]]
    is_there = is_set.copy()
    is_there[is_set] = ~ak.to_numpy(ak.is_none(products))[at]
    places = np.full(n, -1, np.int64)
    places[is_set] = at.reshape(-1)
    if index[0] == ABSENT:
        return _picked(ak, products, np.where(is_there, places, -1)), is_there
    if products.ndim < 2:
        raise UsageError(f"{store.url}: product {name[0]!r} is a {name[1]}, which has no elements to refer to")
    counts = ak.to_numpy(ak.fill_none(ak.num(products), 0)).astype(np.uint64)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    is_there &= index < counts[np.maximum(places, 0)]
    elements = ak.flatten(products, axis=1)
    chosen = np.where(is_there, offsets[np.maximum(places, 0)] + np.where(is_there, index, 0).astype(np.int64), -1)
    return _picked(ak, elements, chosen), is_there


def _picked(ak: Any, values: Any, places: npt.NDArray[np.int64]) -> Any:
    """Return values in another order, missing where the index is -1."""
    if (places >= 0).all():
        return values[places]
    layout = ak.contents.IndexedOptionArray.simplified(ak.index.Index64(places), values.layout)
    return ak.Array(layout)


def _first_of(store: DataStore, refs: Any, dangling: npt.NDArray[np.int64]) -> KeyNotFoundError:
    """Return the error of the first reference without a target."""
    ptr = Ptr.from_record(store, refs[int(dangling[0])])
    try:
        ptr.load()
    except KeyNotFoundError as error:
        return KeyNotFoundError(f"{error} ({len(dangling)} of {len(refs)} references dangle)")
    return KeyNotFoundError(f"{store.url}: {ptr} was deleted meanwhile")
