"""Histograms and profiles of ROOT files."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from femtobarn import _core
from femtobarn._files.filters import Filter, compile_filter
from femtobarn._files.open import Files, resolve, settings_of
from femtobarn._shared.optional import optional
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Histogram", "HistogramAxis", "histogram", "histograms"]


@dataclass(frozen=True)
class AxisTraits:
    """What kind of axis it is, in the words of UHI.

    Attributes
    ----------
    circular : bool
        Whether the last bin is next to the first one: never.
    discrete : bool
        Whether bins stand for labels.
    """

    circular: bool = False
    discrete: bool = False


class HistogramAxis:
    """An axis of a `Histogram`. Its items are the limits of the bins, or their labels if all bins have different ones.

    Parameters
    ----------
    name : str
        ``"xaxis"``, ``"yaxis"`` or ``"zaxis"``, as in ROOT.
    title : str
        The title.
    edges : array
        Edges of the bins.
    is_regular : bool
        Whether all bins have the same width, so that ROOT stores only the limits.
    labels : list of tuple
        Bins, from 1, and their labels.
    """

    def __init__(
        self, name: str, title: str, edges: NDArray[np.float64], is_regular: bool, labels: list[tuple[int, str]]
    ) -> None:
        self.name = name
        self.title = title
        self.is_regular = is_regular
        self._edges = edges
        self._labels = labels

    @property
    def label(self) -> str:
        """The title, under hist's name."""
        return self.title

    @property
    def edges(self) -> NDArray[np.float64]:
        """The edges of the bins, one more than there are bins."""
        return self._edges

    @property
    def centers(self) -> NDArray[np.float64]:
        """The centers of the bins."""
        return (self._edges[1:] + self._edges[:-1]) / 2

    @property
    def widths(self) -> NDArray[np.float64]:
        """The widths of the bins."""
        return np.diff(self._edges)

    @property
    def labels(self) -> list[str | None]:
        """The label of each bin; None for a bin without one."""
        known = dict(self._labels)
        return [known.get(i + 1) for i in range(len(self))]

    @property
    def traits(self) -> AxisTraits:
        """The kind of the axis."""
        return AxisTraits(discrete=self._is_discrete)

    @property
    def _is_discrete(self) -> bool:
        return len(self._labels) == len(self) == len(set(self.labels) - {None})

    def __len__(self) -> int:
        return len(self._edges) - 1

    def __getitem__(self, index: int) -> Any:
        i = range(len(self))[index]
        if self._is_discrete:
            return self.labels[i]
        return float(self._edges[i]), float(self._edges[i + 1])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HistogramAxis):
            return NotImplemented
        return self.title == other.title and self._same_bins(other)

    def _same_bins(self, other: HistogramAxis) -> bool:
        return np.array_equal(self._edges, other._edges) and self.labels == other.labels

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if self._is_discrete:
            bins = ", ".join(repr(label) for label in self.labels)
        else:
            width = "" if self.is_regular else " of different widths"
            bins = f"{len(self)} bins{width} from {self._edges[0]:g} to {self._edges[-1]:g}"
        return f"<{self.name}{f' {self.title!r}' if self.title else ''}: {bins}>"


