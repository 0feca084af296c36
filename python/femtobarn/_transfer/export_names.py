"""Names of columns for products, and descriptions of the columns in exported files."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from femtobarn._core import FILE_NOTES

__all__ = ["NUMBERS", "column_names", "is_file_note", "note", "noted"]

NUMBERS = ("run", "subrun", "event")

# what the name of a field cannot have: dots separate subfields, slashes directories
_NO_PLACE = re.compile(r"[./\\ \x00-\x1f\x7f]")
_FILE_NOTE = re.compile(rf"{re.escape(FILE_NOTES)}[^/]+/[0-9a-f]{{32}}")
_OF_STRUCTURE = re.compile(r":?_\d+")


def is_file_note(product: tuple[str, str]) -> bool:
    """Return whether a product of a dataset records an ingested file, which is meaningless in another dataset."""
    label, kind = product
    return kind == "std::string" and _FILE_NOTE.fullmatch(label) is not None


def column_names(products: Iterable[tuple[str, str]], taken: Iterable[str]) -> dict[tuple[str, str], str]:
    """Return a name for the column of each product.

    Parameters
    ----------
    products : iterable of (str, str)
        Labels and types.
    taken : iterable of str
        Names that other columns have.

    Returns
    -------
    dict
        Of each product the name: the label, with underscores for characters that field names cannot have. Where a label
        has several types, the type follows; where a name is taken, a number does.

    Examples
    --------
    >>> from femtobarn._transfer.export_names import column_names
    >>> list(column_names([("rec.slc", "float"), ("x", "double"), ("x", "std::vector<float>")], []).values())
    ['rec_slc', 'x_double', 'x_vector_float']
    """
    products = list(products)
    number = Counter(label for label, _ in products)
    used = set(taken)
    # labels that can stay as they are come first, so that no other takes their names
    order = sorted(products, key=lambda product: (_plain(product[0]) != product[0] or number[product[0]] > 1, product))
    names = {}
    for label, kind in order:
        name = _plain(label)
        if number[label] > 1:
            name += "_" + re.sub(r"\W+", "_", kind.replace("std::", "")).strip("_")
        own, n = name, 1
        while own in used:
            n += 1
            own = f"{name}_{n}"
        used.add(own)
        names[label, kind] = own
    return names


def _plain(label: str) -> str:
    name = _NO_PLACE.sub("_", label)
    return f"product{name}" if not name or _OF_STRUCTURE.fullmatch(name) else name


def note(what: str, value: Any) -> str:
    """Return the description of a field or an ntuple, which records its origin in a store.

    Parameters
    ----------
    what : str
        "product" or "number" of a field, "level" of an ntuple.
    value : object
        What JSON has.

    Returns
    -------
    str
        The description.
    """
    return json.dumps({"femtobarn": {what: value}}, ensure_ascii=False)


def noted(what: str, description: str) -> Any:
    """Return the content of a description written by `note`; None of any other.

    Parameters
    ----------
    what : str
        As of `note`.
    description : str
        The description.

    Returns
    -------
    object
        The value.
    """
    if not description.startswith('{"femtobarn"'):
        return None
    try:
        known = json.loads(description)["femtobarn"]
    except ValueError:
        return None
    return known.get(what) if isinstance(known, dict) else None
