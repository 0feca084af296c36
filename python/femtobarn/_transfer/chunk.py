"""Events with products by columns, as they go into a store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Chunk"]


@dataclass
class Chunk:
    """Events of one file, in order, with their products.

    Attributes
    ----------
    run, subrun, event : array of uint64, shape (n,)
        Their numbers.
    products : dict
        For each label, an array of length n with the value of each event.
    types : dict
        Types of products that are not what their arrays are.
    """

    run: npt.NDArray[np.uint64]
    subrun: npt.NDArray[np.uint64]
    event: npt.NDArray[np.uint64]
    products: dict[str, Any]
    types: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.event)
