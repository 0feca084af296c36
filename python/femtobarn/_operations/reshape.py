"""A file from another one: with some of its fields and entries, or in another shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex

from femtobarn._files.entries import entry_slice
from femtobarn._operations.merge import Common, MergeReport, run, sizes
from femtobarn._shared.compat import known_options
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    import os

    from femtobarn._files.open import Files

__all__ = ["clone", "reshape", "skim"]


@known_options()
def clone(
    source: Files,
    output: str | os.PathLike[str],
    *,
    fields: str | Iterable[str] | None = None,
    entries: slice | range | tuple[int | None, int | None] | None = None,
    level: str = "auto",
    others: str = "first",
    overwrite: bool = False,
    verify: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> MergeReport:
    """Copy ntuples with some of their fields, or some of their entries, without decompressing pages.

    Pages are shared with the source where the file system can, and copied elsewhere. Only clusters that a range of
    entries cuts are made anew.

    Parameters
    ----------
    source : str, path, dict or list
        What to copy, as for `merge`.
    output : str or path
        The file to make.
    fields : str or list of str, optional
        The top-level fields to take; ``*`` and ``?`` stand for any characters.
    entries : slice, range or pair of int, optional
        The entries to take of each ntuple of one file, in steps of one: ``slice(1000, 2000)``, ``range(1000)``. Numbers
        of a slice or a pair count from the end if they are below zero; what is beyond the end is left out.
    level : str
        As for `merge`.
    others : str
        What is done with objects that are no ntuples: "first", they are copied; "drop", they are left out; "error".
    overwrite : bool
        Whether the output replaces a file that is there already; the source is never replaced.
    verify : bool
        Whether the output is read again and compared with the source before it appears; what that found is in the
        report's `proof`.
    threads : int, optional
        Number of threads; by default the variable FEMTOBARN_THREADS, or else all cores.
    progress : bool, optional
        Whether a bar is shown; by default only on a terminal and in a notebook.
    storage_options : dict, optional
        Settings of how servers are asked, for inputs and output, as for `open`.

    Returns
    -------
    MergeReport
        What was done.

    Raises
    ------
    FemtobarnError
        If something cannot be read or written: then there is no output.

    Examples
    --------
    >>> import femtobarn as fb
    >>> report = fb.clone(dimuon, tmp / "pt.root", fields="Muon_*", entries=range(1000))
    >>> report.entries
    {'Events': 1000}
    """
    given: dict[str, Any] = {"level": level, "verify": verify}
    if entries is not None:
        given["entries"] = entry_slice(entries)
    common = Common(fields, None, others, overwrite, threads, progress, storage_options)
    return run("cloning", source, output, given, {}, common)


@known_options()
def reshape(
    source: Files,
    output: str | os.PathLike[str],
    *,
    compression: Any = None,
    page_size: str | SupportsIndex | None = None,
    cluster_size: str | SupportsIndex | None = None,
    encoding: str | None = None,
    precision: Mapping[str, int | tuple[int, float, float]] | None = None,
    fields: str | Iterable[str] | None = None,
    others: str = "first",
    overwrite: bool = False,
    verify: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> MergeReport:
    """Copy ntuples in another shape; each change costs only what it needs.

    A compression alone recompresses pages (L2), an encoding or a precision encodes them anew (L3), sizes rebuild pages
    or clusters (L4). What is not named stays as it is. Values are the same, but for those of another `precision`.

    Parameters
    ----------
    source : str, path, dict or list
        What to copy, as for `merge`.
    output : str or path
        The file to make.
    compression : str or int, optional
        What all pages are to be compressed with (see `recreate`).
    page_size : str or int, optional
        Uncompressed bytes of a page, at most; clusters stay as they are if nothing is said of them.
    cluster_size : str or int, optional
        Compressed bytes of a cluster, about: small ones are joined, large ones are cut.
    encoding : str, optional
        "split": the bytes of numbers apart, offsets as differences, as is good for compression; "plain": as in memory.
    precision : dict, optional
        Names of fields (with dots for members, ``*`` and ``?`` for any characters) and how their reals are stored:
        ``{"Muon_pt": 12}`` keeps the upper 12 bits of single precision (Real32Trunc), ``{"Muon_phi": (16, -3.15,
        3.15)}`` stores 16 bits' fraction of that range (Real32Quant); values outside of a range are errors. Of several
        names that fit a field, the first counts.
    fields : str or list of str, optional
        The top-level fields to take; ``*`` and ``?`` stand for any characters.
    others : str
        What is done with objects that are no ntuples: "first", they are copied; "drop", they are left out; "error".
    overwrite : bool
        Whether the output replaces a file that is there already; the source is never replaced.
    verify : bool
        Whether the output is read again and compared with the source before it appears; what that found is in the
        report's `proof`.
    threads : int, optional
        Number of threads; by default the variable FEMTOBARN_THREADS, or else all cores.
    progress : bool, optional
        Whether a bar is shown; by default only on a terminal and in a notebook.
    storage_options : dict, optional
        Settings of how servers are asked, for inputs and output, as for `open`.

    Returns
    -------
    MergeReport
        What was done.

    Raises
    ------
    FemtobarnError
        If a value does not fit its new precision, or something cannot be read or written: then there is no output.

    Examples
    --------
    >>> import femtobarn as fb
    >>> report = fb.reshape(dimuon, tmp / "small.root", compression="zstd:9", precision={"Muon_eta": 12})
    >>> report.levels["L3"] > 0
    True
    """
    given: dict[str, Any] = {}
    write = sizes(cluster_size, page_size)
    if write:
        given |= {"level": "L4", "keep_clusters": cluster_size is None}
    if encoding is not None:
        if encoding not in ("split", "plain"):
            raise UsageError(f"encoding is 'split' or 'plain', not {encoding!r}")
        given["split"] = encoding == "split"
    if precision is not None:
        given["precision"] = [_stored(name, stored) for name, stored in precision.items()]
    if compression is None and not given:
        raise UsageError("nothing is to be changed: give compression, page_size, cluster_size, encoding or precision")
    given["verify"] = verify
    common = Common(fields, compression, others, overwrite, threads, progress, storage_options)
    return run("reshaping", source, output, given, write, common)


@known_options()
def skim(
    source: Files,
    output: str | os.PathLike[str],
    where: str,
    *,
    fields: str | Iterable[str] | None = None,
    compression: Any = None,
    cluster_size: str | SupportsIndex | None = None,
    page_size: str | SupportsIndex | None = None,
    others: str = "first",
    overwrite: bool = False,
    verify: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> MergeReport:
    """Copy the entries of which a condition is true, of one or several files.

    The columns of the condition are read first, of the others only the pages with entries that are taken. What is left
    of small clusters is gathered into large ones.

    Parameters
    ----------
    source : str, path, dict or list
        What to select from, as for `merge`.
    output : str or path
        The file to make.
    where : str
        The condition, as it is typed in C++ or Python: ``"nMuon >= 2 && Muon_pt[0] > 20"``, ``"any(Jet_pt > 30)"``.
        The guide on expressions says what there is.
    fields : str or list of str, optional
        The top-level fields to take; ``*`` and ``?`` stand for any characters. Those of the condition need not be among
        them.
    compression : str or int, optional
        What all pages are to be compressed with (see `recreate`); by default each column keeps what it has.
    cluster_size, page_size : str or int, optional
        Compressed bytes of a cluster and uncompressed bytes of a page; by default as `recreate`.
    others : str
        What is done with objects that are no ntuples: "first", they are copied; "drop", they are left out; "error".
    overwrite : bool
        Whether the output replaces a file that is there already; a source is never replaced.
    verify : bool
        Whether the output is read again and compared with the source before it appears; what that found is in the
        report's `proof`.
    threads : int, optional
        Number of threads; by default the variable FEMTOBARN_THREADS, or else all cores.
    progress : bool, optional
        Whether a bar is shown; by default only on a terminal and in a notebook.
    storage_options : dict, optional
        Settings of how servers are asked, for inputs and output, as for `open`.

    Returns
    -------
    MergeReport
        What was done.

    Raises
    ------
    FemtobarnError
        If the condition makes no sense, or something cannot be read or written: then there is no output.

    Examples
    --------
    >>> import femtobarn as fb
    >>> report = fb.skim(dimuon, tmp / "three.root", "nMuon >= 3", fields="Muon_*")
    >>> report.entries["Events"] < 12000
    True
    """
    if not isinstance(where, str):
        raise UsageError(f'where is a condition as a text, such as "nMuon >= 2", not {where!r}')
    given: dict[str, Any] = {"where": where, "verify": verify}
    write = sizes(cluster_size, page_size)
    common = Common(fields, compression, others, overwrite, threads, progress, storage_options)
    return run("skimming", source, output, given, write, common)


def _stored(name: str, stored: int | tuple[int, float, float]) -> tuple[str, int, tuple[float, float] | None]:
    match stored:
        case int(bits):
            return name, bits, None
        case (int(bits), low, high):
            return name, bits, (float(low), float(high))
        case _:
            raise UsageError(f"precision of {name!r} is a number of bits, or (bits, least, largest), not {stored!r}")
