"""Conversion of arrays from users to nodes of the core, without copies where possible."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn import _core
from femtobarn._files.ntuple import NTuple
from femtobarn._shared.optional import is_awkward, optional
from femtobarn._shared.warning import warn_outside
from femtobarn._writing.nested_nodes import nested_node
from femtobarn._writing.numpy_nodes import bytes_of, items_node, no_counterpart, numpy_node, unwritable
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._core_types import Node

__all__ = ["maps_of", "to_batches", "to_list"]

_MAP = re.compile(r"(std::(optional|unique_ptr)<)?std::(unordered_)?(multi)?map<")

_IN_MEMORY = {"pyarrow": ("Table", "RecordBatch"), "pandas": ("DataFrame",), "polars": ("DataFrame",)}


def maps_of(fields: _core.Fields | None) -> frozenset[str]:
    """Return the names of the fields that are maps or optional maps.

    Parameters
    ----------
    fields : Fields or None
        The fields of the ntuple to write.

    Returns
    -------
    frozenset of str
        The names.
    """
    found = fields.types() if fields is not None else []
    return frozenset(name for name, kind in found if _MAP.match(kind))


def to_batches(data: Any, maps: frozenset[str] = frozenset()) -> _core.Batches:
    """Turn data into record batches for the core.

    Parameters
    ----------
    data : ak.Array, dict, structured NumPy array, or anything with ``__arrow_c_stream__``
        Entries with named fields: an array of records; a dict from names to arrays, lists or Arrow arrays of equal
        length; a table (pyarrow, pandas, Polars); a reader of record batches; an `NTuple`.
    maps : frozenset of str
        Columns in which a dict is a map, not a record.

    Returns
    -------
    Batches
        The data in the form of the core.

    Raises
    ------
    UsageError
        If it is anything else, or RNTuple does not support a type.
    """
    if isinstance(data, _core.Batches):
        return data
    if isinstance(data, NTuple):
        data._warn_of_left_out()
    _refuse_histogram(data)
    if type(data).__module__.split(".")[0] == "uproot":
        raise UsageError("cannot write an object of uproot: pass its .arrays(), or open the file with fb.open")
    if isinstance(data, Mapping):
        columns = {str(name): values for name, values in data.items()}
        return _of_columns({name: _pairs(values) if name in maps else values for name, values in columns.items()})
    if is_awkward(data):
        return _of_awkward(data)
    if isinstance(data, np.ndarray) and data.dtype.names is not None:
        if data.ndim != 1:
            raise UsageError(f"a structured array of entries must have one dimension, not {data.ndim}")
        return _of_columns({name: data[name] for name in data.dtype.names}, len(data))
    if type(data).__name__ in ("Series", "ChunkedArray"):
        raise UsageError(
            f"entries need named fields, but a {type(data).__name__} is a single column: pass {{'name': column}}"
        )
    if _is_pandas(data):
        return _of_pandas(_with_named_index(data))
    if hasattr(data, "__arrow_c_stream__"):
        return _core.Batches.of_stream(data.__arrow_c_stream__(), _is_in_memory(data))
    if isinstance(data, list | tuple) and any(isinstance(item, Mapping) for item in data):
        raise UsageError(
            "a list of dicts may be entries or batches: pass ak.Array(list) if each is an entry, and "
            "iter(list) to fb.write if each is a batch"
        )
    raise UsageError(
        f"cannot write {type(data).__name__}: pass an Awkward Array of records, a dict of arrays, or a table of "
        "pyarrow, pandas, Polars or any library with the Arrow PyCapsule interface"
    )


def to_list(name: str, values: Any) -> _core.Batches:
    """Turn a column into a column with one entry, the list of its values.

    Parameters
    ----------
    name : str
        The name of the column.
    values : array, list, or table
        Anything that `to_batches` accepts as a column; rows of tables become records.

    Returns
    -------
    Batches
        A column with one entry.

    Raises
    ------
    UsageError
        If it is anything else, or RNTuple does not support a type.
    """
    columns = _columns_of_table(values)
    if columns is not None:
        if not columns:
            raise unwritable(name, "it is a table without columns")
        nodes = [_column(f"{name}.{key}", column) for key, column in columns.items()]
        node, n = ("record", list(columns), [node for node, _ in nodes], nodes[0][1], ""), nodes[0][1]
    else:
        node, n = _column(name, values)
    return _core.Batches.of_nodes([(name, ("list", bytes_of(np.array([0, n], np.int64)), node))], 1)


def _columns_of_table(data: Any) -> dict[str, Any] | None:
    """Return the columns of a pandas, Polars or Arrow table; None for anything else."""
    if _is_pandas(data):
        data = _with_named_index(data)
        _check_once(str(name) for name in data.columns)
        return {str(name): data.iloc[:, i] for i, name in enumerate(data.columns)}
    kind = f"{type(data).__module__.split('.')[0]}.{type(data).__name__}"
    if kind == "polars.DataFrame":
        return {name: data[name] for name in data.columns}
    if kind in ("pyarrow.Table", "pyarrow.RecordBatch"):
        _check_once(data.schema.names)
        return {name: data.column(name) for name in data.schema.names}
    return None


def _is_pandas(data: Any) -> bool:
    kinds = (f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(data).__mro__)
    return "pandas.DataFrame" in kinds


def _of_pandas(frame: Any) -> _core.Batches:
    """Return the columns of a data frame one by one: if pyarrow converts the whole frame, each NaN becomes null."""
    names = _check_once(str(name) for name in frame.columns)
    return _of_columns({name: frame.iloc[:, i] for i, name in enumerate(names)}, len(frame))


def _check_once(columns: Iterable[str]) -> list[str]:
    """Return the names of columns; raise if a name occurs twice."""
    names = list(columns)
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise UsageError(f"the DataFrame has several columns with the same name: {', '.join(twice)}; rename them")
    return names


def _with_named_index(frame: Any) -> Any:
    """Return a pandas data frame whose named index levels are columns, and without its unnamed ones."""
    nameless = [level for level, name in enumerate(frame.index.names) if name is None]
    if nameless and not counts_rows(frame.index):
        warn_outside(
            "the unnamed index of the DataFrame is not written; name it with rename_axis to write it, or drop it with "
            "reset_index(drop=True)",
            UserWarning,
        )
    if len(nameless) == frame.index.nlevels:
        return frame.reset_index(drop=True)
    try:
        return (frame.reset_index(level=nameless, drop=True) if nameless else frame).reset_index()
    except ValueError as error:
        raise UsageError(f"the index of the DataFrame cannot be written: {error}; rename it with rename_axis") from None


def counts_rows(index: Any) -> bool:
    """Return whether an index of pandas only counts rows.

    Parameters
    ----------
    index : pandas.Index
        The index.

    Returns
    -------
    bool
        Whether no information is lost without it.
    """
    pandas = optional("pandas", "pandas")
    return isinstance(index, pandas.RangeIndex) or bool(index.equals(pandas.RangeIndex(len(index))))


def _pairs(values: Any) -> Any:
    """Return the dicts of a column of maps as lists of pairs."""
    if not isinstance(values, list | tuple):
        return values
    return [list(value.items()) if isinstance(value, Mapping) else value for value in values]


def _refuse_histogram(data: Any) -> None:
    modules = {kind.__module__.split(".")[0] for kind in type(data).__mro__}
    is_uproots = "uproot" in modules and hasattr(data, "to_hist")
    if is_uproots or not modules.isdisjoint({"hist", "boost_histogram"}):
        raise UsageError(
            f"cannot write {type(data).__name__}: only ntuples are written, not histograms; write them with uproot or "
            "ROOT, and add ntuples to the file with fb.update"
        )


def _is_in_memory(data: Any) -> bool:
    names = _IN_MEMORY.get(type(data).__module__.split(".")[0], ())
    return isinstance(data, _core.Batch) or any(kind.__name__ in names for kind in type(data).__mro__)


def _of_awkward(array: Any) -> _core.Batches:
    layout = array.layout
    if layout.is_indexed and not layout.is_option:
        layout = layout.project()
    if not layout.is_record or layout.is_tuple:
        raise UsageError(
            f"entries need named fields, but this array has the type {array.type}: pass "
            "{'name': array}, or ak.zip the fields first (depth_limit=1 keeps lists and numbers side by side)"
        )
    length = layout.length
    columns = [(name, _layout(layout.content(name), name)) for name in layout.fields]
    return _core.Batches.of_nodes(columns, length)


def _of_columns(columns: Mapping[str, Any], length: int | None = None) -> _core.Batches:
    nodes: list[tuple[str, Node]] = []
    for name, values in columns.items():
        node, n = _column(name, values)
        if length is None:
            length = n
        elif n != length:
            raise UsageError(f"field {name!r} has {n} entries, but previous fields have {length}")
        nodes.append((name, node))
    return _core.Batches.of_nodes(nodes, length or 0)


def _column(name: str, values: Any) -> tuple[Node, int]:
    """Return the node of a column and its length."""
    _refuse_histogram(values)
    # ndim of an empty Awkward union is 0, too
    is_scalar = not is_awkward(values) and getattr(values, "ndim", None) == 0
    if is_scalar or isinstance(values, str | bytes):
        raise unwritable(name, f"{values!r} is a single value, not a column with one value per entry")
    if is_awkward(values):
        return _layout(values.layout, name), len(values)
    if isinstance(values, np.ndarray) and values.dtype.names is not None and values.ndim == 1:
        names = list(values.dtype.names)
        members = [_column(f"{name}.{key}", values[key])[0] for key in names]
        return ("record", names, members, len(values), ""), len(values)
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values) and values.dtype.kind not in "OV":
            native = values.astype(values.dtype.newbyteorder("="))
            return _layout(optional("awkward", "all").from_numpy(native, regulararray=True).layout, name), len(values)
        # masked values of object arrays become None
        values = values.tolist() if values.dtype.kind == "O" else values.data
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return numpy_node(values, name), len(values)
    if hasattr(values, "__arrow_c_array__"):
        schema, array = values.__arrow_c_array__()
        return ("arrow", schema, array), len(values)
    if type(values).__module__.split(".")[0] == "pyarrow" and hasattr(values, "combine_chunks"):
        return _column(name, values.combine_chunks())
    if type(values).__module__.split(".")[0] in ("pandas", "polars") and hasattr(values, "to_numpy"):
        return _series(name, values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "mMcV":
        raise no_counterpart(name, f"NumPy's {values.dtype}")
    if not isinstance(values, Iterable):
        raise unwritable(name, f"{type(values).__name__} is neither a type nor a column")
    items = values.tolist() if isinstance(values, np.ndarray) else list(values)
    node = items_node(items, name)
    if node is not None:
        return node, len(items)
    try:
        return _listed(items, name), len(items)
    except UsageError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        reason = str(error).splitlines()[0].replace(" to an array element", "")
        if reason.startswith("cannot convert"):
            reason += ": convert its values to numbers, strings, or lists of these"
        raise unwritable(name, reason) from error


def _listed(values: list[Any], name: str) -> Node:
    """Return the node of Python objects."""
    try:
        return _built(values, name)
    except (RuntimeError, ValueError) as error:
        # integers from 2**63 on, and tuples in shorter tuples
        if isinstance(error, UsageError) or (isinstance(error, ValueError) and "for a tuple" not in str(error)):
            raise
    return nested_node(values, name, _plain)


def _built(values: list[Any], name: str) -> Node:
    """Return the node of Python objects, built by Awkward."""
    array = optional("awkward", "all").Array(values)
    if str(array.type).endswith("float64") and _has_large_integer(values):
        raise ValueError("it has floats, and integers that floats cannot represent exactly")
    return _layout(array.layout, name)


def _plain(values: list[Any], name: str) -> Node:
    """Return the node of numbers or strings; raise if Awkward's builder does not take them as they are."""
    try:
        return _built(values, name)
    except RuntimeError:
        _check_texts(values)
        if not any(isinstance(value, int) and not -(2**63) <= value < 2**63 for value in values):
            raise ValueError(f"{type(values[0]).__name__} has no counterpart in RNTuple") from None
    if not all(isinstance(value, int) for value in values):
        raise ValueError("it has integers from 2**63 on among other numbers: make all of them integers, or floats")
    if not all(-(2**63) <= value < 2**64 for value in values):
        raise ValueError("its integers have more than 64 bits")
    if min(values) < 0:
        raise ValueError("it has negative integers, and others from 2**63 on: no integer type of RNTuple holds both")
    return numpy_node(np.array(values, np.uint64), name)


