"""Conversion of products to Python types, determined once, and again when classes may have changed."""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from femtobarn._core import CLASSES_KNOWN_FOR
from femtobarn._store.product_kinds import Kind, kind_named
from femtobarn._store.product_made import Make, maker_for
from femtobarn._store.product_read import NOTHING, Read, plain_of, reader_of

if TYPE_CHECKING:
    from femtobarn._store.datastore import DataStore

__all__ = ["forget_kinds", "kind_in", "walked"]

_MOST = 1024


class _Walk(NamedTuple):
    read: Read
    make: Make | None
    until: float


_kinds: weakref.WeakKeyDictionary[DataStore, dict[str, tuple[Kind, float]]] = weakref.WeakKeyDictionary()
_walks: weakref.WeakKeyDictionary[DataStore, dict[tuple[str, Any], _Walk]] = weakref.WeakKeyDictionary()


def kind_in(store: DataStore, type_name: str) -> Kind:
    """Return the structure of products of a type.

    Parameters
    ----------
    store : DataStore
        Their store.
    type_name : str
        The type.

    Returns
    -------
    Kind
        The structure; classes unknown to the store can be anything.

    Raises
    ------
    FormatError
        If the store's description of a class is damaged.
    """
    known = _kinds.setdefault(store, {})
    now = time.monotonic()
    kind, until = known.get(type_name, (None, 0.0))
    if kind is None or until <= now:
        kind = kind_named(type_name, dict(store._core.classes(type_name)))
        if reader_of(kind) is not None:  # for unreadable types, a class may be described at any time
            _bound(known)[type_name] = kind, now + CLASSES_KNOWN_FOR
    return kind


def walked(store: DataStore, stored: bytes, type_name: str, form: Any) -> Any:
    """Return a stored value as a Python type.

    Parameters
    ----------
    store : DataStore
        Its store.
    stored : bytes
        The stored bytes.
    type_name : str
        The type in its name.
    form : type
        The requested type.

    Returns
    -------
    object
        The value; `NOTHING` if it is damaged, or of types that can only be read as columns.

    Raises
    ------
    NotMadeError
        If it does not fit the requested type.
    """
    known = _walks.setdefault(store, {})
    walk, now = known.get((type_name, form)), time.monotonic()
    if walk is None or walk.until <= now:
        kind = kind_in(store, type_name)
        read = reader_of(kind)
        if read is None:
            return NOTHING
        walk = _bound(known)[type_name, form] = _Walk(read, maker_for(kind, form), now + CLASSES_KNOWN_FOR)
    plain = plain_of(walk.read, stored)
    return plain if plain is NOTHING or walk.make is None else walk.make(store, plain)


def forget_kinds(store: DataStore) -> None:
    """Clear the known classes of a store.

    Parameters
    ----------
    store : DataStore
        The store.
    """
    _kinds.pop(store, None)
    _walks.pop(store, None)


def _bound(known: dict[Any, Any]) -> dict[Any, Any]:
    """Return a cache with space for one more entry."""
    if len(known) >= _MOST:
        known.clear()
    return known
