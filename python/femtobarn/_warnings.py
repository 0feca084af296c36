"""Warnings that point at the line of the user."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

__all__ = ["warn_outside"]

_HERE = str(Path(__file__).parent / "_")[:-1]  # with the separator


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
