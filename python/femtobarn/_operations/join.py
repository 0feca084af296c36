"""Joining: fields of several ntuples side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from femtobarn import _core
from femtobarn._files.entries import joining
from femtobarn._files.ntuple import NTuple
from femtobarn._operations.merge import Common, MergeReport, call
from femtobarn._shared.compat import known_options
from femtobarn.errors import UsageError

if TYPE_CHECKING:
    import os

    from femtobarn._files.open import Files

__all__ = ["join_columns"]


@known_options()
def join_columns(
    files: Files,
    output: str | os.PathLike[str],
    *,
    on: str | Iterable[str] | None = None,
    fields: Sequence[str | Iterable[str] | None] | None = None,
    unmatched: str = "error",
    name: str | None = None,
    others: str = "error",
    compression: Any = None,
    overwrite: bool = False,
    verify: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> MergeReport:
    """Put the fields of ntuples side by side into one ntuple (a horizontal merge, as friends of a tree).

    Without `on`, entries of the same number belong together. Where all ntuples have the same clusters, their pages are
    shared or copied; elsewhere, and where entries are matched, clusters are made anew.

    Parameters
    ----------
    files : str, path, dict or list
        The ntuples, two or more, as for `open`: ``["a.root:Events", "b.root:Friends"]``.
    output : str or path
        The file to make.
    on : str or list of str, optional
        Fields of integers that all ntuples have, such as ``["run", "luminosityBlock", "event"]``: entries belong
        together where these are equal. The output has the entries of the first ntuple, in its order. A key that one of
        the others has twice is an error.
    fields : list, optional
        For each ntuple, the top-level fields to take, as a name or a list of them (``*`` and ``?`` stand for any
        characters); None for all. A name that two ntuples have must be left out of one, but for fields of `on`: these
        are taken once, from the first ntuple that is asked for them, and are not in the output if none is.
    unmatched : str
        What becomes of entries of the first ntuple that another one does not have: "error"; "drop", they are left out,
        and counted in the report.
    name : str, optional
        The name of the ntuple that is made, with its directories (``"nano/Events"``); by default that of the first.
    others : str
        What is done with attribute sets of one name in several ntuples, unless they are equal, and with what is in a
        file beside an ntuple that is not named (``"a.root"``; of ``"a.root:Events"`` nothing else is asked for):
        "error"; "first", the first of each name is taken; "drop", it is left out, and so are all attribute sets.
        Attribute sets go along with the entries that they speak of. Nothing is added up. What is left out is in the
        report.
    compression : str or int, optional
        What all pages are to be compressed with (see `recreate`); by default each keeps what it has.
    overwrite : bool
        Whether the output replaces a file that is there already; an input is never replaced.
    verify : bool
        Whether the output is read again and compared with the ntuples before it appears, as
        ``open(output).verify(against=files, beside=True, ...)`` does; what that found is in the report's `proof`.
    threads : int, optional
        Number of threads; by default the variable FEMTOBARN_THREADS, or else all cores.
    progress : bool, optional
        Whether a bar is shown; by default only on a terminal and in a notebook.
    storage_options : dict, optional
        Settings of how servers are asked, for inputs and output, as for `open`.

    Returns
    -------
    MergeReport
        What was done. Entries of other ntuples than the first that belong to none are counted, too, in the `dropped` of
        its `inputs`.

    Raises
    ------
    FemtobarnError
        If entries or names do not fit together, or something cannot be read or written: then there is no output.

    Examples
    --------
    >>> import femtobarn as fb
    >>> one, two = {"event": [1, 2], "pt": [20.5, 30.5]}, {"event": [2, 1], "weight": [0.5, 2.0]}
    >>> fb.write(tmp / "events.root", one, name="Events"), fb.write(tmp / "friends.root", two, name="Friends")
    (2, 2)
    >>> report = fb.join_columns([tmp / "events.root", tmp / "friends.root"], tmp / "joined.root", on="event")
    >>> fb.open(tmp / "joined.root").arrays(library="np")["weight"]
    array([2. , 0.5])
    """
    for each in files if isinstance(files, (list, tuple)) else [files]:
        if isinstance(each, NTuple) and len(each.files) > 1:
            raise UsageError(f"{each.name!r} is in {len(each.files)} files: merge them first, and join that")
    given = joining(on, fields, unmatched) | {"others": others, "verify": verify}
    if name is not None:
        given["name"] = name
    common = Common(None, compression, others, overwrite, threads, progress, storage_options)
    return call(_core.join_columns, "joining", files, output, given, {}, common)
