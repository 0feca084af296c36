"""Classes of products: which dataclasses and records they are, and that the store has a note of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from femtobarn import _core
from femtobarn._shared.optional import optional
from femtobarn._store.product_types import (
    BYTES,
    DTYPES,
    MSGPACK,
    PICKLE,
    hints_of,
    inmost,
    is_dataclass_type,
    member_type_name,
)
from femtobarn._store.ptr import Ptr, note_ptr
from femtobarn._writing.to_nodes import to_batches
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._store.datastore import DataStore

__all__ = ["class_of", "has_classes", "kind_of", "note_kind", "note_records"]

_CLASS = re.compile(r"(?!std::)[A-Za-z_]\w*(::[A-Za-z_]\w*)*(<[\w:<>, ]+>)?", re.ASCII)


def kind_of(value: Any) -> Any:
    """Return the type of a dataclass, a reference, or a list of these; None for other values.

    Parameters
    ----------
    value : object
        The value.

    Returns
    -------
    type or None
        Its type.
    """
    one = value[0] if isinstance(value, list | tuple) and value else value
    kind = type(one)
    if kind is not Ptr and not is_dataclass_type(kind):
        return None
    return kind if one is value else list[kind]  # type: ignore[valid-type]


def note_kind(store: DataStore, kind: Any, name: str | None = None, above: tuple[type, ...] = ()) -> None:
    """Store descriptions of the classes of a type, with members from annotations.

    Parameters
    ----------
    store : DataStore
        Where.
    kind : type
        The type.
    name : str, optional
        The name for the dataclass of its items, if it differs from its own.
    above : tuple of type
        The classes that contain it.

    Raises
    ------
    UsageError
        If an annotation is not supported in products, or the store has a class of this name with other members.
    """
    kind = inmost(kind)
    if kind is Ptr:
        note_ptr(store._codec)
        return
    if not is_dataclass_type(kind):
        return
    name = name or str(kind.__name__)
    members = []
    for member, hint in hints_of(kind).items():
        if inmost(hint) in (*above, kind):
            raise UsageError(
                f"member {member!r} of {kind.__name__}: a class cannot contain itself, here {inmost(hint).__name__}: "
                "store a flat list of them, with the indices of their children"
            )
        note_kind(store, hint, above=(*above, kind))
        try:
            members.append((member, member_type_name(hint)))
        except UsageError as error:
            raise UsageError(f"member {member!r} of {kind.__name__}: {error}") from None
    store._codec.note_class(name, members)


def note_records(store: DataStore, layout: Any, name: str, *, is_own: bool = False) -> str:
    """Store descriptions of the named records in an array, and return the name of its type.

    Parameters
    ----------
    store : DataStore
        Where.
    layout : ak.contents.Content
        The array.
    name : str
        The class of records without a name; nested ones get ``class::member``.
    is_own : bool
        Whether the outermost records get this name even if they have their own.

    Returns
    -------
    str
        The name.
    """
    if layout.is_option:
        inner = note_records(store, layout.content, name, is_own=is_own)
        return inner if inner.startswith("std::optional<") else f"std::optional<{inner}>"
    if layout.is_indexed:
        return note_records(store, layout.project(), name, is_own=is_own)
    if (layout.is_list or layout.is_regular) and layout.parameter("__array__") is None:
        inner = note_records(store, layout.content, name, is_own=is_own)
        return f"std::array<{inner},{layout.size}>" if layout.is_regular else f"std::vector<{inner}>"
    if layout.is_record and not layout.is_tuple:
        own = name if is_own else class_of(layout) or "::".join(map(_core.identifier, name.split("::")))
        within = {key: f"{own}::{_core.identifier(key)}" for key in layout.fields}
        members = [(key, note_records(store, layout.content(key), within[key])) for key in layout.fields]
        if not any("?" in kind for _, kind in members):
            store._codec.note_class(own, members)
        return own if not any("?" in kind for _, kind in members) else "?"
    if layout.is_unknown:
        return "?"
    return store._core.describe(to_batches({name: optional("awkward", "all").Array(layout)}), name)


def class_of(layout: Any) -> str | None:
    """Return the class name of records; None if they have none.

    Parameters
    ----------
    layout : ak.contents.Content
        The records.

    Returns
    -------
    str or None
        The name.
    """
    name = layout.parameter("__record__")
    is_class = isinstance(name, str) and _CLASS.fullmatch(name) is not None
    return name if is_class and name not in (*DTYPES, BYTES, MSGPACK, PICKLE) else None


def has_classes(layout: Any) -> bool:
    """Return whether an array contains named records.

    Parameters
    ----------
    layout : ak.contents.Content
        The array.

    Returns
    -------
    bool
        True if it does.
    """
    if layout.is_record:
        is_named = not layout.is_tuple and class_of(layout) is not None
        return is_named or any(has_classes(content) for content in layout.contents)
    if layout.is_union:
        return False
    return hasattr(layout, "content") and not layout.is_record and has_classes(layout.content)
