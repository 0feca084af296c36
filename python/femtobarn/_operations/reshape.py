"""Copying a file with some of its fields and entries, or with another layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex

from femtobarn._files.entries import entry_slice
from femtobarn._files.lumi_mask import LumiMask
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
    object_size: str | SupportsIndex | None = None,
    others: str = "same",
    overwrite: bool = False,
    verify: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> MergeReport:
    """Copy some fields or entries of ntuples without decompressing pages (slim).

    Pages are shared with the source if the file system supports it, and copied otherwise. Clusters are rebuilt only at
    the borders of a range of entries.

    Parameters
    ----------
    source : str, path, dict or list
        The files to copy, as for `merge`.
    output : str or path
        The output file.
    fields : str or list of str, optional
        The top-level fields to take; ``*`` and ``?`` are wildcards.
    entries : slice, range or pair of int, optional
        The entries to take from each ntuple of a single file, with step 1: ``slice(1000, 2000)``, ``range(1000)``.
        Negative numbers in a slice or a pair count from the end; numbers beyond the end are allowed.
    level : str
        As for `merge`.
    object_size : str or int, optional
        As for `merge`.
    others : str
        How to treat objects that are neither ntuples nor histograms: "same" and "first" copy them; "drop" leaves them
        out; "error".
    overwrite : bool
        Whether to replace an existing output file; the source is never replaced.
    verify : bool
        Whether to read the output again and compare it with the source before it appears; the result is the `proof` of
        the report.
    threads : int, optional
        Number of threads; by default the variable FEMTOBARN_THREADS, or else the number of cores.
    progress : bool, optional
        Whether to show a progress bar; by default only on a terminal and in a notebook.
    storage_options : dict, optional
        Settings for access to servers, for inputs and output, as for `open`.

    Returns
    -------
    MergeReport
        The report.

    Raises
    ------
    FemtobarnError
        If a file cannot be read or written: no output is left then.

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
    return run("cloning", source, output, given, sizes(None, None, object_size), common)


