"""The class `Field`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

from femtobarn._files.libraries import Output, regularize
from femtobarn._files.reading import Readable
from femtobarn._shared.compat import check_read_options
from femtobarn._shared.repr import plural
from femtobarn._shared.steps import clip_entries

if TYPE_CHECKING:
    from types import ModuleType

    import numpy.typing as npt

    from femtobarn._core_types import ColumnRecord, FieldRecord
    from femtobarn._files.ntuple import NTuple

__all__ = ["Field"]


class Field(Readable):
    """A field of an ntuple, obtained as `nt["name"]`.

    Examples
    --------
    >>> import femtobarn as fb
    >>> pt = fb.open(dimuon)["Muon_pt"]
    >>> pt.typename
    'ROOT::VecOps::RVec<float>'
    >>> print(pt.array(entry_stop=100).type)
    100 * var * float32
    """

    def __init__(self, ntuple: NTuple, field_id: int) -> None:
        self._ntuple = ntuple
        self._id: int = field_id

    @property
    def ntuple(self) -> NTuple:
        """The ntuple of the field."""
        return self._ntuple

    @property
    def _record(self) -> FieldRecord:
        return self._ntuple._schema.records[self._id]

    @property
    def name(self) -> str:
        """The name of the field without its parents."""
        return self._ntuple._schema.names[self._id]

    @property
    def path(self) -> str:
        """The names of the field and its parents, as "jets.pt"."""
        return self._ntuple._schema.path(self._id)

    @property
    def typename(self) -> str:
        """The C++ type, as ROOT writes it; empty for untyped records and collections."""
        return self._record["typename"]

    @property
    def typealias(self) -> str:
        """The name of the C++ type before typedefs were resolved, if the writer stored it."""
        return self._record["typealias"]

    @property
    def description(self) -> str:
        """The description from the writer."""
        return self._record["description"]

    @property
    def role(self) -> str:
        """The structural role of the field: "plain", "collection", "record", "variant" or "streamer"."""
        return self._record["role"]

    @property
    def field_id(self) -> int:
        """The ID of the field in the file."""
        return self._id

    @property
    def projected(self) -> bool:
        """Whether the field is projected: it has no columns of its own, but uses those of another field."""
        return self._record["projected"]

    @property
    def repetitions(self) -> int:
        """The size of a `std::array` or `std::bitset`; 0 for other types."""
        return self._record["repetitions"]

    @property
    def columns(self) -> list[ColumnRecord]:
        """The columns of the field on disk: ID, type, bits, representation, and whether they are deferred."""
        return list(self._record["columns"])

    @property
    def parent(self) -> Readable:
        """The parent field, or the ntuple."""
        above = self._ntuple._schema.visible_parent(self._id)
        return self._ntuple if above is None else self._ntuple._field(above)

    @property
    def top_level(self) -> bool:
        """Whether the field is directly in the ntuple."""
        return self._record["parent"] is None

    def array(
        self,
        entry_start: SupportsIndex | None = None,
        entry_stop: SupportsIndex | None = None,
        *,
        library: str | ModuleType = "ak",
        ak_add_doc: bool | dict[str, str] = False,
        threads: int | None = None,
        **options: Any,
    ) -> Any:
        """Read the field.

        Parameters
        ----------
        entry_start, entry_stop : int, optional
            First entry, and the one after the last; negative numbers count from the end, as in a slice.
        library : str
            Type of the result: "ak", an Awkward Array; "np", a NumPy array; "arrow", a `pyarrow.ChunkedArray`; "pd", a
            `pandas.Series`; "pl", a `polars.Series`; "batch", an object with Arrow's `__arrow_c_stream__`.
        ak_add_doc, threads, **options
            As for `arrays`.

        Returns
        -------
        ak.Array, numpy.ndarray, pyarrow.ChunkedArray, pandas.Series, polars.Series or Batch
            `entry_stop - entry_start` entries. A member of a collection's items gives one list per entry.

        Raises
        ------
        ChecksumError
            If a page is damaged.
        FileError
            If reading fails.

        Examples
        --------
        >>> import femtobarn as fb
        >>> fb.open(dimuon)["nMuon"].array(library="np").shape
        (12000,)
        """
        check_read_options(options)
        nt = self._ntuple
        output = Output(nt, regularize(library), None, ak_add_doc, nt._schema.parts(self._id))
        paths = [nt._schema.path(self._id)]
        output.check(paths)
        start, stop = clip_entries(nt.num_entries, entry_start, entry_stop)
        return output.single(nt._read(paths, start, stop, threads))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        import numpy as np

        array = self.array(library="np")
        return np.array(array, dtype=dtype, copy=copy) if copy is not None else np.asarray(array, dtype=dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Field) and other._ntuple is self._ntuple and other._id == self._id

    def __hash__(self) -> int:
        return hash((id(self._ntuple), self._id))

    def __reduce__(self) -> tuple[Any, ...]:
        return _refind, (self._ntuple, self.path)

    def __repr__(self) -> str:
        inner = f", {plural(len(self), 'subfield')}" if len(self) else ""
        return f"<Field {self.path!r}: {self.typename or '(untyped)'}{inner} in {self._ntuple.name!r}>"


def _refind(ntuple: NTuple, path: str) -> Field:
    return ntuple["." + path]
