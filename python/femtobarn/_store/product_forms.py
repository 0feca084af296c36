"""The forms in which products are loaded."""

from __future__ import annotations

import enum
import types
import typing
from typing import Any

import numpy as np

from femtobarn._store.product_types import (
    defaults_of,
    dtype_of,
    hints_of,
    inmost,
    is_dataclass_type,
    item_of,
    maker_of,
    optional_of,
)
from femtobarn._store.ptr import Ptr
from femtobarn.errors import UsageError

__all__ = ["Arrow", "As", "Awkward", "NumPy", "check_form", "form_of", "is_made", "outline", "shown"]

_PLAIN = frozenset({bool, int, float, str, list, dict, object})
_MEANT = {
    **dict.fromkeys(("np", "numpy"), "fb.NumPy"),
    **dict.fromkeys(("ak", "awkward"), "fb.Awkward"),
    **dict.fromkeys(("pa", "pyarrow", "arrow"), "fb.Arrow"),
    **dict.fromkeys(("pd", "pandas", "pl", "polars"), "fb.Arrow, which pandas and Polars take"),
}


class As(enum.Enum):
    """The form in which a product is given.

    Examples
    --------
    >>> import femtobarn as fb
    >>> fb.As.NumPy is fb.NumPy
    True
    """

    Awkward = "ak"
    NumPy = "np"
    Arrow = "arrow"


Awkward = As.Awkward
NumPy = As.NumPy
Arrow = As.Arrow


def form_of(kind: Any) -> Any:
    """Return the form of values for a requested Python type: dataclasses are returned as such.

    Parameters
    ----------
    kind : str, type or dtype
        The type.

    Returns
    -------
    type or None
        The form; None for the natural one of the type.
    """
    item = item_of(kind)
    if item is None:
        return kind if is_made(kind) else None
    return list[item] if is_made(item) else None  # type: ignore[valid-type]


def check_form(label: str, form: Any) -> None:
    """Raise if a form is not supported.

    Parameters
    ----------
    label : str
        The product's label.
    form : object
        The given form.

    Raises
    ------
    UsageError
        If it is not supported; the message lists the supported ones.
    """
    inner = inmost(form)
    if isinstance(inner, type) and (inner in _PLAIN or is_made(inner) or inner is bytes):
        return
    if form is inner and isinstance(form, type) and issubclass(form, np.generic) and dtype_of(form) is not None:
        return
    if not isinstance(inner, str) and (dtype := dtype_of(inner)) is not None:
        number = {"b": "bool", "f": "float"}.get(dtype.kind, "int")
        meant: str | None = number if inner is form else f"list[{number}]"
    else:
        module = inner if isinstance(inner, str) else getattr(inner, "__module__", getattr(inner, "__name__", ""))
        meant = _MEANT.get(str(module).split(".")[0])
    hint = "" if meant is None else f"did you mean {meant}? "
    given = f"the module {form.__name__}" if isinstance(form, types.ModuleType) else repr(form)
    raise UsageError(
        f"product {label!r}: products cannot be loaded as {given}: {hint}Use fb.Awkward, fb.NumPy, "
        "fb.Arrow, bytes, int, float, bool, str, np.float32, a dataclass, fb.Ptr, or lists of these, e.g. list[float]"
    )


def shown(form: Any) -> str:
    """Return the name of a type as users write it.

    Parameters
    ----------
    form : object
        The type.

    Returns
    -------
    str
        Its name.
    """
    if (item := item_of(form)) is not None:
        return f"list[{shown(item)}]" if typing.get_origin(form) is list else f"tuple[{shown(item)}, ...]"
    if (inner := optional_of(form)) is not None:
        return f"{shown(inner)} | None"
    return str(getattr(form, "__name__", form))


def outline(form: Any) -> tuple[Any, ...]:
    """Return what a type of Python is, for the core, which compares it with what is stored.

    Parameters
    ----------
    form : object
        The type.

    Returns
    -------
    tuple
        What it is. Of lists, the type of the items follows, and whether they are tuples; of what may be missing, what
        it is else; of numbers, the name of the dtype, and whether it is Python's `int` or `float`; of dataclasses, the
        name, the types of the members, those that have defaults, and how it is made. A type of which nothing is known
        is anything.
    """
    if form in _OUTLINES:
        return _OUTLINES[form]
    if (item := item_of(form)) is not None:
        return "list", item, typing.get_origin(form) is tuple
    if (inner := optional_of(form)) is not None:
        return "optional", inner
    if is_dataclass_type(form):
        return "class", form.__name__, hints_of(form), defaults_of(form), *maker_of(form)
    if (dtype := dtype_of(form)) is not None:
        return "number", dtype.name, form is int or form is float
    is_number = isinstance(form, type) and issubclass(form, np.generic)
    return ("nothing",) if is_number or form in (complex, np.ndarray) else ("any",)


_OUTLINES: dict[Any, tuple[Any, ...]] = {
    str: ("str",),
    bytes: ("bytes",),
    dict: ("dict",),
    list: ("list", None, False),
    Ptr: ("ptr",),
}


def is_made(form: Any) -> bool:
    """Return whether values of a form are objects of a class: a dataclass, or references.

    Parameters
    ----------
    form : object
        The form.

    Returns
    -------
    bool
        Whether it is.
    """
    return form is Ptr or is_dataclass_type(form)
