"""Which entries are taken, and which belong together, as users say it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from femtobarn._shared.patterns import patterns
from femtobarn._shared.steps import as_integer
from femtobarn.errors import UsageError

__all__ = ["entry_slice", "joining"]

_BEYOND = 2**62


def entry_slice(entries: slice | range | tuple[int | None, int | None]) -> tuple[int | None, int | None]:
    """Turn entries as users give them into the two numbers of a slice.

    Parameters
    ----------
    entries : slice, range or pair of int
        Entries in steps of one.

    Returns
    -------
    tuple of int or None
        The first entry and the one behind the last, of which each may be None or count from the end.

    Raises
    ------
    UsageError
        If it is something else.

    Examples
    --------
    >>> from femtobarn._files.entries import entry_slice
    >>> entry_slice(slice(-10, None)), entry_slice(range(5))
    ((-10, None), (0, 5))
    """
    match entries:
        case range():
            if entries.step != 1 or (entries and entries.start < 0):
                raise UsageError(f"entries are a slice or a range in steps of one, from zero on, not {entries!r}")
            # a range has its numbers, whatever they would mean in a slice
            return (entries.start, entries.stop) if entries else (0, 0)
        case (start, stop) if isinstance(entries, tuple):
            step = None
        case slice():
            start, stop, step = entries.start, entries.stop, entries.step
        case _:
            raise UsageError(f"entries are a slice, a range or a pair of numbers, not {entries!r}")
    try:
        first, last = (None if number is None else as_integer(number) for number in (start, stop))
        if step is not None and as_integer(step) != 1:
            raise UsageError(f"entries are taken in steps of one, not {entries!r}")
    except TypeError:
        raise UsageError(f"entries are counted by integers, not {entries!r}") from None
    return _clipped(first), _clipped(last)


def joining(
    on: str | Iterable[str] | None, fields: Sequence[str | Iterable[str] | None] | None, unmatched: str
) -> dict[str, Any]:
    """Return which entries belong together, and which fields are taken, as the core has it.

    Parameters
    ----------
    on : str or list of str, optional
        Fields of integers.
    fields : list, optional
        For each ntuple, the top-level fields to take.
    unmatched : str
        What becomes of entries of the first ntuple that another one does not have.

    Returns
    -------
    dict of str to Any
        Options of the core.

    Raises
    ------
    UsageError
        If the fields are not those of several ntuples.
    """
    given: dict[str, Any] = {"unmatched": unmatched, "on": patterns("on", on)}
    if fields is not None:
        if isinstance(fields, str) or not isinstance(fields, Sequence):
            raise UsageError(f"fields are a list with an item for each ntuple, not {fields!r}")
        given["fields"] = [patterns("fields", each) for each in fields]
    return given


def _clipped(number: int | None) -> int | None:
    """Return a number that the core can hold, and that is beyond all ntuples if this is."""
    return None if number is None else min(max(number, -_BEYOND), _BEYOND)
