"""ROOT files that are being written."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

from femtobarn._shared.compat import known_options
from femtobarn._shared.output import compression_settings
from femtobarn._shared.steps import num_bytes, num_threads
from femtobarn._writing.ntuple_writer import NTupleWriter
from femtobarn._writing.spec import is_spec, to_fields
from femtobarn._writing.to_nodes import maps_of, to_batches
from femtobarn._writing.writable_directory import WritableDirectory, parts_of
from femtobarn.errors import FormatError, KeyNotFoundError, UsageError

if TYPE_CHECKING:
    from types import TracebackType

    from femtobarn import _core

__all__ = ["FileWriter"]


class FileWriter:
    """A ROOT file that is being written; `recreate`, `create` and `update` make it.

    It is completed by `close`, or at the end of a ``with`` block that has no error. Its methods may be called from
    several threads; they wait for each other.
    """

    def __init__(self, core: _core.FileWriter, compression: int, threads: int) -> None:
        self._core = core
        self._compression = compression
        self._threads = threads
        self._ntuples: list[NTupleWriter] = []

    @property
    def file_path(self) -> str:
        """Path of the file."""
        return self._core.url

    @property
    def closed(self) -> bool:
        """Whether it is complete, or given up."""
        return self._core.closed

    def mkdir(self, path: str) -> WritableDirectory:
        """Make a directory, and those above it; what is there already stays.

        Parameters
        ----------
        path : str
            Names with slashes between.

        Returns
        -------
        WritableDirectory
            The directory.

        Raises
        ------
        UsageError
            If an ntuple or another object has that name, or a name is ``.`` or ``..``, or has a semicolon or a control
            character.
        """
        parts = parts_of(path)
        if not parts:
            raise UsageError("a directory needs a name")
        self._check_directories(parts)
        self._core.directory("/".join(parts))
        return WritableDirectory(self, "/".join(parts))

    def keys(self, path: str = "") -> list[str]:
        """Return the names in a directory.

        Parameters
        ----------
        path : str
            Names of directories with slashes between; by default the file's own.

        Returns
        -------
        list of str
            Names of objects and directories, without those of ntuples that are not closed yet.

        Raises
        ------
        KeyNotFoundError
            If there is no such directory.
        """
        names = self._core.names("/".join(parts_of(path)))
        if names is None:
            raise KeyNotFoundError(f"there is no directory {path!r} in {self.file_path}")
        return names

    @known_options()
    def mkrntuple(
        self,
        name: str,
        batch_or_spec: Any,
        description: str = "",
        *,
        types: Mapping[str, Any] | None = None,
        compression: Any = ...,
        field_compression: Mapping[str, Any] | None = None,
        precision: Mapping[str, int | tuple[int, float, float]] | None = None,
        descriptions: Mapping[str, str] | None = None,
        projected: Mapping[str, Any] | None = None,
        cluster_size: str | SupportsIndex = "128 MiB",
        cluster_size_uncompressed: str | SupportsIndex = "1280 MiB",
        page_size: str | SupportsIndex = "1 MiB",
        memory_limit: str | SupportsIndex | None = None,
        max_key_size: str | SupportsIndex = "1 GiB",
        page_checksums: bool = True,
        same_page_merging: bool = True,
        clusters_per_group: int = 4096,
        new_cycle: bool = False,
        threads: int | None = None,
    ) -> NTupleWriter:
        """Begin an ntuple.

        Parameters
        ----------
        name : str
            Its name; directories may be in front, as "folder/Events".
        batch_or_spec : dict, Arrow schema, Awkward type, or data
            The fields and their types. A dict has names and types: of C++ ("std::vector<float>"), NumPy ("float32",
            ``np.int64``), Awkward ("var * float32"), `Class`, `Enum`, `Type`, `Cardinality`, `Projected`, or a dict for
            a record without a class. Of data, only the types are taken: `NTupleWriter.extend` writes it.
        description : str
            What the ntuple is, in words.
        types : dict, optional
            Of data: types of columns that shall have others than the data say, or whose data say none, as empty lists
            and columns of nothing but None: ``{"Muon_pt": "var * float32"}``. Types are given as in a specification.
        compression : str, int or None
            How it is compressed, by default as the file; see `recreate`.
        field_compression : dict, optional
            Names of fields, with dots between, that are compressed in another way.
        precision : dict, optional
            Names of fields whose reals are stored in fewer bits: ``{"Muon_pt": 12}`` keeps the upper 12 bits of single
            precision (Real32Trunc, 10 to 31), ``{"Muon_phi": (16, -3.15, 3.15)}`` stores 16 bits' fraction of that
            range (Real32Quant, 1 to 32); values outside of a range are errors, but for its bounds in single precision.
        descriptions : dict, optional
            Names of fields and what they are, in words.
        projected : dict, optional
            More fields, which are views: names, and `Cardinality` or `Projected`.
        cluster_size : str or int
            Compressed bytes of a cluster, about.
        cluster_size_uncompressed : str or int
            Uncompressed bytes of a cluster, at most.
        page_size : str or int
            Uncompressed bytes of a page, at most.
        memory_limit : str or int, optional
            Bytes of memory that writing may take besides the data that is given: clusters become smaller for it, and
            fewer threads work. Without a limit it is ``cluster_size + 208 MiB + threads * (5 * page_size + 24 MiB)``.
            An entry that is larger than 16 MiB takes its size twice in addition.
        max_key_size : str or int
            Largest record of the file; what is larger is stored in several.
        page_checksums : bool
            Whether each page has a checksum.
        same_page_merging : bool
            Whether pages of equal bytes are stored once in a cluster.
        clusters_per_group : int
            Clusters whose pages one page list has.
        new_cycle : bool
            Whether an ntuple of that name that is there already is hidden: it stays as an older cycle, "Events;1".
        threads : int, optional
            Number of threads that encode and compress; by default as the file.

        Returns
        -------
        NTupleWriter
            The ntuple.

        Raises
        ------
        UsageError
            If an ntuple has that name already, unless `new_cycle`; if something else has it; or if a type is none that
            RNTuple has.
        """
        parts = parts_of(name)
        if not parts:
            raise UsageError("an ntuple needs a name")
        directory, own = "/".join(parts[:-1]), parts[-1]
        if any(ntuple.path == (directory, own) and not ntuple.closed for ntuple in self._ntuples):
            raise UsageError(f"an ntuple {name!r} is being written already")
        self._check_directories(parts[:-1])
        dicts = {
            "field_compression": field_compression,
            "precision": precision,
            "descriptions": descriptions,
            "projected": projected,
            "types": types,
        }
        for what, given_dict in dicts.items():
            if given_dict is not None and not isinstance(given_dict, Mapping):
                raise UsageError(f"{what} is a dict with names of fields, not {given_dict!r}")
        given = None
        if is_spec(batch_or_spec):
            if types:
                raise UsageError("types are for data: a specification has them itself")
            fields = to_fields(batch_or_spec)
        else:
            known = to_fields(types) if types else None
            given = to_batches(batch_or_spec, maps_of(known))
            fields = given.fields(known)
        if projected:
            fields.extend(to_fields(projected))
        _adjust(fields, field_compression, precision, descriptions)
        options = {
            "compression": self._compression if compression is ... else compression_settings(compression),
            "cluster_size": num_bytes(cluster_size),
            "cluster_size_uncompressed": num_bytes(cluster_size_uncompressed),
            "page_size": num_bytes(page_size),
            "memory_limit": None if memory_limit is None else num_bytes(memory_limit),
            "max_key_size": num_bytes(max_key_size),
            "page_checksums": page_checksums,
            "same_page_merging": same_page_merging,
            "clusters_per_group": clusters_per_group,
            "new_cycle": bool(new_cycle),
            "threads": self._threads if threads is None else num_threads(threads),
            "description": description,
        }
        for option, value in options.items():
            if option.endswith(("size", "uncompressed", "group")) and isinstance(value, int) and value < 1:
                raise UsageError(f"{option} must be at least 1, not {value}")
        core = self._core.ntuple(directory, own, fields, options)
        ntuple = NTupleWriter(core, (directory, own), given, maps_of(fields))
        self._ntuples.append(ntuple)
        return ntuple

    def __getitem__(self, name: str) -> NTupleWriter | WritableDirectory:
        """Return the ntuple of this name that is being written, or the directory."""
        parts = parts_of(name)
        path = "/".join(parts)
        for ntuple in self._ntuples:
            if ntuple.path == ("/".join(parts[:-1]), *parts[-1:]) and not ntuple.closed:
                return ntuple
        if parts and self._core.names(path) is not None:
            return WritableDirectory(self, path)
        self._check_directories(parts[:-1])
        raise UsageError(
            f"no ntuple {name!r} is being written, and to one that is complete nothing can be added: begin it with "
            f"w = f.mkrntuple({name!r}, ...) and call w.extend(...) for each batch; for further entries write another "
            "file, and read both with fb.open([...]). A directory is made with f.mkdir"
        )

    def __contains__(self, name: str) -> bool:
        """Tell whether an object or a directory has this name; ntuples that are not closed yet have none."""
        parts = parts_of(name)
        return bool(parts) and parts[-1] in (self._core.names("/".join(parts[:-1])) or ())

    def __iter__(self) -> Iterator[str]:
        """Give the names that `keys` returns."""
        return iter(self.keys())

    def __len__(self) -> int:
        """Return the number of names that `keys` returns."""
        return len(self.keys())

    def _check_directories(self, parts: list[str]) -> None:
        """Raise if what these names lead through is there, and no directory."""
        for i, name in enumerate(parts):
            above, path = "/".join(parts[:i]), "/".join(parts[: i + 1])
            is_ntuple = any(ntuple.path == (above, name) for ntuple in self._ntuples)
            if not is_ntuple and (path in self and self._core.names(path) is None):
                try:
                    self._core.directory(path)
                except FormatError as error:
                    is_ntuple = str(error).endswith("ROOT::RNTuple")
                    if not is_ntuple:
                        raise UsageError(f"{error}; give another name", kind=error.kind) from None
            if is_ntuple:
                raise UsageError(
                    f"{path!r} is an ntuple, not a directory: there is nothing in it but its fields; give the "
                    "directory another name"
                )

    def __setitem__(self, name: str, data: Any) -> None:
        """Write data as an ntuple of this name, which must be free, and complete it."""
        batches = to_batches(data)
        ntuple = self.mkrntuple(name, batches)
        ntuple.extend(batches)
        ntuple.close()

    def close(self) -> None:
        """Complete the ntuples and the file: only then is it there, or has what was added.

        Raises
        ------
        FileError
            If writing fails: then a new file does not appear, and an old one is as it was.
        """
        if self.closed:
            return
        try:
            for ntuple in self._ntuples:
                ntuple.close()
        except BaseException:
            self.abort()
            raise
        self._core.finish()

    def abort(self) -> None:
        """Give the file up: a new one does not appear, an old one is as it was."""
        self._core.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # a notebook's commonest slip: without this, the file would be missing without a word
        core = getattr(self, "_core", None)
        if core is not None and not core.closed:
            core.abort()
            warnings.warn(f"{core.url} was never closed, so nothing was written: use it in a with block", stacklevel=2)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self._ntuples)} ntuples"
        return f"<FileWriter {self.file_path!r}, {state}>"


def _adjust(
    fields: _core.Fields,
    compressions: Mapping[str, Any] | None,
    precisions: Mapping[str, int | tuple[int, float, float]] | None,
    descriptions: Mapping[str, str] | None,
) -> None:
    for path, compression in (compressions or {}).items():
        fields.compress(path, compression_settings(compression))
    for path, precision in (precisions or {}).items():
        try:
            bits, *limits = precision if isinstance(precision, tuple | list) else (precision,)
            if len(limits) not in (0, 2):
                raise TypeError
            fields.store(path, bits, (limits[0], limits[1]) if limits else None)
        except (TypeError, OverflowError):
            raise UsageError(
                f"precision of {path!r} is a number of bits, or (bits, least, largest value), not {precision!r}"
            ) from None
    for path, description in (descriptions or {}).items():
        fields.describe(path, description)