def _check_texts(values: list[Any]) -> None:
    for value in values:
        try:
            if isinstance(value, str):
                value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{value!r} cannot be encoded as UTF-8 ({error.reason}): pass bytes") from None


def _has_large_integer(values: Any) -> bool:
    if isinstance(values, list | tuple):
        return any(_has_large_integer(value) for value in values)
    return isinstance(values, int) and abs(values) > 2**53


def _series(name: str, values: Any) -> tuple[Node, int]:
    if hasattr(values, "to_arrow"):  # Polars
        return _column(name, values.to_arrow())
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "biuf":
        return numpy_node(values.to_numpy(), name), len(values)
    arrow = optional("pyarrow", "arrow")
    try:
        array = arrow.array(values)
    except arrow.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise unwritable(name, f"its values have different types ({reason})") from error
    return _column(name, array)


def _offsets(index: Any) -> Any:
    return bytes_of(np.asarray(index.data).astype(np.int64, copy=False))


def _layout(layout: Any, name: str) -> Node:
    """Return the node of an Awkward layout."""
    kind = type(layout).__name__
    if kind == "EmptyArray":
        return ("unknown",)
    if kind == "NumpyArray":
        return numpy_node(np.asarray(layout.data), name)
    if layout.is_option:
        return _option(layout, name)
    if layout.is_indexed:
        return _layout(layout.project(), name)
    if kind == "RegularArray" and layout.parameter("__array__") not in ("string", "bytestring"):
        length = layout.length
        content = layout.content[: layout.size * length]
        if layout.size == 0:
            raise unwritable(name, "arrays of length 0 have no type in C++")
        return ("regular", layout.size, length, _layout(content, name))
    if layout.is_list:
        return _list(layout, name)
    if layout.is_record:
        names = None if layout.is_tuple else list(layout.fields)
        contents = [layout[str(i)] if names is None else layout[key] for i, key in enumerate(layout.fields)]
        below = layout.fields
        nodes = [_layout(content, f"{name}.{key}") for content, key in zip(contents, below, strict=True)]
        return ("record", names, nodes, layout.length, "")
    if layout.is_union:
        return _union(layout, name)
    raise unwritable(name, f"it is a {kind}")


