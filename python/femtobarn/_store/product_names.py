"""The products of events, from their names, and the errors for missing ones."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from femtobarn import _core
from femtobarn._shared.repr import plural
from femtobarn._store.product_types import checked_text, type_name_of
from femtobarn.errors import KeyNotFoundError, UsageError

if TYPE_CHECKING:
    from femtobarn._core import Events
    from femtobarn._store.containers import Holder

__all__ = [
    "OF_NOTHING",
    "Product",
    "check_columns",
    "check_first",
    "check_there",
    "counts_of",
    "hint",
    "is_unusual",
    "listed",
    "named",
    "none_has",
    "resolved",
    "spelled",
]

OF_NOTHING = "double"  # the type of a product without events, as a type is required


class Product(NamedTuple):
    """Label and type of a product; `load`, `arrays` and others take it as ``(label, type)``.

    Attributes
    ----------
    label : str
        Its label.
    type : str
        The name of its type.
    """

    label: str
    type: str


def named(product: str | tuple[str, Any], kind: Any = None) -> tuple[str, Any]:
    """Return the label and the type of a product; the type is given with the label or separately.

    Parameters
    ----------
    product : str or tuple
        A label, or a label and a type.
    kind : str, type or None
        The type, if given separately.

    Returns
    -------
    tuple
        The label, and the type as given; None if not given.

    Raises
    ------
    UsageError
        If it does not name a product, or has two types.
    """
    label = product
    if isinstance(product, tuple):
        if len(product) != 2:
            raise UsageError(f"a product must be a label, or (label, type), not {product!r}; give several as a list")
        if kind is not None:
            raise UsageError(f"the type of product {product[0]!r} is given twice: {product!r} and typename={kind!r}")
        label, kind = product
    if not isinstance(label, str):
        raise UsageError(f"the label of a product must be a string, not {label!r}")
    return checked_text(label, "label"), kind


def listed(products: str | tuple[str, Any] | Iterable[str | tuple[str, Any]]) -> list[str | tuple[str, Any]]:
    """Return products as a list; a single one may be given without a list.

    Parameters
    ----------
    products : str, tuple or iterable
        A label, or a label and a type; or several of these.

    Returns
    -------
    list of str or tuple
        The products.

    Raises
    ------
    UsageError
        If they are invalid.
    """
    if isinstance(products, str) or (isinstance(products, tuple) and products):
        return [products]
    if isinstance(products, Mapping):
        raise UsageError(
            f"give products with their types as a list of (label, type), not as a dict: list({products!r}.items())"
        )
    if not isinstance(products, Iterable):
        raise UsageError(f"products must be labels, or (label, type), not {products!r}")
    return list(products)


def resolved(
    holder: Holder[Any], products: Iterable[str | tuple[str, Any]], parts: Sequence[Holder[Any]] | None = None
) -> list[tuple[str, str]]:
    """Return the labels and the types of products of events; missing types are found together.

    Parameters
    ----------
    holder : DataSet, Run or SubRun
        The container of the events.
    products : iterable of str or tuple
        Labels, or labels and types.
    parts : sequence of DataSet, Run or SubRun, optional
        The selected parts of the holder.

    Returns
    -------
    list of tuple
        Labels and types.

    Raises
    ------
    KeyNotFoundError
        If there are events, and none has one of the products without a type.
    UsageError
        If events have one with several types.
    """
    wanted = [named(one) for one in products]
    where = [holder] if parts is None else parts
    is_open = any(kind is None or is_unusual(kind) for _, kind in wanted)
    counts = counts_of(where) if is_open else {}
    names = []
    for label, kind in wanted:
        if kind is not None:
            names.append(spelled(label, kind, counts))
        elif counts or any(True for part in where for _ in part.events(batch_size=1)):
            names.append(_only_one(holder._store.url, _where(holder, parts), label, counts))
        else:
            names.append((label, OF_NOTHING))
    return names


def is_unusual(kind: Any) -> bool:
    """Return whether a type is written differently from its normalized name, as programs may have stored it.

    Parameters
    ----------
    kind : str or type
        The type.

    Returns
    -------
    bool
        Whether the existing names are needed to identify it.
    """
    return isinstance(kind, str) and kind != type_name_of(kind)


def spelled(label: str, kind: Any, there: Container[tuple[str, str]]) -> tuple[str, str]:
    """Return the label and the type of a product, as written if only this exists.

    Parameters
    ----------
    label : str
        The label.
    kind : str or type
        The type.
    there : container of tuple
        Labels and types of the existing products.

    Returns
    -------
    tuple
        The label and the name of the type.
    """
    name = (label, type_name_of(kind))
    return (label, kind) if is_unusual(kind) and name not in there and (label, kind) in there else name


def counts_of(parts: Sequence[Holder[Any]]) -> dict[tuple[str, str], int]:
    """Return the number of events for each product, by label and type.

    Parameters
    ----------
    parts : sequence of DataSet, Run or SubRun
        The container of the events.

    Returns
    -------
    dict
        The numbers of events.
    """
    counts: dict[tuple[str, str], int] = {}
    for some in _counts(parts):
        for name, n in some.items():
            counts[name] = counts.get(name, 0) + n
    return counts


def check_there(holder: Holder[Any], parts: Sequence[Holder[Any]], names: Iterable[tuple[str, str]]) -> None:
    """Raise if no event has one of the products: probably a wrong name.

    Parameters
    ----------
    holder : DataSet, Run or SubRun
        The container of the events.
    parts : sequence of DataSet, Run or SubRun
        The selected parts of the holder.
    names : iterable of tuple
        Labels and types.

    Raises
    ------
    KeyNotFoundError
        If none has; the message lists their products.
    """
    wanted = set(names)
    seen: set[tuple[str, str]] = set()
    for counts in _counts(parts) if wanted else ():
        seen.update(counts)
        if wanted <= seen:
            return
    for name in sorted(wanted - seen):
        raise none_has(holder, parts, *name, seen)


def none_has(
    holder: Holder[Any],
    parts: Sequence[Holder[Any]],
    label: str,
    type_name: str | None,
    names: Iterable[tuple[str, str]],
) -> KeyNotFoundError:
    """Return the error that no event has a product.

    Parameters
    ----------
    holder : DataSet, Run or SubRun
        The container of the events.
    parts : sequence of DataSet, Run or SubRun
        The selected parts of the holder.
    label, type_name : str
        The product, and its type if given.
    names : iterable of tuple
        Labels and types of their products.

    Returns
    -------
    KeyNotFoundError
        To be raised.
    """
    return _none_has(holder._store.url, _where(holder, parts), label, type_name, names)


def check_first(holder: Holder[Any], names: Sequence[tuple[str, str]], first: Events) -> None:
    """Raise if no event has one of the products; products of the first events need no check.

    Parameters
    ----------
    holder : DataSet, Run or SubRun
        The container of the events.
    names : sequence of tuple
        Labels and types.
    first : Events
        The first events, loaded with these products.

    Raises
    ------
    KeyNotFoundError
        If none has; the message lists their products.
    """
    absent = [name for name, n in zip(names, first.counts(), strict=True) if n == 0]
    check_there(holder, [holder], absent)


def hint(who: str, label: str, type_name: str | None, names: Iterable[tuple[str, str]]) -> str:
    """Return a hint for a missing product: other types, or similar labels.

    Parameters
    ----------
    who : str
        Subject and verb: "it has", "they have".
    label, type_name : str
        The product, and its type if given.
    names : iterable of tuple
        Labels and types of the existing products.

    Returns
    -------
    str
        Part of a message.
    """
    return _core.product_hint(who, label, type_name, set(names))


def check_columns(names: list[tuple[str, str]], with_numbers: bool) -> None:
    """Raise if products cannot be fields of one array, whose names are the labels.

    Parameters
    ----------
    names : list of tuple
        Labels and types.
    with_numbers : bool
        Whether run, subrun and event are fields as well.

    Raises
    ------
    UsageError
        If two have the same label.
    """
    labels = [label for label, _ in names] + (["run", "subrun", "event"] if with_numbers else [])
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise UsageError(
            f"an array can have only one field {twice!r}: load products of one label by separate calls, one for each "
            "type, and products with labels run, subrun or event with numbers=False"
        )


def _counts(parts: Sequence[Holder[Any]]) -> Iterator[dict[tuple[str, str], int]]:
    """Iterate over the number of events for each product, subrun by subrun."""
    for subrun in itertools.chain.from_iterable(part._subruns() for part in parts):
        counts = subrun._core.name_counts()
        yield {(label, kind): n for label, kind, n, _ in counts if n}


def _where(holder: Holder[Any], parts: Sequence[Holder[Any]] | None) -> str:
    if parts is None or list(parts) == [holder]:
        return str(holder)
    return f"{parts[0]} of {holder}" if len(parts) == 1 else f"these runs of {holder}"


def _only_one(url: str, where: str, label: str, counts: dict[tuple[str, str], int]) -> tuple[str, str]:
    """Return the product of a label, which must have one type."""
    kinds = {kind: n for (name, kind), n in counts.items() if name == label}
    if len(kinds) > 1:
        types = ", ".join(f"{kind!r} ({plural(n, 'event')})" for kind, n in sorted(kinds.items()))
        raise UsageError(
            f"{url}: events of {where} have products {label!r} of several types: {types}; select one: "
            f"({label!r}, {min(kinds)!r}). Events with another type then have no value"
        )
    if kinds:
        return label, next(iter(kinds))
    raise _none_has(url, where, label, None, counts)


def _none_has(
    url: str, where: str, label: str, type_name: str | None, names: Iterable[tuple[str, str]]
) -> KeyNotFoundError:
    what = repr(label) if type_name is None else f"{label!r} of type {type_name}"
    there = hint("they have", label, type_name, names)
    return KeyNotFoundError(f"{url}: no event of {where} has a product {what}; {there}")
