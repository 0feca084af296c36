"""Merging: files into one, whose pages are those of the inputs wherever they can be."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from femtobarn import _core
from femtobarn._files.open import resolve, settings_of
from femtobarn._operations.left_behind import LeftBehind, left_behind_of, left_behind_text
from femtobarn._shared.compat import known_options
from femtobarn._shared.output import compression_settings, plain_path
from femtobarn._shared.patterns import patterns
from femtobarn._shared.progress import Progress
from femtobarn._shared.repr import plural
from femtobarn._shared.steps import num_bytes, num_threads
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._files.open import Files

__all__ = ["Common", "MergeReport", "call", "merge", "run", "sizes"]


@dataclass(frozen=True, repr=False)
class MergeReport:
    """What a merge did.

    Parameters
    ----------
    output : str
        The file that was made or added to.
    entries : dict of str to int
        Number of entries of each ntuple that was made or added to.
    bytes_out : int
        Its size.
    levels : dict of str to int
        Bytes of pages by the level that brought them: "L0" in blocks shared with the inputs, "L1" copied, "L2"
        recompressed, "L3" encoded anew, "L4" taken apart for clusters that are made anew (bytes of the input), "zeros"
        for fields that an input does not have, and "refused": copied, though they were to be shared, as the file system
        refused.
    shared_bytes : int or None
        Bytes of the output that share blocks with other files, as the file system says (FIEMAP); None if it does not.
    inputs : list of dict
        What came of each input, with all details.
    left_behind : tuple of LeftBehind
        Objects and fields of the inputs that are not in the output.
    seconds : float
        The time that it took.
    bytes_before : int or None
        The size that it had before, if it was added to; None if it was made.
    entries_before : dict of str to int
        Number of entries that each of these ntuples had before.
    histograms : int
        Number of histograms in the output, which are sums of those of the inputs.
    proof : dict or None
        What the comparison with the inputs found, if there was one.
    delivery : dict or None
        Of an output on a server: "bytes" that were sent, "seconds" that it took, and by what the server's file was
        "compared" with it: "size", "bytes" (all were read back), or the kind of the server's checksum, as "adler32".
    """

    output: str
    entries: dict[str, int]
    bytes_out: int
    levels: dict[str, int]
    shared_bytes: int | None
    seconds: float
    inputs: list[dict[str, Any]] = field(default_factory=list)
    bytes_before: int | None = None
    entries_before: dict[str, int] = field(default_factory=dict)
    histograms: int = 0
    proof: dict[str, Any] | None = None
    delivery: dict[str, Any] | None = None
    left_behind: tuple[LeftBehind, ...] = ()

    def __repr__(self) -> str:
        levels = ", ".join(f"{level}: {n}" for level, n in self.levels.items() if n)
        before = self.entries_before if self.bytes_before is not None else {}
        added = {name: f" ({n} before)" for name, n in before.items()}
        entries = ", ".join(f"{name}: {n}{added.get(name, '')}" for name, n in self.entries.items())
        left = f"; {left_behind_text(self.left_behind)}" if self.left_behind else ""
        inputs = plural(len(self.inputs), "file")
        return f"<MergeReport {self.output!r} from {inputs}: {entries}; bytes by level {levels}{left}>"


@known_options()
def merge(
    files: Files,
    output: str | os.PathLike[str],
    *,
    level: str = "auto",
    mode: str = "filter",
    fields: str | Iterable[str] | None = None,
    compression: Any = None,
    cluster_size: str | SupportsIndex | None = None,
    page_size: str | SupportsIndex | None = None,
    others: str = "error",
    compatible: bool = True,
    overwrite: bool = False,
    append: bool = False,
    verify: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> MergeReport:
    """Merge files into one: the ntuples of each name, one after another, and the sums of histograms.

    Pages are those of the inputs wherever they can be. On file systems that can (XFS, btrfs), their blocks are shared
    with the inputs, so that the time does not depend on the amount of data. The output appears under its name only
    when it is complete.

    Parameters
    ----------
    files : str, path, dict or list
        What to merge, as for `open`: all ntuples of a file, or the one that is named.
    output : str or path
        The file to make, or with `append` to add to. One of a server (``root://``, ``https://``, ``davs://``, ``s3://``,
        ``gs://``, ``az://``) is made in the folder for temporary files (the setting `spool_folder`), and sent when it
        is complete.
    level : str
        What is done with pages, by the levels of ROOT's merging: "L0" shares blocks, and is an error where that is not
        possible; "L1" copies; "L2" recompresses what has another `compression`; "L3" encodes for the compression what
        is encoded otherwise; "L4" rebuilds pages and clusters, so that small clusters grow to their size; "auto" takes
        the cheapest of these that keeps the result right.
    mode : str
        Which fields the files must have: "filter", all of the first one, others are left out; "union", any, they are
        zero, empty or missing where a file has none; "strict", the same.
    fields : str or list of str, optional
        The top-level fields to take; ``*`` and ``?`` stand for any characters.
    compression : str or int, optional
        What all pages are to be compressed with (see `recreate`); by default each keeps what it has.
    cluster_size, page_size : str or int, optional
        Compressed bytes of a cluster and uncompressed bytes of a page, where they are made anew; by default as
        `recreate`.
    others : str
        What is done with objects that are neither ntuples nor histograms: "error"; "first", the first of each name is
        taken; "drop", they are left out. Histograms and profiles are added up, as ROOT's hadd does.
    compatible : bool
        Whether only what ROOT 6.40 and uproot 5.7 read is written: pages of another encoding than the first file's are
        encoded anew. Otherwise their columns become further representations of their fields, as ROOT 6.42 does.
    overwrite : bool
        Whether the output replaces a file that is there already; an input is never replaced.
    append : bool
        Whether the files are added to an output that is there already, without reading its data: its ntuples are
        continued, and others begun. `mode` compares the files with the ntuples of the output. Until all is there,
        everybody sees what was there before, whatever happens. An output that is not there is made.
    verify : bool
        Whether a new output is read again and compared with the files before it appears, as
        ``open(output).verify(against=files)`` does; what that found is in the report's `proof`.
    threads : int, optional
        Number of threads; by default the variable FEMTOBARN_THREADS, or else all cores.
    progress : bool, optional
        Whether a bar is shown; by default on a terminal and in a notebook. True shows lines now and then elsewhere.
    storage_options : dict, optional
        Settings of how servers are asked, for inputs and output, as for `open`.

    Returns
    -------
    MergeReport
        What was done.

    Raises
    ------
    FemtobarnError
        If the files do not fit together, or something cannot be read or written: then there is no output, or that
        which was there is as it was.

    Examples
    --------
    >>> import femtobarn as fb
    >>> report = fb.merge([dimuon, dimuon], tmp / "both.root", others="drop")
    >>> report.entries
    {'Events': 24000}
    """
    given = {"level": level, "mode": mode, "compatible": compatible, "append": append, "verify": verify}
    write = sizes(cluster_size, page_size)
    common = Common(fields, compression, others, overwrite, threads, progress, storage_options)
    return run("merging", files, output, given, write, common)


def sizes(cluster_size: str | SupportsIndex | None, page_size: str | SupportsIndex | None) -> dict[str, int]:
    """Return the sizes of what is made anew, as the core takes them.

    Parameters
    ----------
    cluster_size, page_size : str or int, optional
        As users give them.

    Returns
    -------
    dict of str to int
        Those that are given.

    Raises
    ------
    UsageError
        If one is no number of bytes, or none at all.

    Examples
    --------
    >>> from femtobarn._operations.merge import sizes
    >>> sizes("1 MB", None)
    {'cluster_size': 1000000}
    """
    out = {}
    for name, size in (("cluster_size", cluster_size), ("page_size", page_size)):
        if size is not None:
            out[name] = min(num_bytes(size), 2**60)
            if out[name] < 1:
                raise UsageError(f"{name} is at least one byte, not {size!r}")
    return out


@dataclass(frozen=True)
class Common:
    """What all that brings pages to a new file has: options of `merge`, as users give them."""

    fields: str | Iterable[str] | None
    compression: Any
    others: str
    overwrite: bool
    threads: int | None
    progress: bool | None
    storage_options: Mapping[str, Any] | None = None


def run(
    verb: str,
    files: Files,
    output: str | os.PathLike[str],
    given: dict[str, Any],
    write: dict[str, Any],
    common: Common,
) -> MergeReport:
    """Bring files to a new one.

    Parameters
    ----------
    verb : str
        What is being done, for the bar.
    files : str, path, dict or list
        What to bring.
    output : str or path
        The file to make.
    given, write : dict
        Options of the core, for merging and for writing.
    common : Common
        More of them.

    Returns
    -------
    MergeReport
        What was done.
    """
    given |= {"fields": patterns("fields", common.fields), "others": common.others}
    return call(_core.merge, verb, files, output, given, write, common)


def call(
    work: Callable[..., str],
    verb: str,
    files: Files,
    output: str | os.PathLike[str],
    given: dict[str, Any],
    write: dict[str, Any],
    common: Common,
) -> MergeReport:
    """Call a function of the core, with what `run` has; give its report."""
    settings = {} if common.storage_options is None else settings_of(common.storage_options)
    pairs = resolve(files, settings)
    if not pairs:
        raise UsageError("there is nothing to merge")
    given |= {"overwrite": common.overwrite, "settings": settings}
    write["threads"] = num_threads(common.threads)
    if common.compression is not None:
        given["compression"] = write["compression"] = compression_settings(common.compression)
    path = plain_path(output, "second")
    with Progress(f"{verb} into {Path(_core.public_url(path)).name}", common.progress) as bar:

        def tick(num_files: int, all_files: int, done: int, total: int) -> None:
            bar.tick(done, total)

        found = json.loads(work(pairs, path, given, write, tick))
    return MergeReport(
        output=found["output"],
        entries={name: ntuple["entries"] for name, ntuple in found["ntuples"].items()},
        bytes_out=found["bytes_out"],
        levels=found["levels"],
        shared_bytes=found["shared_bytes"],
        seconds=found["seconds"],
        inputs=found["inputs"],
        bytes_before=found["bytes_before"],
        entries_before={name: ntuple["entries_before"] for name, ntuple in found["ntuples"].items()},
        histograms=found["histograms"],
        proof=found["proof"],
        delivery=found["delivery"],
        left_behind=left_behind_of(found["left_behind"]),
    )
