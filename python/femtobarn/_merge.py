"""Merging: files into one, whose pages are those of the inputs wherever they can be."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from femtobarn import _core
from femtobarn._compat import known_options
from femtobarn._open import resolve
from femtobarn._output import compression_settings, plain_path
from femtobarn._patterns import patterns
from femtobarn._progress import Progress
from femtobarn._repr import plural
from femtobarn._steps import num_threads
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._open import Files

__all__ = ["MergeReport", "merge"]


@dataclass(frozen=True, repr=False)
class MergeReport:
    """What a merge did.

    Parameters
    ----------
    output : str
        The file that was made.
    entries : dict of str to int
        Number of entries of each ntuple in it.
    bytes_out : int
        Its size.
    levels : dict of str to int
        Bytes of pages by the level that brought them: "L0" in blocks shared with the inputs, "L1" copied, "L2"
        recompressed, "L3" encoded anew, "zeros" for fields that an input does not have, and "refused": copied, though
        they were to be shared, as the file system refused.
    shared_bytes : int or None
        Bytes of the output that share blocks with other files, as the file system says (FIEMAP); None if it does not.
    inputs : list of dict
        What came of each input, with all details.
    seconds : float
        The time that it took.
    """

    output: str
    entries: dict[str, int]
    bytes_out: int
    levels: dict[str, int]
    shared_bytes: int | None
    seconds: float
    inputs: list[dict[str, Any]] = field(default_factory=list)

    def __repr__(self) -> str:
        levels = ", ".join(f"{level}: {n}" for level, n in self.levels.items() if n)
        entries = ", ".join(f"{name}: {n}" for name, n in self.entries.items())
        return (
            f"<MergeReport {self.output!r} from {plural(len(self.inputs), 'file')}: {entries}; bytes by level {levels}>"
        )


@known_options()
def merge(
    files: Files,
    output: str | os.PathLike[str],
    *,
    level: str = "auto",
    mode: str = "filter",
    fields: str | Iterable[str] | None = None,
    compression: Any = None,
    others: str = "error",
    compatible: bool = True,
    overwrite: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
) -> MergeReport:
    """Merge files into one: the ntuples of each name, one after another.

    Pages are those of the inputs wherever they can be. On file systems that can (XFS, btrfs), their blocks are shared
    with the inputs, so that the time does not depend on the amount of data. The output appears under its name only
    when it is complete.

    Parameters
    ----------
    files : str, path, dict or list
        What to merge, as for `open`: all ntuples of a file, or the one that is named.
    output : str or path
        The file to make.
    level : str
        What is done with pages, by the levels of ROOT's merging: "L0" shares blocks, and is an error where that is not
        possible; "L1" copies; "L2" recompresses what has another `compression`; "auto" takes the cheapest of these
        that keeps the result right, and encodes pages anew where nothing else does.
    mode : str
        Which fields the files must have: "filter", all of the first one, others are left out; "union", any, they are
        zero, empty or missing where a file has none; "strict", the same.
    fields : str or list of str, optional
        The top-level fields to take; ``*`` and ``?`` stand for any characters.
    compression : str or int, optional
        What all pages are to be compressed with (see `recreate`); by default each keeps what it has.
    others : str
        What is done with objects that are no ntuples: "error"; "first", the first of each name is taken; "drop", they
        are left out.
    compatible : bool
        Whether only what ROOT 6.40 and uproot 5.7 read is written: pages of another encoding than the first file's are
        encoded anew. Otherwise their columns become further representations of their fields, as ROOT 6.42 does.
    overwrite : bool
        Whether the output replaces a file that is there already; an input is never replaced.
    threads : int, optional
        Number of threads; by default the variable FEMTOBARN_THREADS, or else all cores.
    progress : bool, optional
        Whether a bar is shown; by default only on a terminal and in a notebook.

    Returns
    -------
    MergeReport
        What was done.

    Raises
    ------
    FemtobarnError
        If the files do not fit together, or something cannot be read or written: then there is no output.

    Examples
    --------
    >>> import femtobarn as fb
    >>> report = fb.merge([dimuon, dimuon], tmp / "both.root", others="drop")
    >>> report.entries
    {'Events': 24000}
    """
    pairs = resolve(files)
    if not pairs:
        raise UsageError("there is nothing to merge")
    given = {
        "level": level,
        "mode": mode,
        "fields": patterns("fields", fields),
        "others": others,
        "compatible": compatible,
        "overwrite": overwrite,
    }
    write: dict[str, Any] = {"threads": num_threads(threads)}
    if compression is not None:
        given["compression"] = write["compression"] = compression_settings(compression)
    path = plain_path(output)
    with Progress(f"merging into {Path(path).name}", progress) as bar:

        def tick(num_files: int, all_files: int, done: int, total: int) -> None:
            bar.tick(done, total)

        found = json.loads(_core.merge(pairs, path, given, write, tick))
    return MergeReport(
        output=found["output"],
        entries={name: ntuple["entries"] for name, ntuple in found["ntuples"].items()},
        bytes_out=found["bytes_out"],
        levels=found["levels"],
        shared_bytes=found["shared_bytes"],
        seconds=found["seconds"],
        inputs=found["inputs"],
    )