@known_options()
def reshape(
    source: Files,
    output: str | os.PathLike[str],
    *,
    compression: Any = None,
    page_size: str | SupportsIndex | None = None,
    cluster_size: str | SupportsIndex | None = None,
    object_size: str | SupportsIndex | None = None,
    encoding: str | None = None,
    precision: Mapping[str, int | tuple[int, float, float]] | None = None,
    fields: str | Iterable[str] | None = None,
    others: str = "same",
    overwrite: bool = False,
    verify: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> MergeReport:
    """Copy ntuples with another layout. Each change does only the work that it needs.

    A compression recompresses pages (L2), an encoding or a precision encodes them anew (L3), sizes rebuild pages or
    clusters (L4). Everything else is unchanged. Values are the same, except with another `precision`.

    Parameters
    ----------
    source : str, path, dict or list
        The files to copy, as for `merge`.
    output : str or path
        The output file.
    compression : str or int, optional
        The compression of all pages (see `recreate`).
    page_size : str or int, optional
        Maximum uncompressed size of a page, in bytes; clusters are unchanged without `cluster_size`.
    cluster_size : str or int, optional
        Approximate compressed size of a cluster, in bytes: small clusters are combined, large ones are split.
    object_size : str or int, optional
        Size of objects, if the output is written as objects; see `FileWriter.mkrntuple`.
    encoding : str, optional
        "split": separates the bytes of numbers and stores offsets as differences, for better compression; "plain": as
        in memory.
    precision : dict, optional
        Names of fields (with dots for members, and the wildcards ``*`` and ``?``) and how their floats are stored:
        ``{"Muon_pt": 12}`` keeps the upper 12 bits of single precision (Real32Trunc), ``{"Muon_phi": (16, -3.15,
        3.15)}`` stores the position in this range with 16 bits (Real32Quant). Values outside of the range are errors.
        If several names match a field, the first one is used.
    fields : str or list of str, optional
        The top-level fields to take; ``*`` and ``?`` are wildcards.
    others : str
        How to treat objects that are neither ntuples nor histograms: "same" and "first" copy them; "drop" leaves them
        out; "error".
    overwrite : bool
        Whether to replace an existing output file; the source is never replaced.
    verify : bool
        Whether to read the output again and compare it with the source before it appears; the result is the `proof` of
        the report.
    threads : int, optional
        Number of threads; by default the variable FEMTOBARN_THREADS, or else the number of cores.
    progress : bool, optional
        Whether to show a progress bar; by default only on a terminal and in a notebook.
    storage_options : dict, optional
        Settings for access to servers, for inputs and output, as for `open`.

    Returns
    -------
    MergeReport
        The report.

    Raises
    ------
    FemtobarnError
        If a value does not fit its new precision, or a file cannot be read or written: no output is left then.

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
    write |= sizes(None, None, object_size)
    if encoding is not None:
        if encoding not in ("split", "plain"):
            raise UsageError(f"encoding must be 'split' or 'plain', not {encoding!r}")
        given["split"] = encoding == "split"
    if precision is not None:
        given["precision"] = [_stored(name, stored) for name, stored in precision.items()]
    if compression is None and not given:
        raise UsageError("no change requested: pass compression, page_size, cluster_size, encoding or precision")
    given["verify"] = verify
    common = Common(fields, compression, others, overwrite, threads, progress, storage_options)
    return run("reshaping", source, output, given, write, common)


@known_options()
def skim(
    source: Files,
    output: str | os.PathLike[str],
    where: str | LumiMask,
    *,
    fields: str | Iterable[str] | None = None,
    compression: Any = None,
    cluster_size: str | SupportsIndex | None = None,
    page_size: str | SupportsIndex | None = None,
    object_size: str | SupportsIndex | None = None,
    others: str = "same",
    overwrite: bool = False,
    verify: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> MergeReport:
    """Copy the entries that satisfy a condition, from one or several files (skim).

    The columns of the condition are read first; from other columns, only pages with selected entries are read. Small
    clusters that remain are combined into large ones. If no ntuple is named, the condition selects from all ntuples and
    trees that have its columns, and others, such as ``Runs`` of NanoAOD, are copied as a whole.

    Parameters
    ----------
    source : str, path, dict or list
        The files to select from, as for `merge`.
    output : str or path
        The output file.
    where : str or LumiMask
        The condition, in the syntax of C++ or Python: ``"nMuon >= 2 && Muon_pt[0] > 20"``, ``"any(Jet_pt > 30)"``. The
        guide on expressions lists operators and functions.
    fields : str or list of str, optional
        The top-level fields to take; ``*`` and ``?`` are wildcards. The fields of the condition need not be among them.
        Ntuples that have none of them, or are copied as a whole, keep all fields.
    compression : str or int, optional
        The compression of all pages (see `recreate`); by default each column keeps its compression.
    cluster_size, page_size : str or int, optional
        Compressed size of a cluster and uncompressed size of a page, in bytes; by default as for `recreate`.
    object_size : str or int, optional
        Size of objects, if the output is written as objects; see `FileWriter.mkrntuple`.
    others : str
        How to treat objects that are neither ntuples nor histograms: "same" keeps those that are the same in all files,
        and raises an error if some differ; "first" takes the first of each name; "error"; "drop" leaves them out.
    overwrite : bool
        Whether to replace an existing output file; a source is never replaced.
    verify : bool
        Whether to read the output again and compare it with the source before it appears; the result is the `proof` of
        the report.
    threads : int, optional
        Number of threads; by default the variable FEMTOBARN_THREADS, or else the number of cores.
    progress : bool, optional
        Whether to show a progress bar; by default only on a terminal and in a notebook.
    storage_options : dict, optional
        Settings for access to servers, for inputs and output, as for `open`.

    Returns
    -------
    MergeReport
        The report.

    Raises
    ------
    FemtobarnError
        If the condition is invalid, or a file cannot be read or written: no output is left then.

    Examples
    --------
    >>> import femtobarn as fb
    >>> report = fb.skim(dimuon, tmp / "three.root", "nMuon >= 3", fields="Muon_*")
    >>> report.entries["Events"] < 12000
    True
    """
    if not isinstance(where, (str, LumiMask)):
        raise UsageError(f'where must be a condition as a string, such as "nMuon >= 2", not {where!r}')
    given: dict[str, Any] = {"where": str(where), "verify": verify}
    write = sizes(cluster_size, page_size, object_size)
    common = Common(fields, compression, others, overwrite, threads, progress, storage_options)
    return run("skimming", source, output, given, write, common)


def _stored(name: str, stored: int | tuple[int, float, float]) -> tuple[str, int, tuple[float, float] | None]:
    match stored:
        case int(bits):
            return name, bits, None
        case (int(bits), low, high):
            return name, bits, (float(low), float(high))
        case _:
            raise UsageError(f"precision of {name!r} is not a number of bits or (bits, least, largest): {stored!r}")
