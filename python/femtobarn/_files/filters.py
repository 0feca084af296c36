"""Filters: strings, patterns, functions and lists of them, compiled to one predicate."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from femtobarn import _core
from femtobarn.errors import UsageError

__all__ = ["Filter", "compile_filter", "is_pattern", "name_matches"]

Predicate: TypeAlias = Callable[[str], bool]
Filter: TypeAlias = "str | re.Pattern[str] | Predicate | Iterable[Filter] | None"
"""None (everything), a name, a glob, a regular expression ("/re/i" or compiled), a function of the name, or several."""

_REGEX = re.compile(r"/(.*)/([iLmsux]*)", re.DOTALL)


def is_pattern(text: str) -> bool:
    """Return whether a string is a glob or a "/regular expression/" instead of a plain name."""
    return _REGEX.fullmatch(text) is not None or _core.is_pattern(text)


def compile_filter(wanted: Filter) -> Predicate | None:
    """Turn a filter into a predicate.

    Parameters
    ----------
    wanted : Filter
        Any kind of filter. Regular expressions match from the start of the name, as in uproot.

    Returns
    -------
    callable or None
        A function that takes a name and returns a bool; None if everything passes.

    Raises
    ------
    UsageError
        If it is not a filter, or a regular expression is invalid.

    Examples
    --------
    >>> from femtobarn._files.filters import compile_filter
    >>> muons = compile_filter(["Muon_*", "/n(muon|jet)/i"])
    >>> [name for name in ["Muon_pt", "nMuon", "Jet_pt"] if muons(name)]
    ['Muon_pt', 'nMuon']
    """
    if wanted is None:
        return None
    if isinstance(wanted, str):
        return _compile_string(wanted)
    if isinstance(wanted, re.Pattern):
        return _matcher(wanted)
    if callable(wanted):
        # otherwise a name that only has a leading dot would pass every function that excludes names
        return lambda name: not name.startswith(".") and wanted(name)
    given: object = wanted  # callers without types may pass anything
    if isinstance(given, Iterable) and not isinstance(given, (bytes, bytearray)):
        return _compile_list(given)
    raise UsageError(
        "a filter must be None, a name, a glob such as 'Muon_*', a regular expression such as '/muon_.*/i', "
        f"a function of the name, or a list of these, not {wanted!r}"
    )


def name_matches(predicate: Predicate, name: str, path: str) -> bool:
    """Return whether the name or the path of a field passes a filter, with or without a leading dot."""
    return predicate(name) or (path != name and predicate(path)) or predicate("." + path)


def _compile_string(text: str) -> Predicate:
    regex = _REGEX.fullmatch(text)
    if regex is not None:
        flags = re.NOFLAG
        for letter in regex.group(2):
            flags |= re.RegexFlag[letter.upper()]
        try:
            return _matcher(re.compile(regex.group(1), flags))
        except re.error as error:
            raise UsageError(f"invalid regular expression {text!r}: {error}") from None
    if _core.is_pattern(text):
        return partial(_core.matches, text)
    return text.__eq__


def _matcher(pattern: re.Pattern[str]) -> Predicate:
    return lambda name: pattern.match(name) is not None


def _compile_list(filters: Iterable[Filter]) -> Predicate | None:
    names: set[str] = set()
    others: list[Predicate] = []
    for item in filters:
        if isinstance(item, str) and not is_pattern(item):
            names.add(item)
            continue
        predicate = compile_filter(item)
        if predicate is None:
            return None
        others.append(predicate)
    return lambda name: name in names or any(other(name) for other in others)
