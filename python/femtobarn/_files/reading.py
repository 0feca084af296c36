"""Base class of ntuples and fields: reading."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from femtobarn._files.explain import Plan
from femtobarn._files.fields import HasFields
from femtobarn._files.filters import compile_filter, name_matches
from femtobarn._files.libraries import Output, grouping, regularize
from femtobarn._files.pieces import How, begin_ahead, give, pieces_of
from femtobarn._files.queries import Conditions, Wanted, conditions, split
from femtobarn._shared.compat import check_read_options
from femtobarn._shared.steps import check_step_size, clip_entries, num_bytes, step_entries
from femtobarn.errors import KeyNotFoundError, UsageError

if TYPE_CHECKING:
    from types import ModuleType

    from femtobarn._core import LazyReader, QueryReader
    from femtobarn._files.field import Field
    from femtobarn._files.filters import Filter
    from femtobarn._files.lumi_mask import LumiMask
    from femtobarn._files.report import Report
    from femtobarn._shared.output import Path as PathLike

__all__ = ["NOT_VIRTUAL", "Readable", "without_reports"]

NOT_VIRTUAL = (
    "virtual=True cannot be combined with a cut or computed columns: leave it out, as with a cut only the remaining "
    "entries are read, or mask the virtual arrays"
)


class Readable(HasFields):
    """Base class of ntuples and fields: objects whose fields can be read.

    Methods and arguments are the same as of uproot's class `HasFields`.
    """

    def arrays(
        self,
        expressions: str | Iterable[str] | None = None,
        cut: str | LumiMask | None = None,
        *,
        filter_name: Filter = None,
        filter_typename: Filter = None,
        filter_field: Callable[[Field], Any] | None = None,
        filter_branch: Callable[[Field], Any] | None = None,
        aliases: Mapping[str, str | LumiMask] | None = None,
        entry_start: SupportsIndex | None = None,
        entry_stop: SupportsIndex | None = None,
        library: str | ModuleType = "ak",
        how: Any = None,
        ak_add_doc: bool | dict[str, str] = False,
        virtual: bool = False,
        record: PathLike | Literal[False] | None = None,
        threads: int | None = None,
        **options: Any,
    ) -> Any:
        """Read fields.

        Parameters
        ----------
        expressions : str or iterable of str, optional
            Names, paths or patterns of the fields to read. By default all fields that pass the filters. Subfields are
            read with their field. A function of the name filters like `filter_name`. What is not the name of a field
            is computed: an alias, or an expression such as ``"Muon_pt[0] * 2"``.
        cut : str or LumiMask, optional
            The condition that entries must fulfil, such as ``"nMuon >= 2 & any(Muon_pt > 30)"`` (the guide on
            expressions has the language). Its columns are read first; other columns are read only where entries are
            left.
        filter_name, filter_typename, filter_field, filter_branch
            Filters for the fields, as for `keys`. `filter_name` cannot be combined with `expressions`.
        aliases : dict of str to str, optional
            Names of expressions, for `expressions`, `cut` and other aliases. A name hides a field of the same name.
        entry_start, entry_stop : int, optional
            First entry, and the one after the last, before the cut; negative numbers count from the end, as in a slice.
        library : str
            Type of the result:

            - "ak": an Awkward Array of records;
            - "np": a dict of NumPy arrays; data of varying length becomes object arrays of arrays;
            - "arrow": a `pyarrow.Table`;
            - "pd": a `pandas.DataFrame`: numbers as NumPy columns, all other types as `ArrowDtype`; the index is the
              entry number;
            - "pl": a `polars.DataFrame`, which, like pandas, does not support `std::variant`;
            - "batch": an object with Arrow's `__arrow_c_stream__`, which needs no other package;
            - "flat": a named tuple of NumPy views for compiled functions of Numba, as of `EntryBatch.flat`.
        how : None, type or str
            `tuple`, `list` or `dict`: returns the columns in such a container ("ak", "np" and "pd"). "zip": combines
            lists of equal lengths into lists of records ("ak"). The untyped collections from which these lists are
            projected are left out, unless `expressions` names them.
        ak_add_doc : bool or dict
            Whether descriptions of fields become `__doc__` parameters of the Awkward Array; or a dict from parameter
            names to attributes of fields.
        virtual : bool
            Whether to return an Awkward Array whose columns are read when they are touched. A touch reads all columns
            that belong together according to what earlier calls of the same function touched (see `access_log`).
        record : str, path or False, optional
            A directory that keeps what was learned, for the next run; or False to learn nothing, so that each touch
            reads one column. Only with `virtual`.
        threads : int, optional
            Number of threads; by default that of `femtobarn.open`.
        **options
            Other arguments of uproot are accepted if they change nothing, and refused otherwise.

        Returns
        -------
        ak.Array, dict, pyarrow.Table, pandas.DataFrame, polars.DataFrame or Batch
            `entry_stop - entry_start` entries of each field, or those that pass the cut. Arrays share the memory that
            was read into; treat NumPy arrays as read-only.

        Raises
        ------
        KeyNotFoundError
            If an expression matches no field; the message lists the nearest names.
        ChecksumError
            If a page is damaged.
        FileError
            If reading fails.

        Examples
        --------
        >>> import femtobarn as fb
        >>> events = fb.open(dimuon).arrays(["nMuon", "Muon_pt"], entry_stop=100)
        >>> len(events), events.fields
        (100, ['nMuon', 'Muon_pt'])
        >>> print(events.Muon_pt.type)
        100 * var * float32
        >>> len(fb.open(dimuon).arrays("Muon_pt", cut="nMuon >= 2 & any(Muon_pt > 30)"))
        1533
        """
        check_read_options(options)
        given = conditions(cut, aliases)
        filters = (filter_name, filter_typename, filter_field, filter_branch, grouping(library, how))
        wanted, paths = self._wanted(expressions, given, filters)
        self._warn_of_lacking(paths, wanted.fields, filter_name)
        output = self._output(paths, library, how, ak_add_doc, virtual=virtual)
        start, stop = clip_entries(self.num_entries, entry_start, entry_stop)
        query = self._query(paths, wanted, given, filters, threads, virtual=virtual)
        if query is not None:
            return output.group(self.ntuple._read_query(query, start, stop))
        lazy = self.ntuple._lazy_reader(paths, threads, virtual, record)
        if lazy is not None:
            return output.group(lazy.read(start, stop))
        return output.group(self.ntuple._read(paths, start, stop, threads, self._is_named(expressions)))

    def iterate(
        self,
        expressions: str | Iterable[str] | None = None,
        cut: str | LumiMask | None = None,
        *,
        filter_name: Filter = None,
        filter_typename: Filter = None,
        filter_field: Callable[[Field], Any] | None = None,
        filter_branch: Callable[[Field], Any] | None = None,
        aliases: Mapping[str, str | LumiMask] | None = None,
        entry_start: SupportsIndex | None = None,
        entry_stop: SupportsIndex | None = None,
        step_size: str | SupportsIndex = "100 MB",
        library: str | ModuleType = "ak",
        how: Any = None,
        ak_add_doc: bool | dict[str, str] = False,
        report: bool = False,
        virtual: bool = False,
        record: PathLike | Literal[False] | None = None,
        threads: int | None = None,
        prefetch: bool = True,
        **options: Any,
    ) -> Iterator[Any]:
        """Read fields in steps, to limit the memory that is used.

        Parameters
        ----------
        expressions, cut, filter_name, filter_typename, filter_field, filter_branch, aliases
            The fields, computed columns and entries, as for `arrays`.
        entry_start, entry_stop, library, how, ak_add_doc, virtual, record, threads, **options
            As for `arrays`. With `virtual`, the columns that most steps touch are read for the next step in advance.
        step_size : int or str
            Number of entries per step, or the memory per step, as "100 MB"; with a cut, before the cut. A step never
            crosses the end of a file. With `virtual`, memory is that of the columns that steps touch, and steps consist
            of whole clusters.
        report : bool
            Whether to return with each step a `Report` of its file and entries; with a cut, the entries before the cut.
        prefetch : bool
            Whether to read the next step while the current one is in use, which takes the memory of two steps. If
            files are smaller than a step, the first steps of several files are read.

        Returns
        -------
        iterator
            Yields the same as `arrays`; with `report`, a tuple of that and the report.

        See Also
        --------
        femtobarn.iterate : The same over many files, opened as they are needed.

        Examples
        --------
        >>> import femtobarn as fb
        >>> total = 0
        >>> for events in fb.open(dimuon).iterate(["nMuon"], step_size=5000):
        ...     total += len(events)
        >>> total == fb.open(dimuon).num_entries
        True
        """
        check_read_options(options)
        given = conditions(cut, aliases)
        filters = (filter_name, filter_typename, filter_field, filter_branch, grouping(library, how))
        wanted, paths = self._wanted(expressions, given, filters)
        self._warn_of_lacking(paths, wanted.fields, filter_name)
        output = self._output(paths, library, how, ak_add_doc, virtual=virtual)
        entries = clip_entries(self.num_entries, entry_start, entry_stop)
        check_step_size(step_size)
        named = self._is_named(expressions)
        query = self._query(paths, wanted, given, filters, threads, virtual=virtual)
        lazy = self.ntuple._lazy_reader(paths, threads, virtual, record)
        steps = _steps(self._how(paths, output, step_size, threads, prefetch, named, lazy=lazy, query=query), entries)
        return steps if report else without_reports(steps)

    def num_entries_for(
        self,
        memory_size: str | SupportsIndex,
        expressions: str | Iterable[str] | None = None,
        cut: str | LumiMask | None = None,
        *,
        filter_name: Filter = None,
        filter_typename: Filter = None,
        filter_field: Callable[[Field], Any] | None = None,
        filter_branch: Callable[[Field], Any] | None = None,
        aliases: Mapping[str, str | LumiMask] | None = None,
        entry_start: SupportsIndex | None = None,
        entry_stop: SupportsIndex | None = None,
        **options: Any,
    ) -> int:
        """Return how many entries fit into a given amount of memory.

        Parameters
        ----------
        memory_size : int or str
            A number of bytes, or a size as "100 MB".
        expressions, cut, filter_name, filter_typename, filter_field, filter_branch, aliases
            The fields, computed columns and entries, as for `arrays`.
        entry_start, entry_stop, **options
            As for `arrays`; with a cut, entries before the cut.

        Returns
        -------
        int
            The number of entries of these fields, and of the columns of the cut and of computed columns, that take
            about this memory, computed from the metadata.

        Examples
        --------
        >>> import femtobarn as fb
        >>> fb.open(dimuon).num_entries_for("1 kB", "event")
        125
        """
        check_read_options(options)
        given = conditions(cut, aliases)
        filters = (filter_name, filter_typename, filter_field, filter_branch, None)
        wanted, paths = self._wanted(expressions, given, filters)
        start, stop = clip_entries(self.num_entries, entry_start, entry_stop)
        query = self._query(paths, wanted, given, filters)
        if query is None:
            n_bytes = self.ntuple._core.decoded_bytes(paths, start, stop)
        else:
            n_bytes = query.decoded_bytes(start, stop)
        return step_entries(f"{num_bytes(memory_size)} B", n_bytes, stop - start)

    def explain(
        self,
        expressions: str | Iterable[str] | None = None,
        entry_start: SupportsIndex | None = None,
        entry_stop: SupportsIndex | None = None,
        *,
        filter_name: Filter = None,
        filter_typename: Filter = None,
        filter_field: Callable[[Field], Any] | None = None,
        filter_branch: Callable[[Field], Any] | None = None,
        cut: str | LumiMask | None = None,
        aliases: Mapping[str, str | LumiMask] | None = None,
    ) -> Plan:
        """Return the plan of a read without reading pages.

        Parameters
        ----------
        expressions, filter_name, filter_typename, filter_field, filter_branch, cut, aliases
            The fields, as for `arrays`. With a cut, all numbers are upper bounds: the plan is that of a read of all
            entries.
        entry_start, entry_stop : int, optional
            The entries, as for `arrays`.

        Returns
        -------
        Plan
            Clusters, pages, ranges, requests and bytes.

        Examples
        --------
        >>> import femtobarn as fb
        >>> plan = fb.open(dimuon).explain(["Muon_pt"])
        >>> plan.bytes_needed <= plan.bytes_read
        True
        """
        given = conditions(cut, aliases)
        filters = (filter_name, filter_typename, filter_field, filter_branch, None)
        wanted, paths = self._wanted(expressions, given, filters)
        start, stop = clip_entries(self.num_entries, entry_start, entry_stop)
        query = self._query(paths, wanted, given, filters)
        plan = self.ntuple._core.explain(paths, start, stop) if query is None else query.explain(start, stop)
        return Plan._from_core(json.loads(plan))

    # -- internals ---------------------------------------------------------------------------------------

    def _wanted(self, expressions: Any, given: Conditions, filters: tuple[Any, ...]) -> tuple[Wanted, list[str] | None]:
        """Return what is wanted, and the paths of the fields among it."""
        if isinstance(expressions, Iterator):
            expressions = [*expressions]
        if given.is_empty:
            try:
                return Wanted(expressions, []), self._paths(expressions, *filters)
            except KeyNotFoundError:  # some may be expressions
                wanted = split(self, expressions, given)
                if not wanted.computed:
                    raise
        else:
            wanted = split(self, expressions, given)
        return wanted, self._paths(wanted.fields, *filters)

    def _query(
        self,
        paths: list[str] | None,
        wanted: Wanted,
        given: Conditions,
        filters: tuple[Any, ...],
        threads: int | None = None,
        *,
        virtual: bool = False,
    ) -> QueryReader | None:
        """Return what reads computed columns and selected entries; None if there are neither."""
        if given.cut is None and not wanted.computed:
            return None
        if virtual:
            raise UsageError(NOT_VIRTUAL)
        computed = []
        for number, name, values in wanted.computed:
            behind = len(self._paths(wanted.fields[:number], *filters) or ()) if number else 0
            computed.append((behind, name, values))
        threads = self.ntuple._threads(threads)
        named = self._is_named(wanted.fields)
        return self.ntuple._core.query(paths, computed, given.cut, threads=threads, named=named)

    def _paths(
        self,
        expressions: str | Iterable[str] | None,
        filter_name: Filter,
        filter_typename: Filter,
        filter_field: Callable[[Field], Any] | None,
        filter_branch: Callable[[Field], Any] | None,
        how: Any = None,
    ) -> list[str] | None:
        """Return the paths that the core reads; None for all."""
        accept = self._accept(filter_field, filter_branch)
        everything = expressions is None and filter_name is None and filter_typename is None and accept is None
        if everything and self._id is None and how != "zip":
            return None
        schema = self.ntuple._schema
        if everything:
            if self._id is not None:
                return [schema.path(self._id)]
            if not schema.sources:
                return None
        zipped = bool(how == "zip")
        chosen = schema.select(self._id, expressions, filter_name, filter_typename, accept, zipped=zipped)
        return [schema.path(i) for i in chosen]

    def _warn_of_lacking(
        self, paths: list[str] | None, expressions: str | Iterable[str] | None, filter_name: Filter
    ) -> None:
        """Warn about fields that are left out because not all files have them."""
        nt = self.ntuple
        if not nt._untold_lacking():
            return
        asked = filter_name if expressions is None else expressions
        by_name = None if isinstance(asked, Iterator) else compile_filter(asked)  # an iterator is used up
        base = () if self._id is None else nt._schema.parts(self._id)
        chosen = set(paths or ())

        def is_wanted(path: str) -> bool:
            parts = path.split(".")
            if tuple(parts[: len(base)]) != base:
                return False
            inside = range(len(base) + 1, len(parts) + 1)
            if any(".".join(parts[:n]) in chosen for n in inside):
                return True
            if by_name is None:
                return asked is None
            return any(name_matches(by_name, parts[n - 1], ".".join(parts[len(base) : n])) for n in inside)

        nt._tell_lacking(is_wanted)

    def _is_named(self, expressions: str | Iterable[str] | None) -> bool:
        """Return whether a read requests fields by name, so that a missing field is an error."""
        return expressions is not None or self._id is not None

    def _output(
        self,
        paths: list[str] | None,
        library: str | ModuleType,
        how: Any,
        add_doc: bool | dict[str, str],
        *,
        virtual: bool = False,
    ) -> Output:
        nt = self.ntuple
        inside = () if self._id is None else nt._schema.parts(self._id)[:-1]
        output = Output(nt, regularize(library), how, add_doc, inside)
        output.check(paths)
        if virtual:
            output.check_virtual()
        return output

    def _how(
        self,
        paths: list[str] | None,
        output: Output,
        step_size: str | SupportsIndex,
        threads: int | None,
        prefetch: bool,
        named: bool,
        global_offset: int = 0,
        lazy: LazyReader | None = None,
        query: QueryReader | None = None,
    ) -> How:
        options = self.ntuple._threads(threads), prefetch, named, global_offset, lazy, query
        return How(self, paths, output, step_size, *options)


def _steps(how: How, entries: tuple[int, int]) -> Iterator[tuple[Any, Report]]:
    """Yield the steps of one ntuple, and start the first steps of the next files meanwhile."""
    pieces = pieces_of(how, entries)

    def advance(pending: int) -> None:
        begin_ahead(((piece, True) for piece in pieces), pending, how.step_size)

    yield from give(how, pieces, entries, advance)


def without_reports(steps: Iterator[tuple[Any, Report]]) -> Iterator[Any]:
    """Yield the arrays of (array, report) pairs without keeping the arrays."""
    return map(operator.itemgetter(0), steps)
