"""Names and patterns from users."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from femtobarn import _core
from femtobarn.errors import UsageError


def patterns(what: str, given: object) -> list[str]:
    """Turn a name, a pattern or several of them into a list.

    Parameters
    ----------
    what : str
        The name of the argument, for messages.
    given : object
        What the user gave; None for nothing.

    Returns
    -------
    list of str
        The patterns.

    Raises
    ------
    UsageError
        If `given` is something else, or an empty list of fields.

    Examples
    --------
    >>> from femtobarn._shared.patterns import patterns
    >>> patterns("fields", "Muon_*")
    ['Muon_*']
    """
    if given is None:
        return []
    if isinstance(given, str):
        return [given]
    all_given: list[Any] = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(pattern, str) for pattern in all_given) or (what == "fields" and not all_given):
        raise UsageError(f"{what} must be the name of a field, a pattern, or a list of these, not {given!r}")
    return all_given


def several(what: str, pattern: str) -> str:
    """Return a hint for a pattern without a match that looks like several patterns.

    Parameters
    ----------
    what : str
        The name of the argument.
    pattern : str
        The pattern.

    Returns
    -------
    str
        The end of a message, or an empty string.

    Examples
    --------
    >>> from femtobarn._shared.patterns import several
    >>> several("drop", "Electron, Muon")
    "; pass several as a list: drop=['Electron', 'Muon']"
    """
    parts = [part.strip() for part in pattern.split(",")]
    return f"; pass several as a list: {what}={parts}" if len(parts) > 1 else ""


def fits(name: str, wanted: Iterable[str]) -> bool:
    """Return whether a name matches one of several patterns, with the wildcards ``*``, ``?`` and ``[a-c]``.

    Parameters
    ----------
    name : str
        The name.
    wanted : iterable of str
        The patterns.

    Returns
    -------
    bool
        Whether a pattern matches the whole name.

    Examples
    --------
    >>> from femtobarn._shared.patterns import fits
    >>> fits("Muon_pt", ["Jet_*", "Muon_?t"]), fits("a", ["[bc]"])
    (True, False)
    """
    return any(_core.matches(pattern, name) for pattern in wanted)
