"""Types of products: their names, and the matching Python types."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from femtobarn import _core
from femtobarn._store.ptr import PTR, Ptr
from femtobarn.errors import UsageError

__all__ = [
    "BYTES",
    "DTYPES",
    "MSGPACK",
    "NUMBERS",
    "PICKLE",
    "SCALARS",
    "checked_text",
    "defaults_of",
    "dtype_of",
    "fitting",
    "hints_of",
    "inmost",
    "is_dataclass_type",
    "is_opaque",
    "item_of",
    "maker_of",
    "member_type_name",
    "optional_of",
    "type_name_of",
]


BYTES = "bytes"
MSGPACK = "msgpack"
PICKLE = "pickle"
_BYTES_WITHIN = "std::vector<std::uint8_t>"
_OPAQUE = (BYTES, MSGPACK, PICKLE)

# NumPy's names of number types, and their C++ names as normalized by ROOT
NUMBERS = {
    "bool": "bool",
    "int8": "std::int8_t",
    "uint8": "std::uint8_t",
    "int16": "std::int16_t",
    "uint16": "std::uint16_t",
    "int32": "std::int32_t",
    "uint32": "std::uint32_t",
    "int64": "std::int64_t",
    "uint64": "std::uint64_t",
    "float32": "float",
    "float64": "double",
}
DTYPES = {name: np.dtype(dtype) for dtype, name in NUMBERS.items()}
SCALARS: dict[type, str] = {bool: "bool", int: "std::int64_t", float: "double", str: "std::string"}


def type_name_of(kind: Any) -> str:
    """Return the name of a type as used in products' names.

    Parameters
    ----------
    kind : str, type or dtype
        A name of C++ or ROOT, which is normalized as ROOT does it; `bytes`, `int`, `float`, `bool` or `str`; a
        dataclass; `Ptr`; a dtype of NumPy; ``list[T]`` or ``tuple[T, ...]`` of one of these, for a ``std::vector``;
        ``T | None``, for a ``std::optional``.

    Returns
    -------
    str
        The name.

    Raises
    ------
    UsageError
        If it is something else.

    Examples
    --------
    >>> from femtobarn._store.product_types import type_name_of
    >>> type_name_of(list[float])
    'std::vector<double>'
    """
    if isinstance(kind, str):
        return _core.type_name(checked_text(kind, "type"))
    if kind in (bytes, bytearray, memoryview):
        return BYTES
    if (inner := item_of(kind)) is not None:
        return f"std::vector<{member_type_name(inner)}>"
    if (inner := optional_of(kind)) is not None:
        return f"std::optional<{member_type_name(inner)}>"
    if is_dataclass_type(kind):
        return str(kind.__name__)
    if kind is Ptr:
        return PTR
    if isinstance(kind, type) and kind in SCALARS:
        return SCALARS[kind]
    if (dtype := dtype_of(kind)) is not None:
        return NUMBERS[dtype.name]
    raise UsageError(f"{kind!r} cannot be the type of a product: {_advice(kind)}")


def member_type_name(kind: Any) -> str:
    """Return the name of the type of a member or an item: bytes become a vector, which other languages can read.

    Parameters
    ----------
    kind : str, type or dtype
        As in `type_name_of`.

    Returns
    -------
    str
        The name.
    """
    return _BYTES_WITHIN if kind in (bytes, bytearray, memoryview) else type_name_of(kind)


def fitting(form: Any, kinds: Iterable[str]) -> str | None:
    """Return which of several types a Python type selects.

    Parameters
    ----------
    form : object
        The Python type: `float` selects ``double``, or else ``float``; `int` selects ``std::int64_t``, or the only
        integer type; ``list[T]`` selects vectors of T's type.
    kinds : iterable of str
        The names of the existing types.

    Returns
    -------
    str or None
        The name of the selected type; None if none or several fit.

    Examples
    --------
    >>> from femtobarn._store.product_types import fitting
    >>> fitting(list[float], ["std::vector<float>", "std::vector<std::int32_t>"])
    'std::vector<float>'
    """
    there = set(kinds)
    found = next((own for group in _names_of(form) if (own := there.intersection(group))), set())
    return found.pop() if len(found) == 1 else None


def _names_of(form: Any) -> list[tuple[str, ...]]:
    """Return the names of the types that a Python type can select, by priority."""
    if form is float:
        return [("double",), ("float",)]
    if form is int:
        return [("std::int64_t",), tuple(name for name, dtype in DTYPES.items() if dtype.kind in "iu")]
    for inner, outer in ((item_of(form), "std::vector<{}>"), (optional_of(form), "std::optional<{}>")):
        if inner is not None:
            return [tuple(outer.format(name) for name in names) for names in _names_of(inner)]
    with contextlib.suppress(UsageError):
        return [(type_name_of(form),)]
    return []


def _advice(kind: Any) -> str:
    """Return advice for an unsupported type."""
    of = typing.get_origin(kind) or kind
    if of is np.ndarray:
        return "the type of the items is missing: use list[np.float32], or a list of the item type"
    if of is tuple:
        return "use a dataclass for members of several types; use tuple[T, ...] or list[T] for items of one type"
    if of is dict:
        return "use a dataclass, or lists of keys and values"
    if of is list:
        return "the type of the items is missing: use list[float], or a list of the item type"
    return (
        "use a name such as 'std::vector<float>', bytes, int, float, bool, str, a dataclass, Ptr, a dtype of NumPy, or "
        "list[T] or T | None of one of these"
    )


def item_of(kind: Any) -> Any:
    """Return the item type of a list type; None for other types.

    Parameters
    ----------
    kind : object
        The type.

    Returns
    -------
    object
        ``T`` of ``list[T]`` and ``tuple[T, ...]``.
    """
    args = typing.get_args(kind)
    if typing.get_origin(kind) is list and args:
        return args[0]
    return args[0] if typing.get_origin(kind) is tuple and args[1:] == (...,) else None


def optional_of(kind: Any) -> Any:
    """Return the type without ``None``; None if the type does not allow missing values.

    Parameters
    ----------
    kind : object
        The type.

    Returns
    -------
    object
        ``T`` of ``T | None``.
    """
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return None
    args = typing.get_args(kind)
    rest = [arg for arg in args if arg is not type(None)]
    return rest[0] if len(rest) == 1 and len(args) == 2 else None


def inmost(kind: Any) -> Any:
    """Return the innermost item type of nested lists.

    Parameters
    ----------
    kind : object
        The type.

    Returns
    -------
    object
        The type that is neither a list nor optional.
    """
    while (inner := item_of(kind) or optional_of(kind)) is not None:
        kind = inner
    return kind


def dtype_of(kind: Any) -> np.dtype[Any] | None:
    """Return the dtype of a number type; None for other types.

    Parameters
    ----------
    kind : object
        `bool`, `int`, `float`, or a dtype of NumPy.

    Returns
    -------
    dtype or None
        Its dtype.
    """
    if isinstance(kind, type) and kind in SCALARS:
        return DTYPES.get(SCALARS[kind])
    try:
        dtype = np.dtype(kind) if kind is not None else None
    except (TypeError, ValueError):
        return None
    return dtype if dtype is not None and dtype.name in NUMBERS else None


def is_dataclass_type(kind: Any) -> bool:
    """Return whether a type is a dataclass.

    Parameters
    ----------
    kind : object
        The type.

    Returns
    -------
    bool
        Whether it is.
    """
    return dataclasses.is_dataclass(kind) and isinstance(kind, type)


@functools.lru_cache(maxsize=1024)
def hints_of(kind: type) -> dict[str, Any]:
    """Return the types of a dataclass's members.

    Parameters
    ----------
    kind : type
        The dataclass.

    Returns
    -------
    dict
        Their names and types.

    Raises
    ------
    UsageError
        If they cannot be resolved.
    """
    try:
        hints = typing.get_type_hints(kind)
    except NameError as error:
        raise UsageError(f"annotations of {kind.__name__} cannot be resolved where it is defined: {error}") from error
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


@functools.lru_cache(maxsize=1024)
def defaults_of(kind: type) -> frozenset[str]:
    """Return the members of a dataclass that have a default.

    Parameters
    ----------
    kind : type
        The dataclass.

    Returns
    -------
    frozenset of str
        Their names.
    """
    none, is_finished = dataclasses.MISSING, hasattr(kind, "__post_init__")
    fields = dataclasses.fields(kind)
    return frozenset(
        one.name
        for one in fields
        if one.default is not none or one.default_factory is not none or (is_finished and not one.init)
    )


_SETATTR: Any = object.__setattr__
_PLAIN = (bool, int, float, str, bytes, type(None), np.generic)


class Maker(typing.NamedTuple):
    """How a dataclass is made of its members."""

    make: Callable[..., Any]
    takes_members: bool  # as they are; else a dict of them
    takes_places: bool  # also without their names


@functools.lru_cache(maxsize=1024)
def maker_of(kind: type) -> Maker:
    """Return how a dataclass is made of members that were stored.

    Members keep their stored values, even if the constructor would change them. If the constructor needs other
    arguments (an ``InitVar`` without a default, or a custom constructor), it is not called, as for copies.

    Parameters
    ----------
    kind : type
        The dataclass.

    Returns
    -------
    Maker
        How it is made; members that have defaults may be missing.
    """
    fields = dataclasses.fields(kind)
    given = {one.name for one in fields if one.init}
    parameters = inspect.signature(kind).parameters.values()
    wanted = {one.name for one in parameters if one.default is one.empty and one.kind is not one.VAR_KEYWORD}
    if not wanted <= given <= {one.name for one in parameters}:
        return Maker(functools.partial(_made_without_init, kind), False, False)
    own = vars(kind).get("__dataclass_params__")  # none if its constructor may differ from its base's
    is_plain = own is not None and own.init and len(given) == len(fields) and not hasattr(kind, "__post_init__")
    sets_plainly = own is not None and (own.frozen or getattr(kind, "__setattr__", None) is _SETATTR)
    if is_plain and sets_plainly and _is_generated(getattr(kind, "__init__", None)):
        return Maker(kind, True, not any(one.kw_only for one in fields))

    def make(members: dict[str, Any]) -> Any:
        made = kind(**{name: _copied(value) for name, value in members.items() if name in given})
        for name, value in members.items():
            if name not in given or not _is_same(getattr(made, name, dataclasses.MISSING), value):
                object.__setattr__(made, name, value)  # also for a frozen one
        return made

    return Maker(make, False, False)


def _is_generated(init: Any) -> bool:
    """Whether the constructor was generated by `dataclass`, and takes members unchanged."""
    code = getattr(init, "__code__", None)
    return code is not None and code.co_qualname.startswith("__create_fn__.")


def _copied(value: Any) -> Any:
    """Return a copy that a constructor may change."""
    if isinstance(value, list | tuple):
        return type(value)(map(_copied, value))
    if isinstance(value, dict):
        return {name: _copied(one) for name, one in value.items()}
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    copied: Any = object.__new__(type(value))
    for field in dataclasses.fields(value):
        if hasattr(value, field.name):
            object.__setattr__(copied, field.name, _copied(getattr(value, field.name)))
    return copied


def _is_same(now: Any, stored: Any) -> bool:
    """Whether a constructor has kept the content; converting a list to an array is not a change."""
    if isinstance(stored, list | tuple):
        is_many = isinstance(now, list | tuple | np.ndarray)
        return is_many and len(now) == len(stored) and all(map(_is_same, now, stored))
    if dataclasses.is_dataclass(stored) and not isinstance(stored, type):
        if type(now) is not type(stored):
            return False
        names = [field.name for field in dataclasses.fields(stored)]
        none = dataclasses.MISSING
        return all(_is_same(getattr(now, name, none), getattr(stored, name, none)) for name in names)
    if now is stored:
        return True
    both_plain = isinstance(now, _PLAIN) and isinstance(stored, _PLAIN)
    return both_plain and bool(now == stored or (now != now and stored != stored))  # NaN is not equal to itself


def _made_without_init(kind: type, members: dict[str, Any]) -> Any:
    made: Any = object.__new__(kind)
    for field in dataclasses.fields(kind):
        if field.name in members:
            object.__setattr__(made, field.name, members[field.name])
        elif field.default_factory is not dataclasses.MISSING:
            object.__setattr__(made, field.name, field.default_factory())
        elif field.default is not dataclasses.MISSING:
            object.__setattr__(made, field.name, field.default)
    return made


def checked_text(text: str, what: str) -> str:
    """Check that a label or a name can be part of a key, and return it.

    Parameters
    ----------
    text : str
        The label or name.
    what : str
        What it is, for the message.

    Returns
    -------
    str
        The same.

    Raises
    ------
    UsageError
        If it is not valid UTF-8.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"{text!r} cannot be a {what}: {text[error.start]!r} is not valid UTF-8") from None
    return text


def is_opaque(type_name: str) -> bool:
    """Return whether values of a type are bytes of unknown structure.

    Parameters
    ----------
    type_name : str
        The type in a product's name.

    Returns
    -------
    bool
        Whether they are.
    """
    return type_name in _OPAQUE