def _list(layout: Any, name: str) -> Node:
    lists = layout.to_ListOffsetArray64(False)
    offsets, content = _offsets(lists.offsets), lists.content
    array = lists.parameter("__array__")
    if array in ("string", "bytestring"):
        data = bytes_of(np.asarray(content.to_packed().data if content.is_indexed else content.data))
        if array == "string":
            return ("string", offsets, data)
        return ("bytes", offsets, data, "")
    return ("list", offsets, _layout(content, name))


def _option(layout: Any, name: str) -> Node:
    indexed = layout.to_IndexedOptionArray64()
    if indexed.content.is_union:
        return _layout(_no_value(indexed), name)
    index = np.asarray(indexed.index.data)
    return ("option", bytes_of(index.astype(np.int64, copy=False)), _layout(indexed.content, name))


def _no_value(indexed: Any) -> Any:
    """Return an option of a union as a union that has no value where the option is None."""
    from awkward.contents import EmptyArray, IndexedOptionArray, UnionArray
    from awkward.index import Index8, Index64

    union, index = indexed.content, np.asarray(indexed.index.data)
    there = np.flatnonzero(index >= 0)
    tags, places = np.zeros(len(index), np.int8), np.zeros(len(index), np.int64)
    tags[there] = np.asarray(union.tags.data)[index[there]] + 1
    places[there] = np.asarray(union.index.data)[index[there]]
    valueless = IndexedOptionArray(Index64(np.array([-1])), EmptyArray())
    return UnionArray(Index8(tags), Index64(places), [valueless, *union.contents])


