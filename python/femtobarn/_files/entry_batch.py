"""Arrays of the entries of one file that know where they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import awkward as ak
import numpy as np

from femtobarn._core import LazyBatch
from femtobarn._files.flat import flat_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from femtobarn._core import Batch

__all__ = ["EntryBatch", "labelled", "left_entries"]

_COUNTERS = "@counters"  # names of collections that have counters; not pickled
_OFFSETS = "@offsets"  # after a cut, the numbers of the entries from the first one of the batch; not pickled


class EntryBatch(ak.Array):  # type: ignore[misc]
    """Entries of one file as an Awkward Array of records, with their origin.

    `iterate` and `process` return and pass them. Slices of entries are of this class, too. The origin is also in the
    `attrs` of all arrays that are computed from the batch. A field with the name of an attribute is read as
    ``batch["file"]``.

    Examples
    --------
    >>> import femtobarn as fb
    >>> files = {"zmumu": {"files": {dimuon: "Events"}, "metadata": {"xsec": 2.5}}}
    >>> for batch in fb.iterate(files, ["nMuon"], step_size=5000):
    ...     print(batch.dataset, batch.metadata["xsec"], batch.entry_start, batch.entry_stop)
    zmumu 2.5 0 5000
    zmumu 2.5 5000 10000
    zmumu 2.5 10000 12000
    """

    @property
    def dataset(self) -> str | None:
        """The dataset of the fileset; None if the files were not given as a fileset."""
        return cast("str | None", self.attrs.get("dataset"))

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of the dataset; an empty dict if there are none."""
        return cast("Mapping[str, Any]", self.attrs.get("metadata", {}))

    @property
    def file(self) -> str:
        """Path of the file."""
        return str(self.attrs.get("file", ""))

    @property
    def object_path(self) -> str:
        """Name of the ntuple in the file."""
        return str(self.attrs.get("object_path", ""))

    @property
    def entry_start(self) -> int:
        """First entry of the batch in the file; the same for slices of the batch."""
        return int(self.attrs.get("entry_start", 0))

    @property
    def entry_stop(self) -> int:
        """The entry after the last one of the batch in the file; the same for slices of the batch."""
        return int(self.attrs.get("entry_stop", 0))

    @property
    def entry_numbers(self) -> npt.NDArray[np.int64]:
        """Numbers of the entries in the file, without those that a cut left out; the same for slices of the batch."""
        offsets = self.attrs.get(_OFFSETS)
        if offsets is None:
            return np.arange(self.entry_start, self.entry_stop)
        return cast("npt.NDArray[np.int64]", self.entry_start + offsets)

    def flat(self, fields: Iterable[str] | None = None) -> Any:
        """Return the columns as a named tuple of NumPy views, which compiled functions of Numba take.

        Parameters
        ----------
        fields : iterable of str, optional
            The fields; by default all. Of a virtual array, they are read.

        Returns
        -------
        tuple
            Scalars as arrays, and collections as named tuples of `offsets` and their members. If the ntuple has a
            field nMuon, lists as Muon_pt are members of the collection Muon.

        Examples
        --------
        >>> import femtobarn as fb
        >>> batch = next(fb.iterate(dimuon, ["nMuon", "Muon_pt", "Muon_eta"]))
        >>> flat = batch.flat()
        >>> flat._fields, flat.Muon._fields
        (('nMuon', 'Muon'), ('offsets', 'pt', 'eta'))
        >>> len(flat.Muon.offsets) == len(batch) + 1
        True
        """
        counters = self.attrs.get(_COUNTERS)
        if counters is None:
            counters = frozenset(name[1:] for name in self.fields if name.startswith("n"))
        return flat_of(self, fields, counters)

    # -- internals ---------------------------------------------------------------------------------------

    def _entry_number(self, at: int) -> int:
        offsets = self.attrs.get(_OFFSETS)
        return self.entry_start + (at if offsets is None else int(offsets[at]))

    def _update_class(self, *args: Any, **kwargs: Any) -> None:
        """Keep the class, which Awkward derives from the names of records."""
        super()._update_class(*args, **kwargs)
        self.__class__ = EntryBatch

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or name in self.fields:
                raise
            raise AttributeError(
                f"the batch has no field {name!r}: what is read is named where the batch is from, in preload or "
                f"expressions; the fields are {', '.join(self.fields)}"
            ) from None

    def __getitem__(self, where: Any) -> Any:
        got = super().__getitem__(where)
        if type(got) is ak.Array and not isinstance(where, str) and got.fields == self.fields:
            return EntryBatch(got.layout, behavior=self._behavior, attrs=got._attrs)
        return got

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _restored, tuple(super().__reduce_ex__(protocol)[:2])


def _restored(restore: Callable[..., ak.Array], state: tuple[Any, ...]) -> EntryBatch:
    array = restore(*state)
    return EntryBatch(array.layout, behavior=array._behavior, attrs=array._attrs)


def left_entries(batch: Batch | LazyBatch) -> npt.NDArray[np.int64] | None:
    """Return the numbers of the entries that a cut has left, from the first one; None if these are all."""
    numbers: Any = None if isinstance(batch, LazyBatch) else batch.entry_numbers()
    return None if numbers is None else np.frombuffer(numbers, np.int64) - np.int64(batch.entry_start)


def labelled(
    array: ak.Array,
    counters: frozenset[str] | None = None,
    offsets: npt.NDArray[np.int64] | None = None,
    **origin: Any,
) -> EntryBatch:
    """Return an array of the entries of a file as a batch that knows their origin.

    Parameters
    ----------
    array : ak.Array
        The entries as records.
    counters : frozenset of str, optional
        The collections that have counters; by default those that the array knows already.
    offsets : ndarray, optional
        The numbers of the entries from the first one, if a cut has left some of them.
    **origin
        The attributes of the batch.

    Returns
    -------
    EntryBatch
        The same entries.
    """
    known: dict[str, Any] = {} if counters is None else {_COUNTERS: counters}
    if offsets is not None:
        known[_OFFSETS] = offsets
    return EntryBatch(array.layout, behavior=array._behavior, attrs={**(array._attrs or {}), **known, **origin})
