"""Arrays as named tuples of NumPy views, which compiled functions of Numba take as they are."""

from __future__ import annotations

import functools
import keyword
import re
from collections import namedtuple
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn.errors import KeyNotFoundError, UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["flat_of", "flat_view", "named_tuple", "named_tuple_class"]

_UNTYPED = re.compile(r"_collection\d+")  # as RNTuple names the collections that lists are projected from


def flat_of(array: Any, names: Iterable[str] | None, counters: frozenset[str]) -> Any:
    """Return an array of records as a named tuple of its columns.

    Parameters
    ----------
    array : ak.Array
        An array of records.
    names : iterable of str, optional
        The fields; by default all, but not the untyped collections whose members are fields themselves.
    counters : frozenset of str
        The names of collections, as "Muon" if the ntuple has the field nMuon.

    Returns
    -------
    tuple
        Each column as `flat_view` returns it. Lists of one collection, as Muon_pt and Muon_eta, are one member, "Muon",
        with their common offsets and the members "pt" and "eta".

    Raises
    ------
    KeyNotFoundError
        If the array has no such field.
    UsageError
        If lists of one collection have different lengths.
    """
    fields, whole_layout = array.fields, array.layout
    chosen = [name for name in fields if not _UNTYPED.fullmatch(name)] if names is None else list(names)
    whole: dict[str, Any] = {}
    members: dict[str, list[tuple[str, Any]]] = {}
    for name in chosen:
        if name not in fields:
            raise KeyNotFoundError(f"no field {name!r} in the batch: its fields are {', '.join(fields)}")
        view = flat_view(whole_layout.content(name) if whole_layout.is_record else array[name].layout, name)
        collection, _, member = name.partition("_")
        if collection in counters and member and collection not in fields and _is_list(view):
            whole.setdefault(collection, None)  # where its first member is
            members.setdefault(collection, []).append((member, view))
        else:
            whole[name] = view
    for collection, found in members.items():
        columns = {"offsets": found[0][1].offsets}
        for member, view in found:
            inner = view._asdict()
            if not np.array_equal(inner.pop("offsets"), columns["offsets"]):
                raise UsageError(
                    f"{collection}_{found[0][0]} and {collection}_{member} have different lengths, but n{collection} "
                    f"makes them one collection: read them in separate flat views, as flat(['{collection}_{member}'])"
                )
            columns |= {member: inner["values"]} if list(inner) == ["values"] else {member: named_tuple(member, inner)}
        whole[collection] = named_tuple(collection, columns)
    return named_tuple("Flat", whole)


def flat_view(layout: Any, name: str = "Flat") -> Any:
    """Return a layout of Awkward as NumPy arrays without copies.

    Parameters
    ----------
    layout : ak.contents.Content
        The layout.
    name : str
        The name of the class, if the result is a named tuple.

    Returns
    -------
    numpy.ndarray or tuple
        Numbers are arrays, and lists tuples of `offsets` and the members of their records, or `values`. Strings have
        bytes as values; optional values have an `index` into `values`, which is negative for missing ones.
    """
    if layout.is_option:
        layout = layout.to_IndexedOptionArray64()
        return named_tuple(name, {"index": _plain(layout.index.data), "values": flat_view(layout.content, name)})
    if layout.is_indexed:
        layout = layout.project()
    if layout.is_numpy:
        return _plain(layout.data)
    if layout.is_unknown:
        return _plain(np.empty(layout.length))
    if layout.is_regular and layout.content.is_numpy and layout.parameter("__array__") is None:
        return _plain(layout.to_RegularArray().maybe_to_NumpyArray().data)
    if layout.is_list:
        layout = layout.to_ListOffsetArray64(False)
        offsets, content = _plain(layout.offsets.data), layout.content
        if content.is_indexed and not content.is_option:
            content = content.project()
        if content.is_record:
            return named_tuple(name, {"offsets": offsets, **_members(content)})
        return named_tuple(name, {"offsets": offsets, "values": flat_view(content, name)})
    if layout.is_record:
        return named_tuple(name, _members(layout))
    contents = {f"values{tag}": flat_view(content, name) for tag, content in enumerate(layout.contents)}
    return named_tuple(name, {"tags": _plain(layout.tags.data), "index": _plain(layout.index.data), **contents})


def _members(layout: Any) -> dict[str, Any]:
    names = [f"slot{name}" if layout.is_tuple else name for name in layout.fields]
    return {name: flat_view(layout.content(field), name) for name, field in zip(names, layout.fields, strict=True)}


def _is_list(view: Any) -> bool:
    return isinstance(view, tuple) and getattr(view, "_fields", ("",))[0] == "offsets"


def _plain(data: Any) -> npt.NDArray[Any]:
    """Return an array of the kind that all batches have, so that Numba compiles a function once: read-only, aligned."""
    view: npt.NDArray[Any] = np.require(data, requirements="A").view()
    view.flags.writeable = False
    return view


def named_tuple(name: str, columns: dict[str, Any]) -> Any:
    """Return values as a named tuple."""
    return named_tuple_class(name, tuple(columns))(*columns.values())


def named_tuple_class(name: str, fields: tuple[str, ...]) -> type:
    """Return a class of named tuples, the same for the same names. Names that Python does not allow are changed."""
    names: list[str] = []
    for field in fields:
        plain = _identifier(field)
        while plain in names:
            plain += "_"
        names.append(plain)
    return _class(_BETWEEN.join([_identifier(name), *names]))


_BETWEEN = "|"  # names in the qualified name of a class


@functools.lru_cache(maxsize=10_000)
def _class(qualified: str) -> type:
    """Return the class with this qualified name, by which pickle finds it, and so Numba in its cache of functions."""
    name, *names = qualified.split(_BETWEEN)
    made = namedtuple(name, names)  # type: ignore[misc] # noqa: PYI024 (the members depend on the data)
    return type(name, (made,), {"__slots__": (), "__qualname__": qualified, "__module__": __name__})


def __getattr__(qualified: str) -> type:
    """Return a class of named tuples by its qualified name."""
    if _BETWEEN not in qualified:
        raise AttributeError(f"module {__name__!r} has no attribute {qualified!r}")
    return _class(qualified)


def _identifier(name: str) -> str:
    plain = re.sub(r"\W", "_", name).lstrip("_") or "member"
    plain = f"member{plain}" if plain[0].isdigit() else plain
    return f"{plain}_" if keyword.iskeyword(plain) else plain
