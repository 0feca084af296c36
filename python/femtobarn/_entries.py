"""Which entries are taken, as users say it."""

from __future__ import annotations

from femtobarn._steps import as_integer
from femtobarn.errors import UsageError

__all__ = ["entry_slice"]

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
    >>> from femtobarn._entries import entry_slice
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


def _clipped(number: int | None) -> int | None:
    """Return a number that the core can hold, and that is beyond all ntuples if this is."""
    return None if number is None else min(max(number, -_BEYOND), _BEYOND)
