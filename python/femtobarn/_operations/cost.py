"""What an ntuple costs in an object store, in its present layout and in others, and which shape suits a destination."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

from femtobarn import _core
from femtobarn._files.explain import Value
from femtobarn._files.open import resolve, settings_of
from femtobarn._shared.compat import known_options
from femtobarn._shared.patterns import patterns
from femtobarn._shared.repr import format_bytes, format_table, plural
from femtobarn._shared.steps import num_bytes, num_threads
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._files.open import Files

__all__ = ["Advice", "Costs", "LayoutCost", "advise", "cost"]


@dataclass(frozen=True)
class LayoutCost(Value):
    """The cost of an ntuple in one layout.

    Parameters
    ----------
    layout : str
        "present", the `object_size` of another one ("page", "256 KiB", ..., "cluster"), or ".root" for a ROOT file as
        one object.
    objects, bytes : int
        Number of objects, without the anchor, and their size in bytes.
    foreign_objects, foreign_bytes : int
        Number and size of objects of other ntuples that a merged ntuple refers to. They are read in a pass, but do not
        count as written and stored.
    puts, gets_before_and_after : int
        Requests that write it, and requests that check before and after whether the objects exist.
    requests, bytes_read : int
        Requests of a pass, and the bytes that they fetch, without the anchor.
    metadata_requests, metadata_bytes : int
        Those of them that open the ntuple or fetch page lists.
    bytes_needed : int
        Size of the pages of a pass, without gaps between them.
    write_price, pass_price : float
        Price of the requests that write it, and of those of a pass.
    month_price : float
        Price of storage for a month.
    transfer_out_price : float
        Price of transferring the bytes of a pass to the internet.
    write_price_per_tb, pass_price_per_tb : float
        Price of the requests to write, and to read, 1 TB in this way.
    """

    layout: str
    objects: int
    bytes: int
    foreign_objects: int
    foreign_bytes: int
    puts: int
    gets_before_and_after: int
    requests: int
    bytes_read: int
    metadata_requests: int
    metadata_bytes: int
    bytes_needed: int
    write_price: float
    pass_price: float
    month_price: float
    transfer_out_price: float
    write_price_per_tb: float
    pass_price_per_tb: float


@dataclass(frozen=True, repr=False)
class Costs(Value):
    """The costs of an ntuple, as returned by `cost`.

    Parameters
    ----------
    url, ntuple : str
        The file or the base of the objects, and the name of the ntuple.
    num_entries : int
        Number of entries.
    columns : tuple of str or None
        The fields that a pass reads; None for all, or if the pass is that of a trace.
    recorded : int or None
        How often the file was opened in the trace, if the pass is that of a trace.
    prices : dict
        The prices, with the keys of their file.
    layouts : tuple of LayoutCost
        The present layout, then the others.
    notes : tuple of str
        Further remarks.
    """

    url: str
    ntuple: str
    num_entries: int
    columns: tuple[str, ...] | None
    recorded: int | None
    prices: Mapping[str, Any]
    layouts: tuple[LayoutCost, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def _of(cls, text: str) -> Costs:
        """Return the costs of a document of the core."""
        values = json.loads(text)
        layouts = values.pop("layouts")
        costs = cls._from_core({**values, "layouts": ()})
        object.__setattr__(costs, "layouts", tuple(LayoutCost._from_core(layout) for layout in layouts))
        return costs

    def __getitem__(self, layout: str) -> LayoutCost:
        for found in self.layouts:
            if found.layout == layout:
                return found
        names = ", ".join(repr(found.layout) for found in self.layouts)
        raise UsageError(f"no layout {layout!r}: the layouts are {names}")

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as a dict of plain values, which JSON can represent.

        Returns
        -------
        dict
            One item per number; "layouts" is a list of dicts.
        """
        return {**super().to_dict(), "layouts": [layout.to_dict() for layout in self.layouts]}

    def __repr__(self) -> str:
        header = ("layout", "objects", "stored", "PUT", "write", "month", "GET", "read", "pass", "write/TB", "pass/TB")
        currency = self.prices["currency"]
        rows = [
            (
                it.layout,
                f"{it.objects:,}",
                format_bytes(it.bytes),
                f"{it.puts:,}",
                f"{it.write_price:.3g}",
                f"{it.month_price:.3g}",
                f"{it.requests:,}",
                format_bytes(it.bytes_read),
                f"{it.pass_price:.3g}",
                f"{it.write_price_per_tb:.3g}",
                f"{it.pass_price_per_tb:.3g}",
            )
            for it in self.layouts
        ]
        lines = [
            f"Costs of {self.url}:{self.ntuple}, {plural(self.num_entries, 'entry')}, in {currency}",
            format_table(header, rows, right=range(1, len(header))),
            *(f"note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)


@known_options()
def cost(
    files: Files,
    *,
    columns: str | Iterable[str] | None = None,
    trace: str | os.PathLike[str] | None = None,
    prices: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Costs:
    """Compute what an ntuple costs in an object store, as it is and with other sizes of objects.

    Only metadata are read. The numbers of objects, requests and bytes are those of real writes (copies of the pages as
    they are) and of real reads (one read of all entries). A file is counted as one object.

    Parameters
    ----------
    files : str or path
        The file or the objects, and the name of the ntuple, as for `open`.
    columns : str or list of str, optional
        Fields that a pass reads, and patterns with ``*``, ``?`` and ``[abc]``; by default all.
    trace : str or path, optional
        A trace of this file (see `record`), in place of `columns`: a pass reads the pages that were read then, once for
        each time that the file was opened. Pages that were read to bridge a gap count, too.
    prices : str or path, optional
        A TOML file with prices; by default those of Amazon S3 in eu-west-3.
    storage_options : dict, optional
        Settings for access to servers, as for `open`.

    Returns
    -------
    Costs
        The costs of each layout.

    Raises
    ------
    UsageError
        If several files are given, the ntuple is a TTree, prices are invalid, or both `columns` and `trace` are given.
    KeyNotFoundError
        If a name or a pattern matches no field.

    See Also
    --------
    NTuple.explain : The requests of one read.

    Examples
    --------
    >>> import femtobarn as fb
    >>> costs = fb.cost(dimuon, columns=["nMuon", "Muon_pt"])
    >>> [layout.layout for layout in costs.layouts]
    ['present', 'page', '256 KiB', '1 MiB', '4 MiB', '16 MiB', '64 MiB', 'cluster']
    >>> costs["page"].objects > costs["1 MiB"].objects
    True
    """
    file, name = _one_of(files, storage_options)
    return Costs._of(_core.cost(file, name, **_options(columns, trace, prices, storage_options)))


def _one_of(files: Files, storage_options: Mapping[str, Any] | None) -> tuple[str, str | None]:
    """Return the only file, and the name in it."""
    pairs = resolve(files, storage_options)
    if len(pairs) != 1:
        raise UsageError(f"expected one file, not {len(pairs)}")
    return pairs[0]


def _options(
    columns: str | Iterable[str] | None,
    trace: str | os.PathLike[str] | None,
    prices: str | os.PathLike[str] | None,
    storage_options: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return what `cost` and `advise` share, as arguments of the core."""
    if columns is not None and trace is not None:
        raise UsageError("give either columns or a trace, not both")
    return {
        "columns": [columns] if isinstance(columns, str) else list(columns or ()),
        "trace": None if trace is None else os.fspath(trace),
        "prices": None if prices is None else os.fspath(prices),
        "settings": settings_of(storage_options or {}),
    }


@dataclass(frozen=True, repr=False)
class Advice(Value):
    """Which shape suits a destination, as returned by `advise`.

    Parameters
    ----------
    destination : str
        "file", "remote file", "object" (a file in a bucket), "objects" or "daos".
    options : dict of str to str
        The shape, as keyword arguments of `migrate`: `compression`, `cluster_size`, `page_size`, and `object_size` if
        the destination has objects.
    expected : dict of str to float
        What is expected of it: `clusters`, `objects`, `puts` (requests that write it), `bytes`; of a pass, `requests`,
        `bytes_read` and `seconds`; and for an object store the `price` of writing, a pass and a month.
    trials : tuple of dict
        For each codec, `compression` and the `speed` at which a thread decompressed the sample, in bytes per second.
    reasons : tuple of str
        Why this shape: what the alternatives would give.
    text : str
        All of this, as printed.
    """

    destination: str
    options: Mapping[str, str]
    expected: Mapping[str, float]
    trials: tuple[Mapping[str, Any], ...]
    reasons: tuple[str, ...]
    text: str

    def __repr__(self) -> str:
        return self.text.rstrip()


@known_options()
def advise(
    source: Files,
    destination: str | os.PathLike[str],
    *,
    columns: str | Iterable[str] | None = None,
    trace: str | os.PathLike[str] | None = None,
    fields: str | Iterable[str] | None = None,
    prices: str | os.PathLike[str] | None = None,
    round_trip: float | None = None,
    bandwidth: str | SupportsIndex | None = None,
    workers: int | None = None,
    threads: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Advice:
    """Compute which codec and which sizes suit an ntuple at a destination; nothing is written.

    The metadata and a sample of at most 16 MiB of pages are read. A model of requests, bytes, time and money is applied
    to all combinations of codecs, sizes of clusters and sizes of objects. The result is the cheapest of those whose
    pass takes at most 10 % longer than the fastest. Pages get the largest size with which a writer can fill those of
    all columns at once.

    Parameters
    ----------
    source : str or path
        The file or the objects, and the name of the ntuple, as for `open`.
    destination : str or path
        The output, as for `migrate`. It is not accessed: only the kind of its store counts.
    columns, trace : optional
        What a pass reads, as for `cost`.
    fields : str or list of str, optional
        The top-level fields to take, as for `migrate`.
    prices : str or path, optional
        A TOML file with prices, as for `cost`.
    round_trip : float, optional
        Time until a request gets its first byte, in seconds; by default 0.02, or 0.0001 for file systems and DAOS.
    bandwidth : str or int, optional
        Bytes per second of all requests together; by default 1 GB.
    workers : int, optional
        Number of processes that share a pass, each of which needs a cluster; by default 8.
    threads : int, optional
        Number of threads that decompress, in each; by default the variable FEMTOBARN_THREADS, or else the number of
        cores.
    storage_options : dict, optional
        Settings for access to servers, as for `open`.

    Returns
    -------
    Advice
        The shape, and what is expected of it.

    Raises
    ------
    UsageError
        If several files are given, the ntuple is a TTree, prices are invalid, or both `columns` and `trace` are given.
    KeyNotFoundError
        If a name or a pattern matches no field.

    See Also
    --------
    cost : The exact costs of the present pages in objects of other sizes.

    Examples
    --------
    >>> import femtobarn as fb
    >>> advice = fb.advise(dimuon, "ntpl+s3://bucket/dimuon", columns=["nMuon", "Muon_pt"])
    >>> list(advice.options)
    ['cluster_size', 'compression', 'object_size', 'page_size']
    >>> (report,) = fb.migrate(dimuon, f"ntpl+file://{tmp}/shaped", **advice.options)
    """
    file, name = _one_of(source, storage_options)
    if round_trip is not None and not 0 <= round_trip < 1e6:
        raise UsageError(f"round_trip must be a number of seconds, not {round_trip!r}")
    if workers is not None and workers < 1:
        raise UsageError(f"workers must be at least 1, not {workers!r}")
    passes = {
        "destination": os.fspath(destination),
        "fields": patterns("fields", fields),
        "round_trip": round_trip,
        "bandwidth": None if bandwidth is None else float(num_bytes(bandwidth)),
        "workers": workers,
        "threads": num_threads(threads),
    }
    document, text = _core.advise(file, name, passes, **_options(columns, trace, prices, storage_options))
    return Advice._from_core({**json.loads(document), "text": text})