class Histogram:
    """A histogram or a profile, from `histogram`.

    It implements the PlottableHistogram protocol of UHI, so that ``hist.Hist(h)``, ``boost_histogram.Histogram(h)`` and
    ``mplhep.histplot(h)`` take it. ``file["name"] = h`` writes it as it was stored, with its functions and colours.

    Arrays have one dimension for each axis. With ``flow=True`` they have the underflow bin before and the overflow bin
    after the bins of each axis.

    Examples
    --------
    >>> import femtobarn as fb
    >>> h = fb.histogram("testdata/histograms.root:squares")
    >>> h.values()
    array([0., 0., 3., 0., 0., 0., 0., 0.], dtype=float32)
    >>> h.errors()
    array([0., 0., 3., 0., 0., 0., 0., 0.])
    """

    def __init__(self, core: _core.Histogram) -> None:
        self._core = core

    @property
    def name(self) -> str:
        """The name that is stored in the histogram; the name of its key may differ."""
        return self._core.name

    @property
    def title(self) -> str:
        """The title."""
        return self._core.title

    @property
    def classname(self) -> str:
        """The class, as "TH1D" or "TProfile"."""
        return self._core.class_name

    @property
    def kind(self) -> str:
        """``"MEAN"`` for profiles, ``"COUNT"`` for other histograms."""
        return "MEAN" if self._core.is_profile else "COUNT"

    @property
    def weighted(self) -> bool:
        """Whether sums of squared weights are stored (``Sumw2``)."""
        return self._core.is_weighted

    @property
    def axes(self) -> tuple[HistogramAxis, ...]:
        """The axes, one to three."""
        axes = zip("xyz", self._core.axes(), strict=False)
        return tuple(
            HistogramAxis(f"{letter}axis", title, np.array(edges), is_regular, labels)
            for letter, (title, edges, is_regular, labels) in axes
        )

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._core.axes())

    @property
    def entries(self) -> float:
        """Number of entries (ROOT's ``GetEntries``)."""
        return self._core.entries()

    @property
    def statistics(self) -> dict[str, float]:
        """Sums over the entries, from which ROOT takes means and widths (``GetStats``): names of members and values."""
        return self._core.statistics()

    def values(self, flow: bool = False) -> NDArray[Any]:
        """Return the contents of the bins; of a profile, the mean values.

        Parameters
        ----------
        flow : bool
            Whether under- and overflow bins are included.

        Returns
        -------
        array
            Numbers of the stored type; for profiles, float64.
        """
        moments = self._core.moments()
        if moments is not None:
            return self._shaped(_doubles(moments[2]), flow)
        dtype, contents = self._core.contents()
        return self._shaped(np.frombuffer(contents, f">{dtype}").astype(dtype), flow)

    def variances(self, flow: bool = False) -> NDArray[np.float64]:
        """Return the squared errors of the bins.

        Parameters
        ----------
        flow : bool
            Whether under- and overflow bins are included.

        Returns
        -------
        array of float64
            The squares of what ROOT's ``GetBinError`` returns.

        Raises
        ------
        UsageError
            If entries are in no bin yet (ROOT's ``SetBuffer``); so do the other methods with contents.
        """
        return self._shaped(_doubles(self._core.variances()), flow)

    def errors(self, flow: bool = False) -> NDArray[np.float64]:
        """Return the errors of the bins, as ROOT's ``GetBinError``.

        Parameters
        ----------
        flow : bool
            Whether under- and overflow bins are included.

        Returns
        -------
        array of float64
            The errors.
        """
        return np.sqrt(self.variances(flow))

    def counts(self, flow: bool = False) -> NDArray[np.float64]:
        """Return the effective number of entries of the bins.

        Parameters
        ----------
        flow : bool
            Whether under- and overflow bins are included.

        Returns
        -------
        array of float64
            Squared sums of the weights over sums of the squared weights.
        """
        moments = self._core.moments()
        if moments is not None:
            weights, squares = (self._shaped(_doubles(it), flow) for it in moments[:2])
        else:
            weights, squares = self.values(flow).astype(float), self.variances(flow)
        out: NDArray[np.float64] = np.zeros_like(squares)
        np.divide(weights**2, squares, out=out, where=squares != 0)
        return out

    def _shaped(self, flat: NDArray[Any], flow: bool) -> NDArray[Any]:
        axes = self.axes
        out = flat.reshape([len(axis) + 2 for axis in axes], order="F")
        return out if flow else out[(slice(1, -1),) * len(axes)]

    def to_numpy(self, flow: bool = False) -> tuple[NDArray[Any], ...]:
        """Return the contents and the edges, as NumPy's functions for histograms do.

        Parameters
        ----------
        flow : bool
            Whether under- and overflow bins are included; their edges are infinite.

        Returns
        -------
        tuple of arrays
            The contents, then the edges of each axis.
        """
        edges = [axis.edges for axis in self.axes]
        if flow:
            edges = [np.concatenate([[-math.inf], it, [math.inf]]) for it in edges]
        return (self.values(flow), *edges)

    def to_boost(self) -> Any:
        """Return a ``boost_histogram.Histogram``.

        Axes get the attributes ``name`` and ``label``. Axes whose bins have different labels become ``StrCategory``,
        which has no underflow bin; empty bins behind those with labels are left out. The storage is ``Weight`` if there
        are sums of squared weights, ``WeightedMean`` for profiles, ``Int64`` for integers and ``Double`` for others.

        Returns
        -------
        boost_histogram.Histogram
            The histogram.

        Raises
        ------
        MissingDependencyError
            If boost-histogram is not installed.
        """
        bh = optional("boost_histogram", "hist")
        moments = self._core.moments()
        values = self.values(flow=True)
        if moments is not None:
            storage = bh.storage.WeightedMean()
        elif self.weighted:
            storage = bh.storage.Weight()
        else:
            storage = bh.storage.Int64() if values.dtype.kind == "i" else bh.storage.Double()
        n_labels = [self._n_labels(i) for i in range(self.ndim)]
        axes = (_boost_axis(bh, axis, n) for axis, n in zip(self.axes, n_labels, strict=True))
        out = bh.Histogram(*axes, storage=storage)
        out.name, out.label = self.name, self.title
        # the bin behind the labels is the one of overflows
        inside = tuple(slice(1, n + 2) if n else slice(None) for n in n_labels)
        view = out.view(flow=True)
        if moments is not None:
            fields = ("sum_of_weights", "sum_of_weights_squared", "value", "_sum_of_weighted_deltas_squared")
            for field, numbers in zip(fields, moments, strict=True):
                view[field] = self._shaped(_doubles(numbers), flow=True)[inside]
        elif self.weighted:
            view["value"] = values[inside]
            view["variance"] = self.variances(flow=True)[inside]
        else:
            view[...] = values[inside]
        return out

    def _n_labels(self, axis: int) -> int:
        """Return the number of labels at the beginning of an axis, if all other bins are empty; else 0.

        ROOT doubles the number of bins when there are more labels than bins.
        """
        labels = self.axes[axis].labels
        n = next((i for i, label in enumerate(labels) if label is None), len(labels))
        own = labels[:n]
        if len(set(own)) < n or any(label is not None for label in labels[n:]):
            return 0
        behind = slice(n + 1, None if n < len(labels) else n + 1)
        arrays = [self.values(flow=True), self.variances(flow=True)]
        return 0 if any(np.any(np.moveaxis(it, axis, 0)[behind]) for it in arrays) else n

    def to_hist(self) -> Any:
        """Return a ``hist.Hist``; see `to_boost`.

        Returns
        -------
        hist.Hist
            The histogram.

        Raises
        ------
        MissingDependencyError
            If hist is not installed.
        """
        return optional("hist", "hist").Hist(self.to_boost())

    def _to_boost_histogram_(self) -> Any:
        return self.to_boost()

    def show(self, log: bool = False) -> None:
        """Print a drawing, for one axis.

        Parameters
        ----------
        log : bool
            Whether the contents are logarithmic.
        """
        sys.stdout.write(self._core.text(shutil.get_terminal_size().columns, log))

    def _repr_html_(self) -> str | None:
        return self._core.svg(False) if self.ndim == 1 else None

    def __add__(self, other: Any) -> Histogram:
        """Return the sum with this or another kind of histogram.

        It is made as by hadd and `merge`: axes with labels or with other limits are extended.
        """
        from femtobarn._files.to_histogram import is_histogram, to_histogram

        if type(other) is int and other == 0:
            return self  # of `sum`
        if not is_histogram(other):
            return NotImplemented
        return Histogram(self._core.plus(to_histogram(other, self.name)))

    __radd__ = __add__

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._core.to_bytes(), self.name)

    def __repr__(self) -> str:
        axes = ", ".join(repr(axis)[1:-1] for axis in self.axes)
        title = f" {self.title!r}" if self.title else ""
        return f"<{self.classname} {self.name!r}{title}, {self.entries:,.6g} entries; {axes}>"


