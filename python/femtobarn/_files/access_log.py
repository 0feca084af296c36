"""What lazy reads have learned and what they have cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from femtobarn._files.explain import Value
from femtobarn._shared.repr import format_bytes, plural

if TYPE_CHECKING:
    from femtobarn._core import Accesses

__all__ = ["AccessLog", "access_log_of"]


@dataclass(frozen=True, repr=False)
class AccessLog(Value):
    """The columns that a function touched in virtual arrays, and what reading them has cost.

    Columns are named by the fields that have them in the file; the offsets of lists end with ``[]``.

    Parameters
    ----------
    function : str
        The function that reads.
    schema : str
        A hash of the names and types of all fields: files with the same schema share a record.
    main : tuple of str
        The columns that a step fetches at once: at least half of the last 8 steps touched them.
    triggered : tuple of str
        The other columns that the last 64 steps touched. They are fetched together when one of them is touched.
    learned_steps : int
        Number of steps that the record has learned from, those of earlier runs included.
    steps : int
        Number of steps of this process that have ended and touched something.
    fetches : int
        Number of fetches, each of columns that belong together.
    bytes_fetched, bytes_unused : int
        Stored size of the fetched columns, and of those among them that were not touched until their step ended.

    Examples
    --------
    >>> import femtobarn as fb
    >>> nt = fb.open(dimuon)
    >>> for events in nt.iterate(virtual=True, step_size=4000):
    ...     _ = events.nMuon + 1
    >>> (log,) = nt.access_log
    >>> log.steps, log.fetches
    (3, 3)
    """

    function: str
    schema: str
    main: tuple[str, ...] = ()
    triggered: tuple[str, ...] = ()
    learned_steps: int = 0
    steps: int = 0
    fetches: int = 0
    bytes_fetched: int = 0
    bytes_unused: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that the last steps touched."""
        return tuple(sorted((*self.main, *self.triggered)))

    def __repr__(self) -> str:
        return (
            f"<AccessLog {self.function}: {plural(len(self.main), 'column')} at once, "
            f"{len(self.triggered)} if touched; "
            f"{plural(self.steps, 'step')}, {format_bytes(self.bytes_fetched)} in {plural(self.fetches, 'fetch')}, "
            f"{format_bytes(self.bytes_unused)} unused>"
        )


def access_log_of(accesses: Accesses, function: str) -> AccessLog:
    """Return the log of a record.

    Parameters
    ----------
    accesses : Accesses
        The record of the core.
    function : str
        The function that it belongs to.

    Returns
    -------
    AccessLog
        Its present state.
    """
    found = accesses.log()
    columns = found.pop("columns")
    found["main"] = tuple(name for name, is_main in columns if is_main)
    found["triggered"] = tuple(name for name, is_main in columns if not is_main)
    return AccessLog._from_core({**found, "function": function})
