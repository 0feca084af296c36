"""What an ntuple costs in an object store, in its present layout and in others."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from femtobarn import _core
from femtobarn._files.explain import Value
from femtobarn._files.open import resolve, settings_of
from femtobarn._shared.compat import known_options
from femtobarn._shared.repr import format_bytes, format_table, plural
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._files.open import Files

__all__ = ["Costs", "LayoutCost", "cost"]


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
    pairs = resolve(files, storage_options)
    if len(pairs) != 1:
        raise UsageError(f"cost takes one file, not {len(pairs)}")
    if columns is not None and trace is not None:
        raise UsageError("give either columns or a trace, not both")
    names = [columns] if isinstance(columns, str) else list(columns or ())
    (file, name) = pairs[0]
    text = _core.cost(
        file,
        name,
        columns=names,
        trace=None if trace is None else os.fspath(trace),
        prices=None if prices is None else os.fspath(prices),
        settings=settings_of(storage_options or {}),
    )
    return Costs._of(text)
