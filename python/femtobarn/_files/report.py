"""Where a batch comes from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from femtobarn._files.ntuple import NTuple
    from femtobarn._files.reading import Readable

__all__ = ["Report"]


@dataclass(frozen=True, repr=False)
class Report:
    """The file and the entries of one batch; the names are uproot's.

    Parameters
    ----------
    source : NTuple or Field
        What is iterated over.
    file_path : str
        Path of the file that the batch is from.
    object_path : str
        Name of the ntuple in that file.
    tree_entry_start, tree_entry_stop : int
        First entry of the batch and the one after its last, from the start of the file's ntuple.
    global_offset : int
        Number of entries of all the files before.

    Examples
    --------
    >>> import femtobarn as fb
    >>> for batch, report in fb.open(dimuon).iterate(["nMuon"], step_size=5000, report=True):
    ...     print(report.start, report.stop)
    0 5000
    5000 10000
    10000 12000
    """

    source: Readable
    file_path: str
    object_path: str
    tree_entry_start: int
    tree_entry_stop: int
    global_offset: int = 0

    @property
    def tree(self) -> NTuple:
        """The ntuple that is iterated over."""
        return self.source.ntuple

    @property
    def global_entry_start(self) -> int:
        """First entry of the batch, from the start of the iteration's first file."""
        return self.tree_entry_start + self.global_offset

    @property
    def global_entry_stop(self) -> int:
        """The entry after the last of the batch, from the start of the iteration's first file."""
        return self.tree_entry_stop + self.global_offset

    @property
    def start(self) -> int:
        """Another name of `global_entry_start`."""
        return self.global_entry_start

    @property
    def stop(self) -> int:
        """Another name of `global_entry_stop`."""
        return self.global_entry_stop

    def to_global(self, global_offset: int) -> Report:
        """Return the same report with more entries before it.

        Parameters
        ----------
        global_offset : int
            Number of entries to add to `global_offset`.

        Returns
        -------
        Report
            A new report.
        """
        return replace(self, global_offset=self.global_offset + global_offset)

    def __repr__(self) -> str:
        return f"<Report start={self.start} stop={self.stop} source={self.file_path + ':' + self.object_path!r}>"
