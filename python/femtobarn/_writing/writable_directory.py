"""Directories of ROOT files that are being written, and the paths of what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._writing.file_writer import FileWriter
    from femtobarn._writing.ntuple_writer import NTupleWriter

__all__ = ["WritableDirectory", "parts_of"]


def parts_of(path: Any) -> list[str]:
    """Return the names in a path: those of directories, and the last.

    Parameters
    ----------
    path : str
        Names with slashes between.

    Returns
    -------
    list of str
        The names; none of the file's own directory.

    Raises
    ------
    UsageError
        If it is no string.
    """
    if not isinstance(path, str):
        raise UsageError(
            f"names are strings, as in f.mkrntuple('Events', batch_or_spec) or f['folder/Events'], not a "
            f"{type(path).__name__}"
        )
    return [name for name in path.split("/") if name]


class WritableDirectory:
    """A directory of a ROOT file that is being written; `FileWriter.mkdir` makes it, ``file["folder"]`` finds it.

    All names are relative to it.

    Examples
    --------
    >>> import femtobarn as fb
    >>> with fb.recreate(tmp / "folders.root") as f:
    ...     folder = f.mkdir("runs/late")
    ...     folder["Runs"] = {"run": [1, 2]}
    >>> fb.open(f"{tmp}/folders.root:runs/late/Runs").num_entries
    2
    """

    def __init__(self, file: FileWriter, path: str) -> None:
        self._file = file
        self._path = path

    @property
    def file(self) -> FileWriter:
        """The file that it is in."""
        return self._file

    @property
    def path(self) -> str:
        """Its path in the file: names with slashes between."""
        return self._path

    def mkdir(self, path: str) -> WritableDirectory:
        """Make a directory in this one; see `FileWriter.mkdir`.

        Parameters
        ----------
        path : str
            Names with slashes between.

        Returns
        -------
        WritableDirectory
            The directory.
        """
        return self._file.mkdir(self._inside(path))

    def keys(self) -> list[str]:
        """Return the names of objects and directories in it, without those of ntuples that are not closed yet.

        Returns
        -------
        list of str
            The names.
        """
        return self._file.keys(self._path)

    def mkrntuple(self, name: str, batch_or_spec: Any, description: str = "", **options: Any) -> NTupleWriter:
        """Begin an ntuple in it; see `FileWriter.mkrntuple`.

        Parameters
        ----------
        name : str
            Its name; directories may be in front.
        batch_or_spec : dict, Arrow schema, Awkward type, or data
            The fields and their types.
        description : str
            What the ntuple is, in words.
        **options
            As those of `FileWriter.mkrntuple`.

        Returns
        -------
        NTupleWriter
            The ntuple.
        """
        return self._file.mkrntuple(self._inside(name), batch_or_spec, description, **options)

    def __getitem__(self, name: str) -> NTupleWriter | WritableDirectory:
        """Return the ntuple of this name that is being written, or the directory."""
        return self._file[self._inside(name)]

    def __setitem__(self, name: str, data: Any) -> None:
        """Write data as an ntuple of this name, and complete it; one that is there stays as an older cycle."""
        self._file[self._inside(name)] = data

    def __contains__(self, name: str) -> bool:
        """Tell whether an object or a directory has this name; ntuples that are not closed yet have none."""
        return self._inside(name) in self._file

    def __iter__(self) -> Iterator[str]:
        """Give the names that `keys` returns."""
        return iter(self.keys())

    def __len__(self) -> int:
        """Return the number of names that `keys` returns."""
        return len(self.keys())

    def __repr__(self) -> str:
        return f"<WritableDirectory {self._path!r} of {self._file.file_path!r}>"

    def _inside(self, name: str) -> str:
        parts = parts_of(name)
        if not parts:
            raise UsageError(f"an ntuple or a directory in {self._path!r} needs a name")
        return "/".join([self._path, *parts])