def _restored(stored: bytes, name: str) -> Histogram:
    return Histogram(_core.Histogram.of_bytes(stored, name))


def _doubles(stored: bytes) -> NDArray[np.float64]:
    return np.frombuffer(stored, ">f8").astype(np.float64)


def _boost_axis(bh: Any, axis: HistogramAxis, n_labels: int) -> Any:
    if n_labels:
        out = bh.axis.StrCategory(axis.labels[:n_labels])
    elif axis.is_regular:
        out = bh.axis.Regular(len(axis), axis.edges[0], axis.edges[-1])
    else:
        out = bh.axis.Variable(axis.edges)
    out.name, out.label = axis.name, axis.title
    return out


def histogram(files: Files, name: str | None = None, *, storage_options: Mapping[str, Any] | None = None) -> Histogram:
    """Read a histogram or a profile.

    Parameters
    ----------
    files : str, path, dict or list
        The file and the name, as ``"file.root:folder/h"`` or ``"file.root:h;2"``; a URL, a glob or a list, as for
        `open`. The histograms of several files are added, as `merge` adds them.
    name : str, optional
        The name, if it is not part of `files`. May be left out if the file has only one histogram.
    storage_options : dict, optional
        Settings for access to servers, as for `open`.

    Returns
    -------
    Histogram
        The histogram.

    Raises
    ------
    KeyNotFoundError
        If there is no such histogram; the message lists names of the file.
    UsageError
        If the object is not a histogram, if no name is given and the file has several, or if histograms of several
        files cannot be added.

    See Also
    --------
    histograms : Read all histograms of a file.

    Examples
    --------
    >>> import femtobarn as fb
    >>> fb.histogram("testdata/histograms.root", "labels")
    <TH1D 'labels' 'labels', 3 entries; xaxis: 4 bins from 0 to 4>
    """
    out = None
    for path, inside in resolve(files, storage_options):
        if name is not None and inside is not None and name != inside:
            raise UsageError(f"two names are given for the histogram of {path}: {inside!r} and {name!r}")
        opened = _core.Histograms.open(path, _settings(storage_options))
        found = Histogram(opened.read([inside if name is None else name])[0][1])
        out = found if out is None else out + found
    assert out is not None  # resolve returns at least one file
    return out


