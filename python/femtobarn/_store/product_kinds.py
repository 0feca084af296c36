"""The structure of a product's values, derived from its type's name and the members of its classes."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from femtobarn._store.product_types import DTYPES, NUMBERS

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "MOST_EXACT",
    "Array",
    "Kind",
    "List",
    "Number",
    "OddError",
    "Optional",
    "Other",
    "Record",
    "Text",
    "Value",
    "code_of",
    "kind_named",
    "kind_of_plain",
    "size_of",
]


MOST_EXACT = 2**53  # limit up to which a double holds all integers


class OddError(ValueError):
    """A value does not directly match its type, or stored bytes are not as expected."""


class Number(NamedTuple):
    """A number."""

    name: str
    dtype: np.dtype[Any]


class Text(NamedTuple):
    """A string."""

    name: str = "std::string"


class List(NamedTuple):
    """A `std::vector`."""

    name: str
    item: Kind


class Array(NamedTuple):
    """A `std::array`."""

    name: str
    n: int
    item: Kind


class Optional(NamedTuple):
    """A `std::optional`."""

    name: str
    item: Kind


class Record(NamedTuple):
    """A class, with the names and kinds of its members."""

    name: str
    members: tuple[tuple[str, Kind], ...]


class Other(NamedTuple):
    """Anything else, such as maps and variants: the structure is found from a value."""

    name: str


Value: TypeAlias = Number | Text | List | Array | Optional | Record
Kind: TypeAlias = Value | Other

_TEMPLATE = re.compile(r"std::(vector|optional|array)<(.*)>")


def kind_named(name: str, classes: Mapping[str, Sequence[tuple[str, str]]]) -> Kind:
    """Return the structure of values of a type.

    Parameters
    ----------
    name : str
        The name of the type, as in products' names.
    classes : mapping
        The names and types of the members of each class.

    Returns
    -------
    Kind
        What it is.
    """
    if name in classes:
        below = {one: members for one, members in classes.items() if one != name}
        members = tuple((member, kind_named(kind, below)) for member, kind in classes[name])
        is_tuple = members and all(member == f"_{n}" for n, (member, _) in enumerate(members))
        return Other(name) if is_tuple else Record(name, members)
    if name in DTYPES:
        return Number(name, DTYPES[name])
    if name == "std::string":
        return Text()
    found = _TEMPLATE.fullmatch(name)
    if found is None:
        return Other(name)
    template, inner = found.groups()
    if template == "array":
        inner, _, n = inner.rpartition(",")
        return Array(name, int(n), kind_named(inner, classes)) if n.isdecimal() and int(n) else Other(name)
    return (List if template == "vector" else Optional)(name, kind_named(inner, classes))


@functools.lru_cache(maxsize=1024)
def size_of(kind: Kind) -> tuple[int, int] | None:
    """Return size and alignment of a value, as in memory; None if its size varies.

    Parameters
    ----------
    kind : Kind
        What it is.

    Returns
    -------
    tuple of int or None
        Size and alignment.
    """
    if isinstance(kind, Number):
        return kind.dtype.itemsize, kind.dtype.itemsize
    if isinstance(kind, Array):
        item = size_of(kind.item)
        return None if item is None else (kind.n * item[0], item[1])
    if not isinstance(kind, Record) or not kind.members:
        return None
    size, multiple = 0, 1
    for _, member in kind.members:
        own = size_of(member)
        if own is None:
            return None
        size += -size % own[1] + own[0]
        multiple = max(multiple, own[1])
    return size + -size % multiple, multiple


def kind_of_plain(value: Any) -> Value | None:
    """Return the structure of a value from the value itself; None if it cannot be determined.

    Parameters
    ----------
    value : object
        The value, as lists, dicts, numbers and strings.

    Returns
    -------
    Kind or None
        What it is.
    """
    number = {bool: "bool", int: "std::int64_t", float: "double"}.get(type(value))
    if number is not None:
        return Number(number, DTYPES[number])
    if isinstance(value, str):
        return Text()
    if isinstance(value, list):
        return List("list", Other("item"))
    if isinstance(value, Mapping):
        return Record("record", tuple((name, Other("member")) for name in value))
    return None


def code_of(dtype: np.dtype[Any]) -> str:
    """Return the code of a number in `struct`.

    Parameters
    ----------
    dtype : dtype
        What it is.

    Returns
    -------
    str
        The code.
    """
    return _CODES[dtype.name]


_CODES = dict(zip(NUMBERS, "?bBhHiIqQfd", strict=True))
