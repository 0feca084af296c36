"""Selection and matching of entries, as arguments from users."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from femtobarn._shared.patterns import patterns
from femtobarn._shared.steps import as_integer
from femtobarn.errors import UsageError

__all__ = ["entry_slice", "joining"]

_BEYOND = 2**62


def entry_slice(entries: slice | range | tuple[int | None, int | None]) -> tuple[int | None, int | None]:
    """Turn a selection of entries into the two numbers of a slice.

    Parameters
    ----------
    entries : slice, range or pair of int
        The entries, with step 1.

    Returns
    -------
    tuple of int or None
        The first entry and the one after the last; each may be None or negative, which counts from the end.

    Raises
    ------
    UsageError
        If the selection is anything else.

    Examples
    --------
    >>> from femtobarn._files.entries import entry_slice
    >>> entry_slice(slice(-10, None)), entry_slice(range(5))
    ((-10, None), (0, 5))
    """
    match entries:
        case range():
            if entries.step != 1 or (entries and entries.start < 0):
                raise UsageError(f"entries must have step 1 and no negative numbers, not {entries!r}")
            # the numbers of a range are used as they are, without the meaning of None and negative numbers in slices
            return (entries.start, entries.stop) if entries else (0, 0)
        case (start, stop) if isinstance(entries, tuple):
            step = None
        case slice():
            start, stop, step = entries.start, entries.stop, entries.step
        case _:
            raise UsageError(f"entries must be a slice, a range or a pair of numbers, not {entries!r}")
    try:
        first, last = (None if number is None else as_integer(number) for number in (start, stop))
        if step is not None and as_integer(step) != 1:
            raise UsageError(f"entries must have step 1, not {entries!r}")
    except TypeError:
        raise UsageError(f"entries must be integers, not {entries!r}") from None
    return _clipped(first), _clipped(last)


def joining(
    on: str | Iterable[str] | None, fields: Sequence[str | Iterable[str] | None] | None, unmatched: str
) -> dict[str, Any]:
    """Return the options of the core for matching entries and selecting fields.

    Parameters
    ----------
    on : str or list of str, optional
        Integer fields by which entries are matched.
    fields : list, optional
        For each ntuple, the top-level fields to take.
    unmatched : str
        How entries of the first ntuple without a match in another one are treated.

    Returns
    -------
    dict of str to Any
        Options for the core.

    Raises
    ------
    UsageError
        If `fields` does not have an item for each ntuple.
    """
    given: dict[str, Any] = {"unmatched": unmatched, "on": patterns("on", on)}
    if fields is not None:
        if isinstance(fields, str) or not isinstance(fields, Sequence):
            raise UsageError(f"fields must be a list with an item for each ntuple, not {fields!r}")
        given["fields"] = [patterns("fields", each) for each in fields]
    return given


def _clipped(number: int | None) -> int | None:
    """Return a number in the range of the core; numbers outside of it are beyond the end of every ntuple anyway."""
    return None if number is None else min(max(number, -_BEYOND), _BEYOND)
