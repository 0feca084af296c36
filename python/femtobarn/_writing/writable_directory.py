"""Directories of ROOT files that are being written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from femtobarn.errors import UsageError

if TYPE_CHECKING:
    from femtobarn._writing.file_writer import FileWriter
    from femtobarn._writing.ntuple_writer import NTupleWriter

__all__ = ["WritableDirectory", "parts_of"]


def parts_of(path: Any) -> list[str]:
    """Return the parts of a path: names of directories, and the last name.

    Parameters
    ----------
    path : str
        Names separated by slashes.

    Returns
    -------
    list of str
        The names; an empty list for the top directory of the file.

    Raises
    ------
    UsageError
        If it is not a string.
    """
    if not isinstance(path, str):
        raise UsageError(
            f"names must be strings, as in f.mkrntuple('Events', batch_or_spec) or f['folder/Events'], not a "
            f"{type(path).__name__}"
        )
    return [name for name in path.split("/") if name]


class WritableDirectory:
    """A directory of a ROOT file that is being written, from `FileWriter.mkdir` or ``file["folder"]``.

    All names are relative to the directory.

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
        """The file of the directory."""
        return self._file

    @property
    def path(self) -> str:
        """The path of the directory in the file, with slashes."""
        return self._path

    def mkdir(self, path: str) -> WritableDirectory:
        """Create a directory in this one; see `FileWriter.mkdir`.

        Parameters
        ----------
        path : str
            Names separated by slashes.

        Returns
        -------
        WritableDirectory
            The directory.
        """
        return self._file.mkdir(self._inside(path))

    def keys(self) -> list[str]:
        """Return the names of objects and directories in the directory, without ntuples that are not closed yet.

        Returns
        -------
        list of str
            The names.
        """
        return self._file.keys(self._path)

    def mkrntuple(self, name: str, batch_or_spec: Any, description: str = "", **options: Any) -> NTupleWriter:
        """Create an ntuple in the directory; see `FileWriter.mkrntuple`.

        Parameters
        ----------
        name : str
            Name of the ntuple; it may begin with directories.
        batch_or_spec : dict, Arrow schema, Awkward type, or data
            The fields and their types.
        description : str
            A description of the ntuple.
        **options
            The same as for `FileWriter.mkrntuple`.

        Returns
        -------
        NTupleWriter
            The ntuple.
        """
        return self._file.mkrntuple(self._inside(name), batch_or_spec, description, **options)

    def __getitem__(self, name: str) -> NTupleWriter | WritableDirectory:
        """Return the ntuple with this name that is being written, or the directory."""
        return self._file[self._inside(name)]

    def __setitem__(self, name: str, data: Any) -> None:
        """Write data as a complete ntuple with this name; an existing ntuple stays as an older cycle."""
        self._file[self._inside(name)] = data

    def __contains__(self, name: str) -> bool:
        """Return whether an object or a directory has this name; ntuples that are not closed yet do not count."""
        return self._inside(name) in self._file

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names that `keys` returns."""
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
