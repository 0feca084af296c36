"""The origin of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from femtobarn._files.ntuple import NTuple
    from femtobarn._files.reading import Readable

__all__ = ["Report"]


@dataclass(frozen=True, repr=False)
class Report:
    """The file and the entries of one batch. The attributes have the names of uproot.

    Parameters
    ----------
    source : NTuple or Field
        The object that is iterated over.
    file_path : str
        Path of the file of the batch.
    object_path : str
        Name of the ntuple in that file.
    tree_entry_start, tree_entry_stop : int
        First entry of the batch and the one after its last, counted from the start of the ntuple in the file.
    global_offset : int
        Number of entries in all previous files.
    dataset : str or None
        The dataset of the fileset that the file belongs to.
    metadata : dict
        The metadata of the dataset.

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
    dataset: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def tree(self) -> NTuple:
        """The ntuple that is iterated over."""
        return self.source.ntuple

    @property
    def global_entry_start(self) -> int:
        """First entry of the batch, counted from the start of the first file of the iteration."""
        return self.tree_entry_start + self.global_offset

    @property
    def global_entry_stop(self) -> int:
        """The entry after the last one of the batch, counted from the start of the first file of the iteration."""
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
        """Return the same report with a larger offset.

        Parameters
        ----------
        global_offset : int
            Number of entries to add to the offset.

        Returns
        -------
        Report
            A new report.
        """
        return replace(self, global_offset=self.global_offset + global_offset)

    def __repr__(self) -> str:
        return f"<Report start={self.start} stop={self.stop} source={self.file_path + ':' + self.object_path!r}>"
