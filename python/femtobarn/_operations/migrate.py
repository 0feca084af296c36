"""Moving ntuples between files, servers and object stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex

from femtobarn import _core
from femtobarn._files.entries import entry_slice
from femtobarn._operations.left_behind import LeftBehind, left_behind_of, left_behind_text
from femtobarn._operations.merge import Common, found_by, sizes
from femtobarn._shared.compat import known_options
from femtobarn._shared.patterns import patterns
from femtobarn._shared.steps import num_bytes

if TYPE_CHECKING:
    import os

    from femtobarn._files.open import Files

__all__ = ["MigrateReport", "migrate"]


@dataclass(frozen=True, repr=False)
class MigrateReport:
    """The result of a migration, for one output.

    Parameters
    ----------
    output : str
        The output.
    inputs : list of str
        The inputs of its ntuples.
    entries : dict of str to int
        Number of entries of each ntuple.
    entries_before : int
        How many of them an earlier migration had written, which was resumed.
    was_complete : bool
        Whether an earlier migration had completed the output, so that nothing was done.
    levels : dict of str to int
        Bytes of pages by the level at which they were handled, as in a `MergeReport`.
    bytes_out : int
        Size of the output, in bytes; for objects, of those that this migration wrote.
    seconds : float
        Elapsed time, in seconds.
    left_behind : tuple of LeftBehind
        Objects of the inputs that are not in the output, such as histograms.
    proof : dict or None
        The result of the comparison with the inputs, if it was requested.
    delivery : dict or None
        For an output on a server, how it was sent, as in a `MergeReport`.
    """

    output: str
    inputs: list[str]
    entries: dict[str, int]
    entries_before: int
    was_complete: bool
    levels: dict[str, int]
    bytes_out: int
    seconds: float
    left_behind: tuple[LeftBehind, ...] = ()
    proof: dict[str, Any] | None = None
    delivery: dict[str, Any] | None = None

    def __repr__(self) -> str:
        entries = ", ".join(f"{name}: {n}" for name, n in self.entries.items())
        before = f" ({self.entries_before} before)" if self.entries_before else ""
        left = f"; {left_behind_text(self.left_behind)}" if self.left_behind else ""
        return f"<MigrateReport {self.output!r}: {entries}{before}{left}>"


@known_options()
def migrate(
    source: Files,
    destination: str | os.PathLike[str],
    *,
    fields: str | Iterable[str] | None = None,
    entries: slice | range | tuple[int | None, int | None] | None = None,
    compression: Any = None,
    cluster_size: str | SupportsIndex | None = None,
    page_size: str | SupportsIndex | None = None,
    object_size: str | SupportsIndex | None = None,
    step_size: str | SupportsIndex | None = None,
    resume: bool = False,
    overwrite: bool = False,
    verify: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[MigrateReport]:
    """Move ntuples between files, servers and object stores.

    Pages are copied as they are, unless a compression or a size is requested. What is read is written at the same time,
    with bounded memory. A migration goes in steps: if it is killed, it can be resumed after the last complete step.

    Parameters
    ----------
    source : str, path, dict or list
        The ntuples, as for `open`: all of each file, or only the named one.
    destination : str or path
        The output: a file, or ``ntpl+s3://bucket/prefix`` for the objects of one ntuple. With a slash at the end, or if
        it is an existing directory, it gets a file for each source, or objects for each ntuple. ``:NAME`` after the URL
        of objects or of a container of DAOS is the name of the ntuple there.
    fields : str or list of str, optional
        The top-level fields to take; ``*`` and ``?`` are wildcards.
    entries : slice, range or pair of int, optional
        The entries to take from a single ntuple, as for `clone`.
    compression : str or int, optional
        The compression of all pages (see `recreate`); by default it is unchanged.
    cluster_size, page_size : str or int, optional
        Compressed size of a cluster and uncompressed size of a page, in bytes; by default they are unchanged.
    object_size : str or int, optional
        Size of objects, if the output is written as objects; see `FileWriter.mkrntuple`.
    step_size : str or int, optional
        Stored bytes after which a step ends, at a border of clusters; by default 256 MiB.
    resume : bool
        Whether to continue outputs that a killed or failed migration has begun with the same options, and to skip those
        that it has completed. What it has begun is found where the output is to be. Files for servers are made in the
        directory for temporary files (the setting `spool_folder`); if sending was interrupted, they are sent again.
    overwrite : bool
        Whether to replace existing outputs; a source is never replaced.
    verify : bool
        Whether to read each output before it appears and compare it with its sources; the result is the `proof` of its
        report.
    threads : int, optional
        Number of threads; by default the variable FEMTOBARN_THREADS, or else the number of cores.
    progress : bool, optional
        Whether to show a progress bar; by default only on a terminal and in a notebook.
    storage_options : dict, optional
        Settings for access to servers, for inputs and output, as for `open`.

    Returns
    -------
    list of MigrateReport
        A report for each output.

    Raises
    ------
    FemtobarnError
        If a source cannot be read, or an output exists or cannot be written; earlier outputs are complete then.

    Examples
    --------
    >>> import femtobarn as fb
    >>> (report,) = fb.migrate(dimuon, f"ntpl+file://{tmp}/dimuon", object_size="page", verify=True)
    >>> report.entries
    {'Events': 12000}
    """
    write = sizes(cluster_size, page_size)
    given: dict[str, Any] = {"verify": verify, "fields": patterns("fields", fields)}
    if write:
        given |= {"level": "L4", "keep_clusters": cluster_size is None}
    write |= sizes(None, None, object_size)
    if entries is not None:
        given["entries"] = entry_slice(entries)
    steps = None if step_size is None else num_bytes(step_size)
    work = partial(_core.migrate, resume=resume, step_size=steps)
    common = Common(fields, compression, "drop", overwrite, threads, progress, storage_options)
    found = found_by(work, "migrating", source, destination, given, write, common)
    return [MigrateReport(**one | {"left_behind": left_behind_of(one["left_behind"])}) for one in found]
