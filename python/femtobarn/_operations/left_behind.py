"""What an operation does not carry along to the file that it makes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from femtobarn._shared.repr import shortened

__all__ = ["LeftBehind", "left_behind_of", "left_behind_text"]


@dataclass(frozen=True)
class LeftBehind:
    """An object of the inputs, or a field of one, that is not in the output.

    Parameters
    ----------
    name : str
        The path of the object in its file.
    class_name : str
        The class of the object, such as "TTree".
    field : str or None
        The field or branch of the object, if the object itself is in the output.
    reason : str
        Why it is not in the output.
    files : tuple of str
        The files that have it.
    """

    name: str
    class_name: str
    field: str | None
    reason: str
    files: tuple[str, ...] = ()


def left_behind_of(found: Iterable[dict[str, Any]]) -> tuple[LeftBehind, ...]:
    """Return what the core's report has in its `left_behind`.

    Parameters
    ----------
    found : iterable of dict
        The items, from JSON.

    Returns
    -------
    tuple of LeftBehind
        The same.
    """
    each = ((it["name"], it["class"], it["field"], it["reason"], tuple(it["files"])) for it in found)
    return tuple(LeftBehind(*it) for it in each)


def left_behind_text(items: Iterable[LeftBehind]) -> str:
    """Return the names of what is left behind for a repr; fields stand behind the name of their object.

    Parameters
    ----------
    items : iterable of LeftBehind
        Objects and fields.

    Returns
    -------
    str
        The first names; empty if there is nothing.

    Examples
    --------
    >>> from femtobarn import LeftBehind
    >>> from femtobarn._operations.left_behind import left_behind_text
    >>> left_behind_text([LeftBehind("Runs", "TTree", None, "not named"), LeftBehind("Events", "TTree", "x", "why")])
    'left behind: Runs, Events.x'
    """
    names = [it.name if it.field is None else f"{it.name}.{it.field}" for it in items]
    return f"left behind: {shortened(names)}" if names else ""
