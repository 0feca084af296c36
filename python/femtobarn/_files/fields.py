"""Base class of ntuples and fields: finding fields."""

from __future__ import annotations

import operator
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from femtobarn._files.field_rows import FIELD_HEADER, field_rows
from femtobarn._files.filters import compile_filter
from femtobarn._shared.repr import format_table, skipped_lines
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._files.field import Field
    from femtobarn._files.filters import Filter
    from femtobarn._files.ntuple import NTuple

__all__ = ["HasFields"]


class HasFields(ABC):
    """Base class of ntuples and fields: objects that have fields.

    Methods and arguments are the same as of uproot's class of this name.
    """

    _id: int | None

    @property
    @abstractmethod
    def ntuple(self) -> NTuple:
        """The ntuple."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name."""

    @property
    def num_entries(self) -> int:
        """The number of entries of the ntuple, over all its files."""
        return self.ntuple._core.num_entries

    @property
    def fields(self) -> list[Field]:
        """The fields directly below, in file order."""
        nt = self.ntuple
        return [nt._field(i) for i in nt._schema.visible_children(self._id)]

    def keys(
        self,
        filter_name: Filter = None,
        *,
        filter_typename: Filter = None,
        filter_field: Callable[[Field], Any] | None = None,
        filter_branch: Callable[[Field], Any] | None = None,
        recursive: bool = True,
        full_paths: bool = True,
        ignore_duplicates: bool = False,
    ) -> list[str]:
        """Return the names of the fields below.

        Parameters
        ----------
        filter_name, filter_typename : None, str, compiled pattern, callable or list of these
            Filters for names and C++ types: a name, a glob such as ``"Muon_*"``, a regular expression such as
            ``"/muon_.*/i"``, a function, or a list of these. A name passes if the field's own name or its path matches.
        filter_field : callable, optional
            A function of the `Field` that returns whether to include it.
        filter_branch : callable, optional
            Another name of `filter_field`, for code written for TTrees.
        recursive : bool
            Whether to include members of records and of collections.
        full_paths : bool
            Whether to return nested fields by their path ("jets.pt") or by their own name ("pt").
        ignore_duplicates : bool
            Whether to return each name only once; paths are unique, own names may not be.

        Returns
        -------
        list of str
            The names in file order, parents before their children.

        Examples
        --------
        >>> import femtobarn as fb
        >>> fb.open(dimuon).keys(filter_name="Muon_p*", recursive=False)
        ['Muon_pt', 'Muon_phi']
        """
        unfiltered = filter_name is None and filter_typename is None and filter_field is None and filter_branch is None
        if unfiltered and recursive and full_paths and self._id is None:
            return self.ntuple._core.keys()
        matching = self._matching(filter_name, filter_typename, filter_field, filter_branch, recursive)
        return [name for name, _ in self._named(matching, full_paths, ignore_duplicates)]

    def values(
        self,
        filter_name: Filter = None,
        *,
        filter_typename: Filter = None,
        filter_field: Callable[[Field], Any] | None = None,
        filter_branch: Callable[[Field], Any] | None = None,
        recursive: bool = True,
    ) -> list[Field]:
        """Return the fields below.

        Parameters
        ----------
        filter_name, filter_typename, filter_field, filter_branch, recursive
            As for `keys`.

        Returns
        -------
        list of Field
            The fields in file order.

        Examples
        --------
        >>> import femtobarn as fb
        >>> [field.role for field in fb.open(dimuon).values(filter_name=["run", "_collection0"])]
        ['plain', 'collection']
        """
        matching = self._matching(filter_name, filter_typename, filter_field, filter_branch, recursive)
        return [self.ntuple._field(i) for i in matching]

    def items(
        self,
        filter_name: Filter = None,
        *,
        filter_typename: Filter = None,
        filter_field: Callable[[Field], Any] | None = None,
        filter_branch: Callable[[Field], Any] | None = None,
        recursive: bool = True,
        full_paths: bool = True,
        ignore_duplicates: bool = False,
    ) -> list[tuple[str, Field]]:
        """Return the names and the fields below.

        Parameters
        ----------
        filter_name, filter_typename, filter_field, filter_branch, recursive, full_paths, ignore_duplicates
            As for `keys`.

        Returns
        -------
        list of (str, Field)
            Pairs in file order.

        Examples
        --------
        >>> import femtobarn as fb
        >>> for name, field in fb.open(dimuon).items(filter_typename="std::*"):
        ...     print(name, field.typename)
        run std::uint32_t
        event std::uint64_t
        _collection0.Muon_charge std::int32_t
        """
        matching = self._matching(filter_name, filter_typename, filter_field, filter_branch, recursive)
        return [(name, self.ntuple._field(i)) for name, i in self._named(matching, full_paths, ignore_duplicates)]

    def typenames(
        self,
        filter_name: Filter = None,
        *,
        filter_typename: Filter = None,
        filter_field: Callable[[Field], Any] | None = None,
        filter_branch: Callable[[Field], Any] | None = None,
        recursive: bool = True,
        full_paths: bool = True,
        ignore_duplicates: bool = False,
    ) -> dict[str, str]:
        """Return the names and the C++ types of the fields below.

        Parameters
        ----------
        filter_name, filter_typename, filter_field, filter_branch, recursive, full_paths, ignore_duplicates
            As for `keys`.

        Returns
        -------
        dict of str to str
            C++ types by name.

        Examples
        --------
        >>> import femtobarn as fb
        >>> fb.open(dimuon).typenames(filter_name=".Muon_charge")
        {'Muon_charge': 'ROOT::VecOps::RVec<std::int32_t>'}
        """
        matching = self._matching(filter_name, filter_typename, filter_field, filter_branch, recursive)
        records = self.ntuple._schema.records
        return {name: records[i]["typename"] for name, i in self._named(matching, full_paths, ignore_duplicates)}

    def iterkeys(self, filter_name: Filter = None, **options: Any) -> Iterator[str]:
        """Iterate over the names of the fields below.

        Parameters
        ----------
        filter_name
            As for `keys`.
        **options
            The other arguments of `keys`.

        Returns
        -------
        iterator of str
            The names.

        See Also
        --------
        keys : The same in a list.
        """
        return iter(self.keys(filter_name, **options))

    def itervalues(self, filter_name: Filter = None, **options: Any) -> Iterator[Field]:
        """Iterate over the fields below.

        Parameters
        ----------
        filter_name
            As for `values`.
        **options
            The other arguments of `values`.

        Returns
        -------
        iterator of Field
            The fields.

        See Also
        --------
        values : The same in a list.
        """
        return iter(self.values(filter_name, **options))

    def iteritems(self, filter_name: Filter = None, **options: Any) -> Iterator[tuple[str, Field]]:
        """Iterate over the names and the fields below.

        Parameters
        ----------
        filter_name
            As for `items`.
        **options
            The other arguments of `items`.

        Returns
        -------
        iterator of (str, Field)
            Pairs.

        See Also
        --------
        items : The same in a list.
        """
        return iter(self.items(filter_name, **options))

    def itertypenames(self, filter_name: Filter = None, **options: Any) -> Iterator[tuple[str, str]]:
        """Iterate over the names and the C++ types of the fields below.

        Parameters
        ----------
        filter_name
            As for `typenames`.
        **options
            The other arguments of `typenames`.

        Returns
        -------
        iterator of (str, str)
            Pairs.

        See Also
        --------
        typenames : The same in a dict.
        """
        return ((name, field.typename) for name, field in self.items(filter_name, **options))

    def show(
        self,
        filter_name: Filter = None,
        *,
        filter_typename: Filter = None,
        filter_field: Callable[[Field], Any] | None = None,
        filter_branch: Callable[[Field], Any] | None = None,
        recursive: bool = True,
        max_width: int | None = None,
        stream: TextIO | None = None,
    ) -> None:
        """Print the table of fields: names, C++ types, columns, bytes on disk and compression.

        Skipped fields follow below the table, with the reasons.

        Parameters
        ----------
        filter_name, filter_typename, filter_field, filter_branch, recursive
            As for `keys`.
        max_width : int, optional
            Lines are cut to this number of characters.
        stream : file, optional
            Where to print; by default `sys.stdout`.

        Examples
        --------
        >>> import femtobarn as fb
        >>> fb.open(dimuon).show(filter_name=["run", "event"])
        field  C++ type       columns      on disk  compression
        ─────  ─────────────  ───────────  ───────  ───────────
        run    std::uint32_t  SplitUInt32    123 B  zstd 5
        event  std::uint64_t  SplitUInt64  1.04 kB  zstd 5
        """
        matching = self._matching(filter_name, filter_typename, filter_field, filter_branch, recursive)
        nt = self.ntuple
        rows = field_rows(nt._schema, matching, nt._column_sizes(), self._id)
        lines = [format_table(FIELD_HEADER, rows, right=(3,), max_width=max_width)]
        if self._id is None and filter_typename is None and filter_field is None and filter_branch is None:
            wanted = compile_filter(filter_name)
            skipped = [(name, reason) for name, reason in nt.skipped if wanted is None or wanted(name)]
            lines += skipped_lines(skipped, max_width)
        print("\n".join(lines), file=stream or sys.stdout)

    def get(self, key: str, default: Any = None) -> Field | Any:
        """Return the field with a name, or a default.

        Parameters
        ----------
        key : str
            A name or a path.
        default : object
            The value to return if the field does not exist.

        Returns
        -------
        Field or object
            The field, or the default.

        Examples
        --------
        >>> import femtobarn as fb
        >>> fb.open(dimuon).get("Jet_pt") is None
        True
        """
        found = self.ntuple._schema.find_all(key, self._id)
        return self.ntuple._field(found[0]) if found else default

    def __getitem__(self, where: str | int) -> Field:
        nt = self.ntuple
        if isinstance(where, str):
            return nt._field(nt._schema.find(where, self._id))
        try:
            return self.fields[operator.index(where)]
        except TypeError:
            hint = ", and for entries `array` or `arrays` with entry_start and entry_stop"
            raise UsageError(f"invalid field {where!r}: use a name or a position{hint}") from None

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and bool(self.ntuple._schema.find_all(key, self._id))

    def __len__(self) -> int:
        return len(self.ntuple._schema.visible_children(self._id))

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()

    # -- internals ---------------------------------------------------------------------------------------

    def _accept(
        self, filter_field: Callable[[Field], Any] | None, filter_branch: Callable[[Field], Any] | None
    ) -> Callable[[int], bool] | None:
        wanted = filter_field if filter_field is not None else filter_branch
        if wanted is None:
            return None
        if not callable(wanted):
            raise UsageError(f"filter_field must be a function that takes a Field and returns a bool, not {wanted!r}")
        nt = self.ntuple
        return lambda i: bool(wanted(nt._field(i)))

    def _matching(
        self,
        filter_name: Filter,
        filter_typename: Filter,
        filter_field: Callable[[Field], Any] | None,
        filter_branch: Callable[[Field], Any] | None,
        recursive: bool,
    ) -> Iterator[int]:
        accept = self._accept(filter_field, filter_branch)
        return self.ntuple._schema.matching(self._id, filter_name, filter_typename, accept, recursive=recursive)

    def _named(self, matching: Iterable[int], full_paths: bool, ignore_duplicates: bool) -> Iterator[tuple[str, int]]:
        """Yield fields with their paths or own names; with `ignore_duplicates`, only the first field of each name."""
        schema = self.ntuple._schema
        seen = set()
        for i in matching:
            name = schema.relative(i, self._id) if full_paths else schema.names[i]
            if not (ignore_duplicates and name in seen):
                seen.add(name)
                yield name, i
