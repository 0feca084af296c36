"""Checks of arguments."""

from __future__ import annotations

import operator
from typing import Any, ParamSpec, TypeVar

import numpy as np

from femtobarn.errors import UsageError

__all__ = ["ABSENT", "at_least", "checked_number", "number_range", "range_end", "true_or_false"]

ABSENT = 2**64 - 1  # the number that stands for none

P = ParamSpec("P")
R = TypeVar("R")


def number_range(part: slice) -> tuple[int, int]:
    """Return the first number of a slice, and its exclusive end."""
    if part.step not in (None, 1):
        raise UsageError("containers can only be sliced by numbers, without a step")
    start, stop = part.start, part.stop
    return 0 if start is None else checked_number(start), ABSENT if stop is None else range_end(stop)


def at_least(name: str, number: Any, least: int) -> int:
    """Check that a number has a minimum value, and return it.

    Parameters
    ----------
    name : str
        Its name, for messages.
    number : int
        The number.
    least : int
        The minimum.

    Returns
    -------
    int
        The number.

    Raises
    ------
    UsageError
        If it is smaller, or not a number.
    """
    value = _index(number)
    if value is None or value < least:
        raise UsageError(f"{name} must be {least} or more, not {number!r}")
    return value


def true_or_false(name: str, value: Any) -> bool:
    """Check that a value is a boolean, and return it.

    Parameters
    ----------
    name : str
        Its name, for messages.
    value : bool
        The value.

    Returns
    -------
    bool
        The same.

    Raises
    ------
    UsageError
        If it is not a boolean.
    """
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def _index(number: Any) -> int | None:
    """Return an integer of any kind, or None: arrays look like integers until they are converted."""
    try:
        return operator.index(number)
    except TypeError:
        return None


def checked_number(number: Any) -> int:
    value = None if isinstance(number, bool) else _index(number)
    if value is None:
        raise UsageError(f"invalid number {number!r}: expected the integer of a run, subrun or event")
    if not 0 <= value < ABSENT:
        raise UsageError(f"{value} is not a number of a run, subrun or event: expected 0 to 2**64 - 2")
    return value


def range_end(number: Any) -> int:
    """Return the exclusive end of a range, which may be one more than the highest number."""
    return ABSENT if number == ABSENT else checked_number(number)
