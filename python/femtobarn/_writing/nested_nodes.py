"""Conversion of nested Python lists, tuples and dicts to nodes of the core, where Awkward's builder fails.

The builder does not support integers from 2**63 on, nor tuples within shorter tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn._writing.numpy_nodes import bytes_of

if TYPE_CHECKING:
    from femtobarn._core_types import Node

__all__ = ["nested_node"]

_MOST_KINDS = 127


def nested_node(values: list[Any], name: str, to_node: Callable[[list[Any], str], Node]) -> Node:
    """Return the node of a list of Python objects.

    Parameters
    ----------
    values : list
        Nested lists, tuples, dicts and other values.
    name : str
        The name of the column, for messages.
    to_node : callable
        A function that returns the node of a list of numbers or strings, from the list and its name.

    Returns
    -------
    tuple
        The node.

    Raises
    ------
    ValueError, TypeError
        If RNTuple cannot represent a value.
    """
    if not values:
        return ("unknown",)
    values = [_as_python(value) for value in values]
    kinds = [_kind(value) for value in values]
    several = [kind for kind in dict.fromkeys(kinds) if kind is not None]
    if len(several) > 1:
        return _union(values, kinds, several, name, to_node)
    if several and None in kinds:
        index = np.cumsum([kind is not None for kind in kinds], dtype=np.int64) - 1
        index[[kind is None for kind in kinds]] = -1
        there = [value for value in values if value is not None]
        return ("option", bytes_of(index), nested_node(there, name, to_node))
    kind = several[0] if several else None
    if kind == "list":
        offsets = np.concatenate([[0], np.cumsum([len(value) for value in values], dtype=np.int64)])
        return ("list", bytes_of(offsets), nested_node([item for value in values for item in value], name, to_node))
    if kind == "dict":
        keys = list(dict.fromkeys(key for value in values for key in value))
        if not all(isinstance(key, str) for key in keys):
            raise ValueError("names of members must be strings, and it has dicts with other keys")
        members = [nested_node([value.get(key) for value in values], f"{name}.{key}", to_node) for key in keys]
        return ("record", keys, members, len(values), "")
    if isinstance(kind, int):
        members = [nested_node([value[i] for value in values], f"{name}.{i}", to_node) for i in range(kind)]
        return ("record", None, members, len(values), "")
    return to_node(values, name)


def _as_python(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "to_list"):
        return value.to_list()
    is_known = isinstance(value, Mapping | list | tuple | str | bytes)
    return value if is_known or not isinstance(value, Iterable) else list(value)


def _kind(value: Any) -> str | int | None:
    """Return the type of a value; for a tuple its length, since tuples of different lengths have different types."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return len(value)
    for kind, types in (("dict", Mapping), ("list", list), ("bool", bool), ("str", str), ("bytes", bytes)):
        if isinstance(value, types):
            return kind
    return "other"


def _union(
    values: list[Any],
    kinds: list[str | int | None],
    several: list[str | int],
    name: str,
    to_node: Callable[[list[Any], str], Node],
) -> Node:
    if len(several) > _MOST_KINDS:
        raise ValueError(f"its values are of more than {_MOST_KINDS} types")
    tag_of: dict[str | int | None, int] = {kind: tag for tag, kind in enumerate(several, start=1)} | {None: 0}
    tags = np.array([tag_of[kind] for kind in kinds], np.int8)
    places = np.zeros(len(values), np.int64)
    nodes = []
    for tag in range(1, len(several) + 1):
        own = np.flatnonzero(tags == tag)
        places[own] = np.arange(len(own))
        nodes.append(nested_node([values[i] for i in own], name, to_node))
    return ("union", bytes_of(tags), bytes_of(places), nodes)
