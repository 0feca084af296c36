"""Products of all events of containers: loaded as columns, and deleted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from femtobarn._files.libraries import plain_output
from femtobarn._files.numpy_arrays import frombuffer
from femtobarn._shared.optional import optional
from femtobarn._store.product_decoding import reading
from femtobarn._store.product_forms import As
from femtobarn._store.product_names import (
    check_columns,
    check_there,
    counts_of,
    is_unusual,
    listed,
    named,
    none_has,
    resolved,
    spelled,
)
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._core_types import Node
    from femtobarn._store.containers import Holder

__all__ = ["arrays_of", "delete_event_products", "one_argument", "typed"]

P = ParamSpec("P")
R = TypeVar("R")


def one_argument(method: Callable[P, R]) -> Callable[P, R]:
    """Make `arrays` explain its arguments if more than the products are given by position."""

    @functools.wraps(method)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if len(args) <= 2:
            return method(*args, **kwargs)
        products, given = args[1:3]
        if isinstance(given, As):
            raise UsageError(
                f"select the library of arrays with library=: arrays({products!r}, library={given.value!r})"
            )
        raise UsageError(
            f"arrays takes products (several as a list), and other arguments by name, e.g. library='np', not {given!r}"
        )

    return checked


def typed(products: Any, kind: Any) -> Any:
    """Return products as given; a single one with its type."""
    if kind is None:
        return products
    if not isinstance(products, str | tuple):
        raise UsageError("typename= is for a single label: give several products as (label, type) each")
    return named(products, kind)


def arrays_of(
    holder: Holder[Any],
    parts: Sequence[Holder[Any]],
    products: str | tuple[str, Any] | Iterable[str | tuple[str, Any]],
    numbers: bool,
    library: str,
) -> Any:
    """Load products of all events in some of its containers, or in itholder."""
    holder._check_there()
    wanted = listed(products)
    names = resolved(holder, wanted, parts)
    check_columns(names, numbers)
    try:
        with reading(names):
            batch = holder._store._core.arrays([part._core for part in parts], names, numbers)
    except UsageError:
        check_there(holder, parts, names)  # an unknown type may be a type that no product has
        raise
    if batch.num_entries:
        columns = dict(batch.columns())
        check_there(holder, parts, [name for name in names if _is_missing(columns[name[0]])])
    single = names[0][0] if isinstance(products, str | tuple) and not numbers else None
    output = plain_output(batch, single, library)
    if batch.num_entries or type(output).__module__.partition(".")[0] != "awkward":
        return output
    ak = optional("awkward", "all")
    for product in wanted:
        if isinstance(product, str):  # its type is unknown
            output = ak.Array([]) if single else ak.with_field(output, ak.Array([]), product)
    return output


def delete_event_products(
    holder: Holder[Any], parts: Sequence[Holder[Any]], label: str | tuple[str, Any], typename: Any
) -> int:
    label, kind = named(label, typename)
    if kind is not None:
        label, kind = spelled(label, kind, counts_of(parts) if is_unusual(kind) else ())
    n, others = holder._store._core.remove_event_products([part._core for part in parts], label, kind)
    if n == 0:
        raise none_has(holder, parts, label, kind, others)
    return n


def _is_missing(column: Node) -> bool:
    """Whether a column has no value at all."""
    return column[0] == "option" and bool((frombuffer(column[1], "i8") < 0).all())
