"""Optional packages."""

from __future__ import annotations

import importlib
from typing import Any

from femtobarn.errors import MissingDependencyError

__all__ = ["optional"]


def optional(module: str, extra: str) -> Any:
    """Import an optional package, or raise an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"this needs {module}, which is not installed: pip install 'femtobarn[{extra}]'"
        ) from error
