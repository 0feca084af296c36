"""Results of reading: Awkward, NumPy, Arrow, pandas or Polars, each imported only on use."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from femtobarn._core import LazyBatch
from femtobarn._files.numpy_arrays import is_simple, layout_to_numpy, node_to_numpy
from femtobarn._shared.optional import optional
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from femtobarn._core import Batch
    from femtobarn._files.awkward_arrays import AddDoc
    from femtobarn._files.ntuple import NTuple
    from femtobarn._files.report import Report

__all__ = ["TREES", "Output", "grouping", "plain_output", "regularize"]

_NAMES = {
    "ak": "ak",
    "awkward": "ak",
    "np": "np",
    "numpy": "np",
    "pd": "pd",
    "pandas": "pd",
    "arrow": "arrow",
    "pa": "arrow",
    "pyarrow": "arrow",
    "pl": "pl",
    "polars": "pl",
    "batch": "batch",
    "flat": "flat",
}
TREES = ("TTree", "TNtuple", "TNtupleD")
_WITHOUT_UNIONS = {"pd": "pandas", "pl": "Polars"}
_GROUPS: dict[str, tuple[Any, ...]] = {
    "ak": (None, tuple, list, dict, "zip"),
    "np": (None, tuple, list, dict),
    "pd": (None, tuple, list, dict),
}


def regularize(library: str | ModuleType) -> str:
    """Return the short name of a library: "ak", "np", "pd", "arrow", "pl", "batch" or "flat".

    Examples
    --------
    >>> from femtobarn._files.libraries import regularize
    >>> regularize("pandas")
    'pd'
    """
    name = library.__name__ if isinstance(library, ModuleType) else library
    known = _NAMES.get(str(name).lower())
    if known is None:
        raise UsageError(
            f"unknown library {library!r}: use 'ak' (Awkward), 'np' (NumPy), 'arrow' (pyarrow), 'pd' (pandas), "
            "'pl' (Polars), 'batch' (for any consumer of Arrow's capsules) or 'flat' (named tuples for Numba)"
        )
    return known


def grouping(library: str | ModuleType, how: Any = None) -> Any:
    """Return how columns are grouped: "zip" if lists of a collection belong together, as in "flat"."""
    return "zip" if library == "flat" else how


@dataclass(frozen=True)
class Output:
    """Converts data from the core to the form that the user requested.

    Parameters
    ----------
    ntuple : NTuple
        The ntuple of the data.
    library : str
        A name returned by `regularize`.
    how : None, str or type
        How columns are grouped, as in uproot: `tuple`, `list`, `dict`, or "zip" for Awkward.
    add_doc : bool or dict
        Whether descriptions become parameters of Awkward Arrays.
    inside : tuple of str
        Names of nested fields to descend into before returning the result.
    """

    ntuple: NTuple
    library: str
    how: Any = None
    add_doc: AddDoc = False
    inside: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        allowed = _GROUPS.get(self.library, (None,))
        if self.how not in allowed:
            choices = ", ".join(getattr(how, "__name__", repr(how)) for how in allowed)
            raise UsageError(f"how={self.how!r} is not supported by library {self.library!r}: use {choices}")

    def check(self, paths: list[str] | None) -> None:
        """Raise if the library has no type for a requested field.

        Parameters
        ----------
        paths : list of str or None
            The fields that the core reads; None for all.

        Raises
        ------
        UsageError
            If a field is or contains a variant, and the library has no union type.
        """
        if self.library not in _WITHOUT_UNIONS:
            return
        for name, typename in self.ntuple._schema.variants(paths):
            raise UsageError(
                f"field {name!r} is a variant ({typename}), which {_WITHOUT_UNIONS[self.library]} does not support: "
                "leave it out, or read it with library='ak'"
            )

    def check_virtual(self) -> None:
        """Raise if the library has no virtual arrays."""
        if self.library != "ak":
            raise UsageError(f"virtual=True needs library='ak', not {self.library!r}: other arrays are read at once")
        if self.how == "zip":
            raise UsageError("how='zip' compares lists, which reads them all: use ak.zip with the columns to combine")

    def group(self, batch: Batch | LazyBatch, global_offset: int = 0) -> Any:
        """Return the columns of a batch together, in the form of the library.

        Parameters
        ----------
        batch : Batch or LazyBatch
            The data from the core.
        global_offset : int
            Number of entries before the first one of the ntuple, for the pandas index.

        Returns
        -------
        object
            An array of records, a dict of arrays, a table or a data frame.
        """
        if isinstance(batch, LazyBatch):
            return self._group_awkward(self._descend_virtual(batch))
        if self.library == "batch":
            return batch
        if self.library == "ak":
            return self._group_awkward(self._descend(batch, self.inside))
        if self.library == "flat":
            from femtobarn._files.flat import flat_of

            return flat_of(self._descend(batch, self.inside), None, self.ntuple._counters())
        if self.library == "np":
            return _grouped(self._numpy_columns(batch), self.how)
        if self.library == "pd":
            return self._pandas(batch, global_offset)
        if self.library == "pl":
            polars = optional("polars", "polars")
            return polars.from_arrow(self._table(batch)) if self.inside else polars.DataFrame(batch)
        return self._table(batch)

    def labelled(self, grouped: Any, batch: Batch | LazyBatch, report: Report) -> Any:
        """Return what `group` has made of a batch with its origin, if the library can hold it."""
        if self.library != "ak" or self.how not in (None, "zip"):
            return grouped
        from femtobarn._files.entry_batch import labelled, left_entries

        return labelled(
            grouped,
            self.ntuple._counters(),
            left_entries(batch),
            dataset=report.dataset,
            metadata=report.metadata,
            file=report.file_path,
            object_path=report.object_path,
            entry_start=report.tree_entry_start,
            entry_stop=report.tree_entry_stop,
        )

    def single(self, batch: Batch) -> Any:
        """Return the single column that `inside` selects, in the form of the library.

        Parameters
        ----------
        batch : Batch
            The data from the core.

        Returns
        -------
        object
            An array or a series.
        """
        if self.library == "batch":
            return batch
        if self.library == "ak":
            return self._descend(batch, self.inside)
        if self.library == "flat":
            from femtobarn._files.flat import flat_view

            return flat_view(self._descend(batch, self.inside).layout, self.inside[-1])
        if self.library == "np":
            return self._single_numpy(batch)
        if self.library == "pd":
            return self._single_pandas(batch)
        column = self._single_arrow(batch)
        if self.library == "pl":
            return optional("polars", "polars").Series(self.inside[-1], column)
        return column

    def _descend(self, batch: Batch, names: tuple[str, ...]) -> Any:
        optional("awkward", "all")
        from femtobarn._files.awkward_arrays import to_array

        # the schema of a wide ntuple takes a while to build, and is only needed for documentation
        of_tree = self.ntuple.version in TREES
        if self.add_doc:
            array = to_array(batch, self.ntuple._schema, self.add_doc, self.ntuple.description, of_tree)
        else:
            array = to_array(batch, of_tree=of_tree, named=isinstance(self.ntuple, _NoNTuple))
        return _inside(array, names)

    def _descend_virtual(self, batch: LazyBatch) -> Any:
        optional("awkward", "all")
        from femtobarn._files.virtual_arrays import to_virtual_array

        of_tree = self.ntuple.version in TREES
        if self.add_doc:
            options = self.ntuple._schema, self.add_doc, self.ntuple.description, of_tree
            return _inside(to_virtual_array(batch, *options), self.inside)
        return _inside(to_virtual_array(batch, of_tree=of_tree), self.inside)

    def _group_awkward(self, array: Any) -> Any:
        if self.how is None:
            return array
        if self.how == "zip":
            from femtobarn._files.awkward_arrays import zip_jagged

            return zip_jagged(array)
        return _grouped({name: array[name] for name in array.fields}, self.how)

    def _numpy_columns(self, batch: Batch) -> dict[str, npt.NDArray[Any]]:
        if not self.inside and all(is_simple(node) for _, node in batch.columns()):
            return {name: node_to_numpy(node) for name, node in batch.columns()}
        array = self._descend(batch, self.inside)
        return {name: layout_to_numpy(array[name].layout) for name in array.fields}

    def _single_numpy(self, batch: Batch) -> npt.NDArray[Any]:
        if len(self.inside) == 1 and is_simple(batch.columns()[0][1]):
            return node_to_numpy(batch.columns()[0][1])
        return layout_to_numpy(self._descend(batch, self.inside).layout)

    def _table(self, batch: Batch) -> Any:
        arrow = optional("pyarrow", "arrow")
        if not self.inside:
            return arrow.table(batch)
        array = self._descend(batch, self.inside)
        return arrow.table({name: _to_arrow(array[name]) for name in array.fields})

    def _single_arrow(self, batch: Batch) -> Any:
        arrow = optional("pyarrow", "arrow")
        if len(self.inside) == 1:
            return arrow.table(batch).column(0)
        return arrow.chunked_array([_to_arrow(self._descend(batch, self.inside))])

    def _pandas(self, batch: Batch, global_offset: int) -> Any:
        pandas = optional("pandas", "pandas")
        numbers = batch.entry_numbers()
        if numbers is None:
            index = pandas.RangeIndex(batch.entry_start + global_offset, batch.entry_stop + global_offset)
        else:
            index = pandas.Index(optional("numpy", "numpy").frombuffer(numbers, "i8") + global_offset)
        columns = {
            name: pandas.Series(values, index=index, name=name)
            for name, values in self._pandas_values(batch, pandas).items()
        }
        return pandas.DataFrame(columns, index=index) if self.how is None else _grouped(columns, self.how)

    def _pandas_values(self, batch: Batch, pandas: Any) -> dict[str, Any]:
        """Return numbers as NumPy arrays and everything else as Arrow-backed extension arrays."""
        if not self.inside and all(node[0] == "numpy" for _, node in batch.columns()):
            return {name: node_to_numpy(node) for name, node in batch.columns()}
        table = self._table(batch)
        return {name: _to_pandas(pandas, table.column(name)) for name in table.column_names}

    def _single_pandas(self, batch: Batch) -> Any:
        pandas = optional("pandas", "pandas")
        if len(self.inside) == 1 and batch.columns()[0][1][0] == "numpy":
            values: Any = node_to_numpy(batch.columns()[0][1])
        else:
            values = _to_pandas(pandas, self._single_arrow(batch))
        index = pandas.RangeIndex(batch.entry_start, batch.entry_stop)
        return pandas.Series(values, index=index, name=self.inside[-1])


def _inside(array: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        array = array[name if name in array.fields else "0"]  # a tuple with one slot read
    return array


def _grouped(columns: dict[str, Any], how: Any) -> Any:
    return columns if how is None or how is dict else how(columns.values())


def _to_arrow(array: Any) -> Any:
    import awkward as ak

    return ak.to_arrow(array, extensionarray=False)


def _to_pandas(pandas: Any, column: Any) -> Any:
    types = importlib.import_module("pyarrow").types
    if types.is_primitive(column.type) and column.null_count == 0:
        return column.to_numpy()
    return pandas.arrays.ArrowExtensionArray(column)


@dataclass(frozen=True)
class _NoNTuple:
    """The origin of columns that do not belong to an ntuple."""

    version: str = ""
    description: str = ""


def plain_output(batch: Batch, single: str | None, library: str) -> Any:
    """Return columns that do not belong to an ntuple.

    Parameters
    ----------
    batch : Batch
        The columns.
    single : str or None
        The column to return alone; None for all together.
    library : str
        A name that `regularize` accepts.

    Returns
    -------
    object
        An array, a table or a data frame.
    """
    inside = () if single is None else (single,)
    output = Output(cast("NTuple", _NoNTuple()), regularize(library), inside=inside)
    return output.group(batch) if single is None else output.single(batch)
