"""Optional packages."""

from __future__ import annotations

import importlib
from typing import Any

from femtobarn.errors import MissingDependencyError

__all__ = ["is_awkward", "optional"]


def optional(module: str, extra: str) -> Any:
    """Import an optional package, or raise an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"this needs {module}, which is not installed: pip install 'femtobarn[{extra}]'"
        ) from error


def is_awkward(value: object) -> bool:
    """Return whether a value is an array or record of Awkward, or of a class based on them, without importing it."""
    return hasattr(value, "layout") and any(kind.__module__.startswith("awkward.") for kind in type(value).__mro__)
