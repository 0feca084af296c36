"""Events with products by columns, as they go into a store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Chunk", "ColumnType"]


@dataclass(frozen=True)
class ColumnType:
    """The type of a column of products.

    Attributes
    ----------
    name : str
        The name of the type.
    classes : tuple of (str, tuple of (str, str))
        The classes in it: names, and names and types of the members.
    form : str
        Content of the column: "value", the values; "optional", values of which some are missing. Events without a value
        get no product.
    """

    name: str
    classes: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    form: str


@dataclass
class Chunk:
    """Events of one file, in order, with their products.

    Attributes
    ----------
    run, subrun, event : array of uint64, shape (n,)
        Their numbers.
    products : dict
        For each label, an array of length n with the value of each event.
    types : dict of str to ColumnType
        Their types.
    """

    run: npt.NDArray[np.uint64]
    subrun: npt.NDArray[np.uint64]
    event: npt.NDArray[np.uint64]
    products: dict[str, Any]
    types: dict[str, ColumnType] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.event)