def histograms(
    files: Files, filter_name: Filter = None, *, storage_options: Mapping[str, Any] | None = None
) -> dict[str, Histogram]:
    """Read all histograms and profiles of a file, in one vector read.

    Parameters
    ----------
    files : str, path or list
        The file: a path, a URL, a glob or a list, as for `open`, without names of objects. Histograms of several files
        with equal paths are added, as `merge` adds them.
    filter_name : str, function or list, optional
        Which paths are wanted, as for `NTuple.keys`.
    storage_options : dict, optional
        Settings for access to servers, as for `open`.

    Returns
    -------
    dict
        Paths in the file, as "folder/h", and histograms: the newest cycle of each.

    Examples
    --------
    >>> import femtobarn as fb
    >>> list(fb.histograms("testdata/histograms.root", filter_name="*labels"))
    ['labels', 'other_labels']
    """
    accept = compile_filter(filter_name)
    out: dict[str, Histogram] = {}
    for path, inside in resolve(files, storage_options):
        if inside is not None:
            raise UsageError(f"give files without names of objects, not {path}:{inside}; histogram reads one")
        opened = _core.Histograms.open(path, _settings(storage_options))
        wanted: list[str | None] = [name for name, _ in opened.paths() if accept is None or accept(name)]
        for name, core in opened.read(wanted):
            found = Histogram(core)
            out[name] = out[name] + found if name in out else found
    return out


def _settings(storage_options: Mapping[str, Any] | None) -> dict[str, str]:
    return {} if storage_options is None else settings_of(storage_options)
