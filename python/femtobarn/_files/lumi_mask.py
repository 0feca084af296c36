"""Golden JSON: masks of certified luminosity blocks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from femtobarn import _core
from femtobarn._shared.optional import optional
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["LumiMask", "of_json"]


class LumiMask:
    """The certified luminosity blocks of a golden JSON; `femtobarn.lumi_mask` makes it.

    Calling it with runs and blocks returns a mask. As a string, it is a condition for cuts and skims, so that it can
    be a part of another condition: ``cut=f"{mask} and nMuon >= 2"``. Masks can be compared and pickled.

    Examples
    --------
    >>> import femtobarn as fb
    >>> mask = fb.lumi_mask({"297056": [[1, 90], [93, 120]]})
    >>> mask(297056, [90, 91, 93])
    array([ True, False,  True])
    """

    __slots__ = ("_core", "_place")

    def __init__(self, core: _core.LumiMask, place: str | None = None) -> None:
        if not isinstance(core, _core.LumiMask):
            raise UsageError("LumiMask cannot be instantiated: use fb.lumi_mask")
        self._core = core
        self._place = place

    def __call__(self, run: Any, luminosity_block: Any) -> npt.NDArray[Any]:
        """Return whether luminosity blocks are certified.

        Parameters
        ----------
        run, luminosity_block : int or array of int
            Runs, and luminosity blocks of them: NumPy or Awkward Arrays, lists or numbers. A number is used for all
            items of the other argument.

        Returns
        -------
        numpy.ndarray of bool
            A mask with the shape of the arguments.

        Raises
        ------
        UsageError
            If the arguments are not integers, or have different shapes.
        """
        numpy = optional("numpy", "numpy")
        named = {"run": run, "luminosity_block": luminosity_block}
        arrays = [_integers(numpy, name, given) for name, given in named.items()]
        try:
            runs, blocks = numpy.broadcast_arrays(*arrays)
        except ValueError:
            shapes = " and ".join(str(array.shape) for array in arrays)
            raise UsageError(f"run and luminosity_block have different shapes: {shapes}") from None
        found = self._core.mask(*(numpy.ascontiguousarray(array).reshape(-1) for array in (runs, blocks)))
        return numpy.frombuffer(found, bool).reshape(runs.shape)  # type: ignore[no-any-return]

    @property
    def runs(self) -> dict[int, list[list[int]]]:
        """The certified ranges of luminosity blocks of each run, both ends included."""
        return {int(run): ranges for run, ranges in json.loads(self._core.to_json()).items()}

    @property
    def num_blocks(self) -> int:
        """Number of certified luminosity blocks."""
        return self._core.num_blocks

    def __str__(self) -> str:
        return f"lumi_mask('{self._core.to_json()}')"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __repr__(self) -> str:
        where = f" of {self._place}" if self._place else ""
        return f"<LumiMask{where}: {self._core.num_blocks} luminosity blocks of {self._core.num_runs} runs>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LumiMask) and self._core == other._core

    def __hash__(self) -> int:
        return hash(self._core.to_json())

    def __reduce__(self) -> tuple[Any, ...]:
        return of_json, (self._core.to_json(), self._place)


def of_json(text: str, place: str | None = None) -> LumiMask:
    """Return the mask of a golden JSON, and its place if it was read from there."""
    return LumiMask(_core.LumiMask(text, {}), place)


def _integers(numpy: Any, name: str, given: Any) -> Any:
    array = numpy.asarray(given)
    if array.dtype.kind not in "iu" and array.size:
        raise UsageError(f"{name} must be integers, not {array.dtype}")
    return array.astype("i8", copy=False)