def _is_valueless(layout: Any) -> bool:
    return bool(layout.is_option and type(layout.content).__name__ == "EmptyArray")


def _union(layout: Any, name: str) -> Node:
    """Return the node of a union; its alternatives are options where a value may be missing."""
    contents = list(layout.contents)
    tags = np.asarray(layout.tags.data)
    places = np.asarray(layout.index.data)[: len(tags)].astype(np.int64)
    kept = [i for i, content in enumerate(contents) if not _is_valueless(content)]
    has_valueless = len(kept) < len(contents)
    number = np.zeros(len(contents), np.int8)
    number[kept] = np.arange(1, len(kept) + 1)
    new_tags = number[tags]
    nodes = []
    for tag, i in enumerate(kept, start=1):
        content = contents[i]
        is_plain = type(content).__name__ == "UnmaskedArray"
        if content.is_option and (is_plain or not has_valueless):
            own = np.flatnonzero(new_tags == tag)
            index = np.asarray(content.to_IndexedOptionArray64().index.data)[places[own]]
            content = content.to_IndexedOptionArray64().content
            places[own] = index
            new_tags[own[index < 0]] = 0
        nodes.append(_layout(content, name))
    places[new_tags == 0] = 0
    return ("union", bytes_of(new_tags), bytes_of(places), nodes)
