"""Awkward Arrays whose buffers are read when they are touched.

Of a wide ntuple most columns are never touched, so a column is made when it is accessed. Its form is made of arrays
without entries, by the rules of all other arrays, and kept for further steps. The nodes of a step have the buffers in
the order of the form: a buffer is an object with a method that reads its column.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex

import awkward as ak
import numpy as np
from awkward.contents import RecordArray

from femtobarn._files.awkward_arrays import AddDoc, layouts_of
from femtobarn._files.numpy_arrays import frombuffer
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from femtobarn._core import LazyBatch, LazyBuffer
    from femtobarn._core_types import Node
    from femtobarn._files.schema import Schema

__all__ = ["column_of", "form_of", "lazy_record", "part_of", "to_virtual_array"]

_MOST_FORMS = 10_000
_OLDEST = (2, 9)  # of Awkward, with virtual arrays of unknown length

_forms: OrderedDict[tuple[str, bool, int], Any] = OrderedDict()
_lock = threading.Lock()


def to_virtual_array(
    batch: LazyBatch,
    schema: Schema | None = None,
    add_doc: AddDoc = False,
    description: str = "",
    of_tree: bool = False,
) -> ak.Array:
    """Return a batch as an array of records whose columns are read when they are touched.

    Parameters
    ----------
    batch : LazyBatch
        The range of entries from the core.
    schema, add_doc, description, of_tree
        As for `awkward_arrays.to_array`.

    Returns
    -------
    ak.Array
        An array of `batch.num_entries` records. Columns with variants, or with optional values of optional values, have
        no virtual form: they are read when they are accessed.
    """
    if tuple(int(part) for part in ak.__version__.split(".")[:2]) < _OLDEST:
        raise UsageError(f"virtual=True needs awkward {_OLDEST[0]}.{_OLDEST[1]} or newer, not {ak.__version__}")
    build = functools.partial(layouts_of, schema=schema, add_doc=add_doc, of_tree=of_tree)
    names = batch.names()
    parameters = {"__doc__": description} if add_doc is True and description else None
    layout = RecordArray([], [], length=batch.num_entries, parameters=parameters)
    return ak.Array(lazy_record(layout, names, lambda at: _content(batch, at, build, None if add_doc else of_tree)))


def lazy_record(layout: Any, names: list[str], make: Callable[[int], Any]) -> Any:
    """Give a record array without fields some that are made when they are accessed.

    Parameters
    ----------
    layout : ak.contents.RecordArray
        The array without fields. It is changed.
    names : list of str
        The names of the fields.
    make : callable
        A function of the position of a field that returns its layout. It is called once for each field.

    Returns
    -------
    ak.contents.RecordArray
        The same array.
    """
    layout._contents, layout._fields = _Contents(len(names), make), names
    return layout


def column_of(batch: LazyBatch, index: int, of_tree: bool = False) -> Any:
    """Return the layout of a column whose buffers are read when they are touched.

    Parameters
    ----------
    batch : LazyBatch
        The range of entries from the core.
    index : int
        The position of the column.
    of_tree : bool
        Whether it comes from a TTree, as for `awkward_arrays.to_array`.

    Returns
    -------
    ak.contents.Content
        The layout, with `batch.num_entries` items.
    """
    return _content(batch, index, functools.partial(layouts_of, of_tree=of_tree), of_tree)


def form_of(batch: LazyBatch, of_tree: bool = False) -> Any:
    """Return the form of the arrays of a batch; nothing is read.

    Parameters
    ----------
    batch : LazyBatch
        A range of entries from the core.
    of_tree : bool
        Whether it comes from a TTree, as for `awkward_arrays.to_array`.

    Returns
    -------
    ak.forms.RecordForm
        The form, with the columns in the order of the batch.
    """
    known: dict[str, Any] = {}  # most columns have one of few forms
    forms = []
    names = batch.names()
    for index in range(len(names)):
        name, node = batch.column(index)
        empty = _emptied(node)
        kind = repr(empty)
        if kind not in known:
            known[kind] = layouts_of([(name, empty)], of_tree=of_tree)[0].form
        forms.append(known[kind])
    return ak.forms.RecordForm(forms, names)


def part_of(array: ak.Array, start: int, stop: int) -> ak.Array:
    """Return a range of the entries of an array of records; columns of a virtual one are still read when touched."""
    whole = array.layout
    if not isinstance(whole.contents, _Contents):
        return array[start:stop]
    layout = RecordArray([], [], length=stop - start, parameters=whole.parameters)
    contents = whole.contents
    record = lazy_record(layout, whole.fields, lambda index: contents[index][start:stop])
    return ak.Array(record, attrs=array._attrs)


class _Contents(list[Any]):
    """The contents of a record array, each made when it is accessed, once for all threads."""

    def __init__(self, length: int, make: Callable[[int], Any]) -> None:
        super().__init__([None] * length)
        self._make = make
        self._making = threading.Lock()

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = index.__index__()
        made = super().__getitem__(at)
        if made is None:
            with self._making:
                made = super().__getitem__(at)
                if made is None:
                    made = self[at] = self._make(at % len(self))
        return made

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def _content(batch: LazyBatch, index: int, build: Callable[..., list[Any]], of_tree: bool | None) -> Any:
    """Return a column; its form is kept for other steps, unless `of_tree` is None."""
    name, node = batch.column(index)
    if not _is_virtual(node):
        return build([(name, _read(node))])[0]
    key = batch.form_id, bool(of_tree), index
    with _lock:
        form = None if of_tree is None else _forms.get(key)
    if form is None:
        form = build([(name, _emptied(node))])[0].form_with_key("node{id}")
        if of_tree is not None:
            with _lock:
                _forms[key] = form
                if len(_forms) > _MOST_FORMS:
                    _forms.popitem(last=False)
    return ak.from_buffers(form, batch.num_entries, _container(node), highlevel=False)


def _is_virtual(node: Node) -> bool:
    """Return whether a node has the same form for all values."""
    if node[0] == "union":
        return False
    if node[0] == "option" and node[2][0] in ("option", "union"):
        return False
    return all(_is_virtual(child) for child in _children(node))


def _children(node: Node) -> list[Node]:
    match node[0]:
        case "list" | "option":
            return [node[2]]
        case "regular":
            return [node[3]]
        case "record":
            return list(node[2])
        case "union":
            return list(node[3])
    return []


def _mapped(node: Node, of_buffer: Callable[[Any, str], Any], length: Callable[[int | None], int]) -> Node:
    """Return a node with other buffers and lengths; `of_buffer` also takes the kind of the buffer."""
    below = [_mapped(child, of_buffer, length) for child in _children(node)]
    match node[0]:
        case "numpy":
            return "numpy", node[1], of_buffer(node[2], "data")
        case "list":
            return "list", of_buffer(node[1], "offsets"), below[0], node[3]
        case "string" | "bytes":
            return node[0], of_buffer(node[1], "offsets"), of_buffer(node[2], "data"), *node[3:]
        case "option":
            return "option", of_buffer(node[1], "index"), below[0]
        case "regular":
            return "regular", node[1], length(node[2]), below[0]
        case "record":
            return "record", node[1], below, length(node[3]), node[4]
    return "union", of_buffer(node[1], "index"), of_buffer(node[2], "index"), below


def _emptied(node: Node) -> Node:
    """Return the node of an array without entries."""
    offsets = bytes(8)
    return _mapped(node, lambda _, kind: offsets if kind == "offsets" else b"", lambda _: 0)


def _read(node: Node) -> Node:
    """Return a node with buffers that are read."""
    found: dict[int, Any] = {}

    def read(buffer: Any, _: str) -> Any:
        if id(buffer) not in found:
            found[id(buffer)] = buffer.read()
        return found[id(buffer)]

    mapped = _mapped(node, read, lambda length: -1 if length is None else length)
    return _with_lengths(mapped)


def _with_lengths(node: Node, length: int | None = None) -> Node:
    """Return a node whose parts have the lengths that follow from its offsets."""
    match node[0]:
        case "list":
            last = int(frombuffer(node[1], np.int64)[-1])
            return "list", node[1], _with_lengths(node[2], last), node[3]
        case "option":
            index = frombuffer(node[1], np.int64)
            return "option", node[1], _with_lengths(node[2], int(np.count_nonzero(index >= 0)))
        case "regular":
            n = node[2] if length is None else length
            return "regular", node[1], n, _with_lengths(node[3], n * node[1])
        case "record":
            n = node[3] if length is None else length
            return "record", node[1], [_with_lengths(child, n) for child in node[2]], n, node[4]
        case "union":
            tags = frombuffer(node[1], np.int8)
            lengths = [int(np.count_nonzero(tags == tag)) for tag in range(1, len(node[3]) + 1)]
            below = zip(node[3], lengths, strict=True)
            return "union", node[1], node[2], [_with_lengths(child, n) for child, n in below]
    return node


def _container(node: Node) -> dict[str, Any]:
    """Return the buffers by their keys in the form: arrays are numbered from the outside to the inside."""
    container: dict[str, Any] = {}
    for number, buffers in enumerate(_parts(node)):
        for attribute, buffer, dtype in buffers:
            container[f"node{number}-{attribute}"] = _Buffer(buffer, dtype).touch
    return container


def _parts(node: Node) -> Iterator[list[tuple[str, Any, str]]]:
    """Iterate over the arrays of a node in the order of their numbers: their buffers by attribute, with their types."""
    match node[0]:
        case "numpy":
            yield [("data", node[2], node[1])]
        case "list" | "string" | "bytes":
            yield [("offsets", node[1], "int64")]
        case "option":
            yield [("index", node[1], "int64")]
        case _:
            yield []
    if node[0] in ("string", "bytes"):
        yield [("data", node[2], "uint8")]
    for child in _children(node):
        yield from _parts(child)


class _Buffer:
    """A buffer that threads touch at the same time: while one of them uses its array, the others get the same one."""

    def __init__(self, buffer: LazyBuffer, dtype: str) -> None:
        self._buffer = buffer
        self._dtype = dtype
        self._lock = threading.Lock()
        self._made: Callable[[], npt.NDArray[Any] | None] = lambda: None

    def touch(self) -> npt.NDArray[Any]:
        with self._lock:
            array = self._made()
            if array is None:
                array = frombuffer(self._buffer.read(), self._dtype)
                self._made = weakref.ref(array)
            return array
