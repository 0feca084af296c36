"""Single entries of a batch, light enough for a call per event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

import awkward as ak
import numpy as np

from femtobarn._shared.repr import shortened
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._files.entry_batch import EntryBatch

__all__ = ["Entry", "entries_of"]

_Getter = Callable[[int], Any]


class Entry:
    """One entry of an ntuple: its fields are attributes and items.

    `process` with ``by="event"`` passes it to the function. Numbers are NumPy scalars, lists of numbers NumPy arrays,
    strings are `str`, and all other types are as in Awkward Arrays. The names of this class are read as items, as
    ``event["batch"]``.

    Examples
    --------
    >>> import femtobarn as fb
    >>> result = fb.process(dimuon, lambda event: event.Muon_pt.sum(), preload=["nMuon", "Muon_pt"])
    >>> len(result.value)
    12000
    """

    __slots__ = ("_at", "_columns")

    def __init__(self, columns: _Columns, at: int) -> None:
        self._columns = columns
        self._at = at

    def __getattr__(self, name: str) -> Any:
        try:
            return self._columns[name](self._at)
        except KeyError:
            raise AttributeError(f"no field named {name!r}: the fields are {shortened(self.fields)}") from None

    def __getitem__(self, where: Any) -> Any:
        return self._columns[where](self._at) if isinstance(where, str) else self.to_record()[where]

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self.fields]

    def __repr__(self) -> str:
        return f"<Entry {self._at}: {shortened(self.fields)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, ({name: self[name] for name in self.fields}, self.entry_number)

    @property
    def fields(self) -> list[str]:
        """The names of the fields."""
        return self._columns.fields

    @property
    def batch(self) -> EntryBatch:
        """The batch of the entry, which knows dataset, metadata and file."""
        if self._columns.batch is None:
            raise UsageError("an entry that was pickled has no batch: use the batch in the function")
        return self._columns.batch

    @property
    def entry_number(self) -> int:
        """The number of the entry in its file."""
        return self._at if self._columns.batch is None else self._columns.batch._entry_number(self._at)

    def to_record(self) -> ak.Record:
        """Return the entry as a record of Awkward, for its functions.

        Returns
        -------
        ak.Record
            The fields of the entry.
        """
        if self._columns.batch is None:
            return ak.Record({name: self[name] for name in self.fields})
        return self._columns.batch[self._at]

    def to_list(self) -> dict[str, Any]:
        """Return the entry as a dict of objects of Python.

        Returns
        -------
        dict
            Numbers, strings, lists and dicts by the names of the fields.
        """
        return cast("dict[str, Any]", self.to_record().to_list())

    tolist = to_list


class _Columns(dict[str, _Getter]):
    """Functions from the number of an entry to the value of a field, each made when the field is touched."""

    __slots__ = ("batch", "fields")

    def __init__(self, batch: EntryBatch | None, fields: list[str]) -> None:
        super().__init__()
        self.batch = batch
        self.fields = fields

    def __missing__(self, name: str) -> _Getter:
        if self.batch is None or name not in self.fields:
            raise KeyError(name)
        getter = self[name] = _getter(ak.Array.__getitem__(self.batch, name).layout)
        return getter


def entries_of(batch: EntryBatch) -> Iterator[Entry]:
    """Iterate over the entries of a batch."""
    columns = _Columns(batch, batch.fields)
    return (Entry(columns, at) for at in range(len(batch)))


def _restored(values: dict[str, Any], at: int) -> Entry:
    columns = _Columns(None, list(values))
    columns.update({name: lambda _, value=value: value for name, value in values.items()})  # type: ignore[misc]
    return Entry(columns, at)


def _getter(layout: Any) -> _Getter:
    if layout.is_indexed and not layout.is_option:
        layout = layout.project()
    if layout.is_numpy:
        return np.asarray(layout.data).__getitem__
    if layout.parameter("__array__") == "string":
        return cast("_Getter", layout.to_list().__getitem__)
    if layout.is_regular and layout.content.is_numpy and layout.parameter("__array__") is None:
        return np.asarray(layout.to_RegularArray().maybe_to_NumpyArray().data).__getitem__
    if layout.is_list and layout.content.is_numpy and layout.parameter("__array__") is None:
        packed = layout.to_ListOffsetArray64(False)
        offsets, values = np.asarray(packed.offsets.data).tolist(), np.asarray(packed.content.data)
        return lambda at: values[offsets[at] : offsets[at + 1]]
    return cast("_Getter", ak.Array(layout).__getitem__)
