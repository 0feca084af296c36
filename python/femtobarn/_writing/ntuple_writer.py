"""Ntuples and attribute sets that are being written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from femtobarn._writing.spec import is_spec, to_fields
from femtobarn._writing.to_nodes import maps_of, to_batches
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from types import TracebackType

    from femtobarn import _core

__all__ = ["AttributeSetWriter", "NTupleWriter"]


class NTupleWriter:
    """An ntuple that is being written, as returned by `FileWriter.mkrntuple`."""

    def __init__(
        self,
        core: _core.NTupleWriter,
        path: tuple[str, str],
        given: _core.Batches | None,
        maps: frozenset[str] = frozenset(),
    ) -> None:
        self._core = core
        self._maps = maps
        self.path = path
        self._given = given.num_entries if given is not None else 0
        self._is_empty = True
        self._num_entries = 0
        self._attribute_sets: list[AttributeSetWriter] = []

    @property
    def name(self) -> str:
        """The name of the ntuple."""
        return self._core.name

    @property
    def num_entries(self) -> int:
        """Number of entries written so far."""
        return self._num_entries if self.closed else self._core.num_entries

    @property
    def closed(self) -> bool:
        """Whether the ntuple is complete."""
        return self._core.closed

    def extend(self, batch: Any) -> None:
        """Add entries.

        A batch that does not fit is rejected as a whole. Integers and booleans are converted if the type of the field
        can represent all values; doubles are rounded for a ``float``; floats are never converted to integers.

        Parameters
        ----------
        batch : ak.Array, dict, structured NumPy array, or anything with ``__arrow_c_stream__``
            Any number of entries with all fields of the ntuple: an Awkward Array of records; a dict from names to
            arrays of equal length (Awkward, NumPy, Arrow, lists); a table of pyarrow, pandas or Polars; a reader of
            record batches; an `NTuple`.

        Raises
        ------
        UsageError
            If a field is missing or has another type, or if a required value is missing.
        FileError
            If writing fails; the file cannot be completed then.
        """
        batches = to_batches(batch, self._maps)
        try:
            self._core.extend(batches)
        except UsageError as error:
            if batches.names:
                raise
            raise UsageError("the batch has no columns: pass one for each field", kind=error.kind) from None
        self._is_empty = False

    def add_fields(self, spec: Any) -> None:
        """Add fields (late model extension). In the entries so far they are zero, empty or missing.

        Parameters
        ----------
        spec : dict, Arrow schema, Awkward type, or data
            As `batch_or_spec` of `FileWriter.mkrntuple`. Projected fields may refer to existing fields.

        Raises
        ------
        UsageError
            If a name exists, or RNTuple does not support a type.
        """
        fields = to_fields(spec) if is_spec(spec) else to_batches(spec).fields()
        for name, _ in fields.types():
            if "." in name:
                raise UsageError(
                    f"field {name!r} cannot be added: records get no members after their ntuple has begun; add a field "
                    f"with a new name, as {name.replace('.', '_')!r}"
                )
        self._core.add_fields(fields)
        self._maps |= maps_of(fields)

    def commit_cluster(self, *, group: bool = False) -> None:
        """End the current cluster before it has reached its size.

        Parameters
        ----------
        group : bool
            Whether to end the cluster group as well.

        Raises
        ------
        FileError
            If writing fails.
        """
        self._core.commit_cluster(group)

    def mkattributes(self, name: str, spec: Any) -> AttributeSetWriter:
        """Create an attribute set: data about ranges of entries, such as their origin.

        Parameters
        ----------
        name : str
            Name of the set, unique in the ntuple.
        spec : dict, Arrow schema or Awkward type
            The fields for each range; as `batch_or_spec` of `FileWriter.mkrntuple`.

        Returns
        -------
        AttributeSetWriter
            The attribute set.

        Raises
        ------
        UsageError
            If the name exists, or RNTuple does not support a type.

        Examples
        --------
        >>> import femtobarn as fb
        >>> with fb.recreate(tmp / "runs.root") as f:
        ...     events = f.mkrntuple("Events", {"x": "float32"})
        ...     about = events.mkattributes("provenance", {"input": "std::string"})
        ...     events.extend({"x": [1.0, 2.0]})
        ...     about.append(0, 2, {"input": "detector"})
        >>> fb.open(tmp / "runs.root").attributes["provenance"]["_userData.input"].array().to_list()
        ['detector']
        """
        fields = to_fields(spec)
        if any(known.name == name for known in self._attribute_sets):
            raise UsageError(f"the attribute set {name!r} exists already")
        attributes = AttributeSetWriter(self._core.attribute_set(name, fields), self)
        self._attribute_sets.append(attributes)
        return attributes

    def close(self) -> int:
        """Complete the ntuple.

        Returns
        -------
        int
            Number of entries.

        Raises
        ------
        UsageError
            If `FileWriter.mkrntuple` was called with data, and `extend` was never called.
        FileError
            If writing fails.
        """
        if self.closed:
            return self._num_entries
        if self._given and self._is_empty:
            raise UsageError(
                f"ntuple {self.name!r} has no entries: mkrntuple takes only the types from data; "
                "call extend with the data"
            )
        for attributes in self._attribute_sets:
            attributes.close()
        self._num_entries = self._core.finish() or 0
        return self._num_entries

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    def __repr__(self) -> str:
        return f"<NTupleWriter {self.name!r}, {self.num_entries} entries{', closed' if self.closed else ''}>"


class AttributeSetWriter:
    """An attribute set that is being written, as returned by `NTupleWriter.mkattributes`."""

    def __init__(self, core: _core.AttributeSet, ntuple: NTupleWriter) -> None:
        self._core = core
        self._ntuple = ntuple

    @property
    def name(self) -> str:
        """The name of the attribute set."""
        return self._core.name

    def append(self, entry_start: int, entry_stop: int, values: Mapping[str, Any]) -> None:
        """Add the values for a range of entries.

        Parameters
        ----------
        entry_start, entry_stop : int
            First entry, and the one after the last; the entries must be written already.
        values : dict
            A value for each field.

        Raises
        ------
        UsageError
            If a value is missing or has another type, or the ntuple does not have these entries yet.
        """
        row = {name: [value] for name, value in values.items()}
        if not 0 <= entry_start <= entry_stop:
            raise UsageError(f"entries {entry_start} to {entry_stop} are not a valid range")
        num_entries = self._ntuple.num_entries
        if entry_stop > num_entries:
            raise UsageError(
                f"attribute set {self.name!r}: entries {entry_start} to {entry_stop} do not all exist, as ntuple "
                f"{self._ntuple.name!r} has {num_entries} so far; append attributes after the entries"
            )
        self._core.append(entry_start, entry_stop, to_batches(row))

    def close(self) -> None:
        """Complete the attribute set; closing its ntuple does this, too."""
        self._core.finish()
