"""Warnings that point to the line of the user."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from femtobarn._shared.caller import calling_line
from femtobarn._shared.repr import shortened
from femtobarn.errors import ServerWarning, UnreadableWarning

__all__ = ["warn_of_left_out", "warn_of_server", "warn_outside"]


def warn_outside(message: str, category: type[Warning]) -> None:
    """Warn at the line outside of this package that has called it.

    Parameters
    ----------
    message : str
        The message.
    category : type of Warning
        The class of the warning.
    """
    line = calling_line()
    registry = line.module.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, line.filename, line.number, line.module.get("__name__"), registry)


def warn_of_server(message: str) -> None:
    """Warn about the behaviour of a server.

    Parameters
    ----------
    message : str
        The message.
    """
    warn_outside(message, ServerWarning)


def warn_of_left_out(skipped: Iterable[tuple[str, str]], where: str, what: str, listed: str) -> None:
    """Warn once about everything that is missing in a new file.

    Parameters
    ----------
    skipped : iterable of (str, str)
        Names and reasons; if a name occurs several times, its first reason is used.
    where : str
        The object that has the fields.
    what : str
        The operation that is not possible, as a participle.
    listed : str
        The object whose `skipped` lists all reasons.
    """
    reasons: dict[str, str] = {}
    for name, reason in skipped:
        reasons.setdefault(name, reason)
    if not reasons:
        return
    shown = shortened([*map(repr, reasons)])
    only = f"is left out: {next(iter(reasons.values()))}"
    all_of_them = f"are left out: see the `skipped` of the {listed} for the reasons"
    warn_outside(
        f"{shown} of {where} cannot be {what} and {only if len(reasons) == 1 else all_of_them}", UnreadableWarning
    )
