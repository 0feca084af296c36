"""Objects and fields that an operation does not copy to its output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from femtobarn._shared.repr import shortened

__all__ = ["LeftBehind", "left_behind_of", "left_behind_text"]


@dataclass(frozen=True)
class LeftBehind:
    """An object of the inputs, or a field of an object, that is not in the output.

    Parameters
    ----------
    name : str
        The path of the object in its file.
    class_name : str
        The class of the object, such as "TTree".
    field : str or None
        The field or branch, if the object itself is in the output.
    reason : str
        The reason.
    files : tuple of str
        The files that have it.
    """

    name: str
    class_name: str
    field: str | None
    reason: str
    files: tuple[str, ...] = ()


def left_behind_of(found: Iterable[dict[str, Any]]) -> tuple[LeftBehind, ...]:
    """Return the `left_behind` of a report of the core.

    Parameters
    ----------
    found : iterable of dict
        The items, from JSON.

    Returns
    -------
    tuple of LeftBehind
        The same as objects.
    """
    each = ((it["name"], it["class"], it["field"], it["reason"], tuple(it["files"])) for it in found)
    return tuple(LeftBehind(*it) for it in each)


def left_behind_text(items: Iterable[LeftBehind]) -> str:
    """Return the names of objects and fields that are left behind, for a repr; fields follow the name of their object.

    Parameters
    ----------
    items : iterable of LeftBehind
        Objects and fields.

    Returns
    -------
    str
        The first names; empty if there are none.

    Examples
    --------
    >>> from femtobarn import LeftBehind
    >>> from femtobarn._operations.left_behind import left_behind_text
    >>> left_behind_text([LeftBehind("Runs", "TTree", None, "not named"), LeftBehind("Events", "TTree", "x", "why")])
    'left behind: Runs, Events.x'
    """
    names = [it.name if it.field is None else f"{it.name}.{it.field}" for it in items]
    return f"left behind: {shortened(names)}" if names else ""
