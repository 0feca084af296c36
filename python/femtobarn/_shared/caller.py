"""The code outside of this package that called it."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["calling_function", "outside_level"]

_HERE = str(Path(__file__).parents[1] / "_")[:-1]  # with the separator


def outside_level() -> int:
    """Return how many frames above the caller the nearest one outside of this package is."""
    level = 0
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
        level += 1
    return level


def calling_function() -> str:
    """Return the name of the function outside of this package that has called it.

    Returns
    -------
    str
        Its module and name; in a script, the path of the script and the name.
    """
    frame = sys._getframe(outside_level())
    module = str(frame.f_globals.get("__name__", "__main__"))
    where = frame.f_code.co_filename if module == "__main__" else module
    return f"{where}:{frame.f_code.co_qualname}"
