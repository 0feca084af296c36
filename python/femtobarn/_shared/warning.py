"""Warnings that point at the line of the user."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

from femtobarn._shared.repr import shortened
from femtobarn.errors import ServerWarning, UnreadableWarning

__all__ = ["warn_of_left_out", "warn_of_server", "warn_outside"]

_HERE = str(Path(__file__).parents[1] / "_")[:-1]  # with the separator


def warn_outside(message: str, category: type[Warning]) -> None:
    """Warn at the nearest line that is not in this package.

    Parameters
    ----------
    message : str
        What is to be known.
    category : type of Warning
        The class of the warning.
    """
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def warn_of_server(message: str) -> None:
    """Warn of what a server does, which the client has noticed.

    Parameters
    ----------
    message : str
        What is to be known.
    """
    warn_outside(message, ServerWarning)


def warn_of_left_out(skipped: Iterable[tuple[str, str]], where: str, what: str, listed: str) -> None:
    """Warn once of everything that a new file does not have.

    Parameters
    ----------
    skipped : iterable of (str, str)
        Names and reasons; of a name that is there several times, the first reason counts.
    where : str
        What it is missing from.
    what : str
        What cannot be done with it.
    listed : str
        Whose `skipped` has all the reasons.
    """
    reasons: dict[str, str] = {}
    for name, reason in skipped:
        reasons.setdefault(name, reason)
    if not reasons:
        return
    shown = shortened([*map(repr, reasons)])
    only = f"is left out: {next(iter(reasons.values()))}"
    all_of_them = f"are left out: the reasons are in the `skipped` of the {listed}"
    warn_outside(
        f"{shown} of {where} cannot be {what} and {only if len(reasons) == 1 else all_of_them}", UnreadableWarning
    )
