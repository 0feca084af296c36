"""Conversion of the core's nodes to Awkward Arrays, without copies.

The core describes a column as nested tuples over buffers. Here they become `ak.contents` objects with the same
types as in uproot: pairs and tuples are tuples, and a `std::variant` is a union whose first alternative is
"no value". (Members of base classes are already in the record of the derived class.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import awkward as ak
import numpy as np
from awkward.contents import (
    EmptyArray,
    IndexedOptionArray,
    ListOffsetArray,
    NumpyArray,
    RecordArray,
    RegularArray,
    UnionArray,
    UnmaskedArray,
)
from awkward.index import Index8, Index64

from femtobarn._files.numpy_arrays import frombuffer
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._core import Batch, Buffer
    from femtobarn._core_types import Node
    from femtobarn._files.schema import Schema

__all__ = ["AddDoc", "layouts_of", "to_array", "zip_jagged"]

AddDoc: TypeAlias = bool | dict[str, str]


def to_array(
    batch: Batch,
    schema: Schema | None = None,
    add_doc: AddDoc = False,
    description: str = "",
    of_tree: bool = False,
    named: bool = False,
) -> ak.Array:
    """Return a batch as an array of records, one per entry.

    Parameters
    ----------
    batch : Batch
        The data from the core.
    schema : Schema, optional
        The fields of the ntuple, for their descriptions.
    add_doc : bool or dict
        True: descriptions of fields become `__doc__` parameters. A dict maps parameter names to attributes of the
        fields.
    description : str
        The description of the ntuple.
    of_tree : bool
        Whether the data comes from a TTree. The types then name classes, sets and maps, as in uproot, which does so
        for trees and not for ntuples.
    named : bool
        Whether records have the names of their classes.

    Returns
    -------
    ak.Array
        An array of `batch.num_entries` records.
    """
    columns = batch.columns()
    contents = layouts_of(columns, schema, add_doc, of_tree, named)
    parameters = {"__doc__": description} if add_doc is True and description else None
    names = [name for name, _ in columns]
    return ak.Array(RecordArray(contents, names, length=batch.num_entries, parameters=parameters))


def layouts_of(
    columns: list[tuple[str, Node]],
    schema: Schema | None = None,
    add_doc: AddDoc = False,
    of_tree: bool = False,
    named: bool = False,
) -> list[Any]:
    """Return the layouts of columns.

    Parameters
    ----------
    columns : list of (str, Node)
        The names of top-level fields, and their nodes.
    schema, add_doc, of_tree, named
        As for `to_array`.

    Returns
    -------
    list of ak.contents.Content
        The layouts in the order of the columns.
    """
    builder = _Builder(schema, add_doc, of_tree, named)
    top = {} if schema is None else {schema.records[i]["name"]: i for i in schema.children.get(None, ())}
    return [builder.build(node, top.get(name)) for name, node in columns]


def zip_jagged(array: ak.Array) -> ak.Array:
    """Combine lists of equal lengths into lists of records, as uproot's `how="zip"`.

    Parameters
    ----------
    array : ak.Array
        An array of records, for example with the fields nMuon, Muon_pt and Muon_eta.

    Returns
    -------
    ak.Array
        An array of records with the fields nMuon and Muon, the latter a list of records with pt and eta. Lists
        without a common prefix in their names are combined as "jagged0", "jagged1" and so on.
    """
    whole: dict[str, Any] = {}
    groups: list[tuple[Any, list[str]]] = []
    for name in array.fields:
        layout = array[name].layout
        if not isinstance(layout, ListOffsetArray) or layout.parameter("__array__") is not None:
            whole[name] = array[name]
            continue
        offsets = layout.offsets.data
        for known, names in groups:
            if known is offsets or (len(offsets) > 1 and np.array_equal(known, offsets)):
                names.append(name)
                break
        else:
            groups.append((offsets, [name]))
    for number, (_, names) in enumerate(groups):
        cut = _common_beginning(names)
        common = names[0][:cut].strip("_./")
        if not common or common in whole:
            cut, common = 0, f"jagged{number}"
        # items with fixed-size arrays cannot be broadcast: then only the lists are zipped
        depth = 2 if any(_has_arrays(array[name].layout.form) for name in names) else None
        whole[common] = ak.zip({name[cut:].strip("_./") or name: array[name] for name in names}, depth_limit=depth)
    contents = [value.layout for value in whole.values()]
    return ak.Array(RecordArray(contents, list(whole), length=len(array)))


def _has_arrays(form: Any) -> bool:
    """Return whether a form contains fixed-size arrays."""
    contents = getattr(form, "contents", None) or [getattr(form, "content", None)]
    below = [content for content in contents if content is not None]
    return bool(form.is_regular and below) or any(_has_arrays(content) for content in below)


def _common_beginning(names: list[str]) -> int:
    n_same = 0
    for letters in zip(*names, strict=False):
        if len(set(letters)) > 1:
            break
        n_same += 1
    return max(names[0][:n_same].rfind(separator) for separator in "_./") + 1


def _without_value(index: Buffer, union: Any) -> Any:
    """Return a union in which missing items have no value: Awkward does not support options of unions."""
    positions = frombuffer(index, np.int64)
    there = np.flatnonzero(positions >= 0)
    tags, places = np.zeros(len(positions), np.int8), np.zeros(len(positions), np.int64)
    tags[there] = union.tags.data[positions[there]]
    places[there] = union.index.data[positions[there]]
    return UnionArray(Index8(tags), Index64(places), union.contents)


class _Builder:
    def __init__(self, schema: Schema | None, add_doc: AddDoc, of_tree: bool, named: bool) -> None:
        self.named = named
        self.schema = schema
        self.add_doc = add_doc
        self.of_tree = of_tree
        self.indexes: dict[int, Index64] = {}  # columns of one collection share their offsets

    def build(self, node: Node, field: int | None) -> Any:
        layout = getattr(self, "_" + node[0])(field, *node[1:])
        if self.schema is None or field is None or not self.add_doc:
            return layout
        return self._documented(layout, self.schema, field)

    def index(self, buffer: Buffer) -> Index64:
        index = self.indexes.get(id(buffer))
        if index is None:
            index = self.indexes[id(buffer)] = Index64(frombuffer(buffer, np.int64))
        return index

    def child(self, field: int | None, position: int = 0) -> int | None:
        children = self.children(field)
        return children[position] if position < len(children) else None

    def children(self, field: int | None) -> list[int]:
        return [] if self.schema is None or field is None else self.schema.children.get(field, [])

    def member(self, field: int | None, name: str) -> int | None:
        """Return the field of a member of a record; it may be a member of a base class."""
        if self.schema is None or field is None:
            return None
        names = self.schema.names
        return next((i for i in self.schema.visible_children(field) if names[i] == name), None)

    def _numpy(self, _: int | None, dtype: str, buffer: Buffer) -> Any:
        return NumpyArray(frombuffer(buffer, dtype))

    def _list(self, field: int | None, offsets: Buffer, content: Node, sort: str | None) -> Any:
        parameters = {"__array__": sort} if self.of_tree and sort else None
        return ListOffsetArray(self.index(offsets), self.build(content, self.child(field)), parameters=parameters)

    def _string(self, _: int | None, offsets: Buffer, data: Buffer) -> Any:
        chars = NumpyArray(frombuffer(data, np.uint8), parameters={"__array__": "char"})
        return ListOffsetArray(self.index(offsets), chars, parameters={"__array__": "string"})

    def _bytes(self, _: int | None, offsets: Buffer, data: Buffer, class_name: str) -> Any:
        content = NumpyArray(frombuffer(data, np.uint8), parameters={"__array__": "byte"})
        parameters = {"__array__": "bytestring", "class_name": class_name}
        return ListOffsetArray(self.index(offsets), content, parameters=parameters)

    def _option(self, field: int | None, index: Buffer, content: Node) -> Any:
        layout = self.build(content, self.child(field))
        return (
            _without_value(index, layout)
            if layout.is_union
            else IndexedOptionArray.simplified(self.index(index), layout)
        )

    def _regular(self, field: int | None, size: int, length: int, content: Node) -> Any:
        return RegularArray(self.build(content, self.child(field)), size, zeros_length=length)

    def _record(
        self, field: int | None, names: list[str] | None, nodes: list[Node], length: int, class_name: str
    ) -> Any:
        is_named = self.of_tree or (self.named and names is not None)
        parameters = {"__record__": class_name} if is_named and class_name else None
        if parameters and not nodes:  # a class without members: in uproot a record for trees, a tuple for ntuples
            names = []
        if names is None:
            if self.of_tree and class_name.startswith("std::pair<"):  # the items of a std::map
                parameters = {"__array__": "sorted_map"}
            whole = len(nodes) == len(self.children(field))
            contents = [self.build(node, self.child(field, i) if whole else None) for i, node in enumerate(nodes)]
            return RecordArray(contents, None, length=length, parameters=parameters)
        contents = [self.build(node, self.member(field, name)) for name, node in zip(names, nodes, strict=True)]
        return RecordArray(contents, names, length=length, parameters=parameters)

    def _union(self, field: int | None, tags: Buffer, index: Buffer, nodes: list[Node]) -> Any:
        valueless = IndexedOptionArray(Index64(np.array([-1])), EmptyArray())
        contents: list[Any] = [valueless]  # tag 0, always at position 0
        for i, node in enumerate(nodes):
            layout = self.build(node, self.child(field, i))
            contents.append(layout if layout.is_option or layout.is_union else UnmaskedArray(layout))
        return UnionArray(Index8(frombuffer(tags, np.int8)), self.index(index), contents)

    def _documented(self, layout: Any, schema: Schema, field: int) -> Any:
        record = schema.records[field]
        if isinstance(self.add_doc, dict):
            known = {**record, "name": schema.names[field]}
            try:
                added = {key: known[attribute] for key, attribute in self.add_doc.items()}
            except KeyError as error:
                raise UsageError(
                    f"ak_add_doc: fields have no attribute {error}; use name, path, typename, "
                    "typealias, description or role"
                ) from None
        elif record["description"]:
            added = {"__doc__": record["description"]}
        else:
            return layout
        return layout.copy(parameters={**layout.parameters, **added})
