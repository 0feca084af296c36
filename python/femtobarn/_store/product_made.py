"""Conversion of loaded values to requested Python types.

It is determined once for each pair of types, so that a wrong annotation is an error for all values.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from femtobarn._store.product_forms import shown
from femtobarn._store.product_kinds import (
    Array,
    Kind,
    List,
    Number,
    Optional,
    Other,
    Record,
    Text,
    Value,
    kind_of_plain,
)
from femtobarn._store.product_types import (
    defaults_of,
    dtype_of,
    hints_of,
    is_dataclass_type,
    item_of,
    maker_of,
    optional_of,
)
from femtobarn._store.ptr import Ptr

if TYPE_CHECKING:
    from femtobarn._store.datastore import DataStore

__all__ = ["Make", "NotMadeError", "maker_for"]

Make: TypeAlias = Callable[["DataStore", Any], Any]


class NotMadeError(Exception):
    """A stored type, or a value, does not fit the requested type."""


@functools.lru_cache(maxsize=4096)
def maker_for(kind: Kind, form: Any) -> Make | None:
    """Return a function that makes values of a Python type.

    Parameters
    ----------
    kind : Kind
        The stored structure.
    form : type
        The requested type.

    Returns
    -------
    callable or None
        Takes the store, to which references refer, and the value as numbers, strings, lists and dicts; None if no
        conversion is needed. It raises `NotMadeError` if a value does not fit.

    Raises
    ------
    NotMadeError
        If the type does not fit; the message names the member, if it is one.
    """
    make = _maker(kind, form)
    if not (isinstance(form, type) and issubclass(form, np.generic)):
        return make
    # members are Python numbers, even if annotated with a NumPy type
    return lambda store, plain: form(plain if make is None else make(store, plain))


def _maker(kind: Kind, form: Any) -> Make | None:
    """Return a function that makes it from plain values; None if no conversion is needed."""
    if form in (complex, np.ndarray) or (
        isinstance(form, type) and issubclass(form, np.generic) and not _is_known(form)
    ):
        raise NotMadeError
    if not _is_known(form):
        return None
    if isinstance(kind, Other):
        return functools.partial(_make_other, form)
    if (inner := optional_of(form)) is not None:
        make = _maker(kind.item if isinstance(kind, Optional) else kind, inner)
        return None if make is None else lambda store, plain: None if plain is None else make(store, plain)
    if isinstance(kind, Optional):
        return functools.partial(_make_present, _maker(kind.item, form), form)
    if form is list or item_of(form) is not None:
        return _list_maker(kind, form)
    if isinstance(kind, Number) and (dtype := dtype_of(form)) is not None:
        return _number_maker(kind.dtype, dtype, form)
    if isinstance(kind, Record) and is_dataclass_type(form):
        return _dataclass_maker(kind, form)
    if isinstance(kind, Record) and form is Ptr:
        return Ptr.from_record
    if isinstance(kind, List) and form is bytes and kind.item == Number("std::uint8_t", np.dtype("u1")):
        return lambda _, plain: bytes(plain)
    if form is {Text: str, Record: dict}.get(type(kind)):
        return None
    raise NotMadeError


def _is_known(form: Any) -> bool:
    """Whether a type is known; members of unknown types are returned as stored."""
    if form in (str, bytes, list, dict, Ptr) or is_dataclass_type(form) or dtype_of(form) is not None:
        return True
    return item_of(form) is not None or optional_of(form) is not None


def _make_other(form: Any, store: DataStore, plain: Any) -> Any:
    if plain is None and optional_of(form) is not None:
        return None
    if isinstance(plain, tuple) and is_dataclass_type(form):
        plain = {f"_{n}": member for n, member in enumerate(plain)}
    kind: Value | None = kind_of_plain(plain)
    if kind is None:
        raise NotMadeError
    make = _maker(kind, form)
    return plain if make is None else make(store, plain)


def _make_present(make: Make | None, form: Any, store: DataStore, plain: Any) -> Any:
    if plain is None:
        raise NotMadeError(f"a value is missing; annotate it as {shown(form)} | None")
    return plain if make is None else make(store, plain)


def _list_maker(kind: Kind, form: Any) -> Make | None:
    if not isinstance(kind, List | Array):
        raise NotMadeError
    make = None if form is list else _maker(kind.item, item_of(form))
    of = tuple if typing.get_origin(form) is tuple else list
    if make is None:
        return None if of is list else lambda _, plain: tuple(plain)
    return lambda store, plain: of([make(store, one) for one in plain])


def _number_maker(stored: np.dtype[Any], wanted: np.dtype[Any], form: Any) -> Make | None:
    """Return a function that converts a number to another type; int and float accept any number that they can hold."""
    is_own = form is int or form is float
    is_real = wanted.kind == "f"
    fits = stored.kind in ("biuf" if is_real else "biu") if is_own else np.can_cast(stored, wanted)
    if not fits:
        raise NotMadeError
    if stored.kind == wanted.kind or (stored.kind in "iu" and not is_real):
        return None
    return _make_real if is_real else lambda _, plain: int(plain)


def _make_real(_: DataStore, plain: Any) -> float:
    real = float(plain)
    if int(real) != plain:
        raise NotMadeError(f"{plain} cannot be represented exactly as a float")
    return real


def _dataclass_maker(kind: Record, form: type) -> Make:
    if not kind.members and not hints_of(form):
        return lambda _, plain: form()
    hints, members = hints_of(form), dict(kind.members)
    there = [name for name in hints if name in members]
    missing = [name for name in hints if name not in members and (not there or name not in defaults_of(form))]
    if missing:
        own = f"{missing[0]} in {form.__name__}"
        advice = f"; to load it anyway, give {own} a default" if there else ""
        raise NotMadeError(f"it has no {', '.join(missing)}{advice}")
    makers = [(name, _member_maker(name, members[name], form)) for name in there]
    make = maker_of(form)
    if there == list(members) and all(one is None for _, one in makers):
        return lambda _, plain: make(plain)

    def make_all(store: DataStore, plain: Any) -> Any:
        return make({name: plain[name] if one is None else one(store, plain[name]) for name, one in makers})

    return make_all


def _member_maker(name: str, kind: Kind, form: type) -> Make | None:
    hint = hints_of(form)[name]
    try:
        make = _maker(kind, hint)
    except NotMadeError as error:
        raise _of_member(name, kind, hint, form, error) from None
    if make is None:
        return None

    def make_member(store: DataStore, plain: Any) -> Any:
        try:
            return make(store, plain)
        except NotMadeError as error:
            raise _of_member(name, kind, hint, form, error) from None

    return make_member


def _of_member(name: str, kind: Kind, hint: Any, form: type, error: NotMadeError) -> NotMadeError:
    """Return the error of a value as the error of its member."""
    why = f": {error}" if str(error) else f" is stored as {kind.name} and cannot be loaded as {shown(hint)}"
    return NotMadeError(f"member {name!r} of {form.__name__}{why}")
