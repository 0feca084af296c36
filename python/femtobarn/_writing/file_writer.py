"""The class `FileWriter`: a ROOT file that is being written."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

from femtobarn._files.to_histogram import is_histogram, to_histogram
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
    """A ROOT file that is being written, as returned by `recreate`, `create` and `update`.

    `close` completes the file, as does the end of a ``with`` block without an error. Several threads may call the
    methods; the calls wait for each other.
    """

    def __init__(self, core: _core.FileWriter, compression: int, threads: int) -> None:
        self._core = core
        self._compression = compression
        self._threads = threads
        self._ntuples: list[NTupleWriter] = []

    @property
    def file_path(self) -> str:
        """The path of the file."""
        return self._core.url

    @property
    def closed(self) -> bool:
        """Whether the file is completed or abandoned."""
        return self._core.closed

    def mkdir(self, path: str) -> WritableDirectory:
        """Create a directory and its parents. Existing directories are kept.

        Parameters
        ----------
        path : str
            Names separated by slashes.

        Returns
        -------
        WritableDirectory
            The directory.

        Raises
        ------
        UsageError
            If an ntuple or another object has this name, or a name is ``.`` or ``..``, or contains a semicolon or a
            control character.
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
            Names of directories, separated by slashes; by default the top directory of the file.

        Returns
        -------
        list of str
            Names of objects and directories, without ntuples that are not closed yet.

        Raises
        ------
        KeyNotFoundError
            If the directory does not exist.
        """
        names = self._core.names("/".join(parts_of(path)))
        if names is None:
            raise KeyNotFoundError(f"no directory {path!r} in {self.file_path}")
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
        object_size: str | SupportsIndex | None = None,
        threads: int | None = None,
    ) -> NTupleWriter:
        """Create an ntuple.

        Parameters
        ----------
        name : str
            Name of the ntuple; it may begin with directories, as "folder/Events".
        batch_or_spec : dict, Arrow schema, Awkward type, or data
            The fields and their types. A dict has names and types: C++ types ("std::vector<float>"), NumPy dtypes
            ("float32", ``np.int64``), Awkward types ("var * float32"), `Class`, `Enum`, `Type`, `Cardinality`,
            `Projected`, or a dict for a record without a class. From data, only the types are taken:
            `NTupleWriter.extend` writes the data.
        description : str
            A description of the ntuple.
        types : dict, optional
            For data: types of columns that differ from the data, or that the data does not have, as for empty lists and
            columns with only None: ``{"Muon_pt": "var * float32"}``. Types have the form of a specification.
        compression : str, int or None
            The compression; by default the one of the file; see `recreate`.
        field_compression : dict, optional
            Names of fields (with dots between the parts) and their compression, if it differs.
        precision : dict, optional
            Names of fields whose floats are stored with fewer bits: ``{"Muon_pt": 12}`` keeps the upper 12 bits of
            single precision (Real32Trunc, 10 to 31), ``{"Muon_phi": (16, -3.15, 3.15)}`` stores the position in this
            range with 16 bits (Real32Quant, 1 to 32). Values outside of the range are errors; the bounds are compared
            in single precision.
        descriptions : dict, optional
            Names of fields and their descriptions.
        projected : dict, optional
            Additional projected fields: names, and `Cardinality` or `Projected`.
        cluster_size : str or int
            Approximate compressed size of a cluster, in bytes.
        cluster_size_uncompressed : str or int
            Maximum uncompressed size of a cluster, in bytes.
        page_size : str or int
            Maximum uncompressed size of a page, in bytes.
        memory_limit : str or int, optional
            Limit of the memory for writing, in bytes, without the data that is passed in: clusters become smaller and
            fewer threads are used. Without a limit it is ``cluster_size + 193 MiB + threads * (5 * page_size +
            24 MiB)``. An entry larger than 16 MiB needs twice its size in addition.
        max_key_size : str or int
            Maximum size of a record in the file; larger data is stored in several records.
        page_checksums : bool
            Whether to store a checksum for each page.
        same_page_merging : bool
            Whether to store equal pages of a cluster only once.
        clusters_per_group : int
            Number of clusters per page list.
        new_cycle : bool
            Whether the ntuple may hide an existing one with this name, which stays as an older cycle, "Events;1".
        object_size : str or int, optional
            Size of the objects of an ntuple that is written as objects (``ntpl+s3://bucket/prefix``): "page", one page
            in each object as ROOT writes them; "cluster"; or bytes, by default "16 MB": pages of a cluster are combined
            up to this size. In DAOS, by default "1 MiB": pages of a column in a cluster.
        threads : int, optional
            Number of threads that encode and compress; by default the same as for the file.

        Returns
        -------
        NTupleWriter
            The ntuple.

        Raises
        ------
        UsageError
            If an ntuple with this name exists, unless `new_cycle` is given; if another object has this name; or if
            RNTuple does not support a type.
        """
        parts = parts_of(name)
        if not parts:
            raise UsageError("an ntuple needs a name")
        directory, own = "/".join(parts[:-1]), parts[-1]
        if any(ntuple.path == (directory, own) and not ntuple.closed for ntuple in self._ntuples):
            raise UsageError(f"the ntuple {name!r} is already being written")
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
                raise UsageError(f"{what} must be a dict with names of fields, not {given_dict!r}")
        given = None
        if is_spec(batch_or_spec):
            if types:
                raise UsageError("types can only be given for data: a specification has its own types")
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
            "object_size": object_size,
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
        """Return the ntuple with this name that is being written, or the directory."""
        parts = parts_of(name)
        path = "/".join(parts)
        for ntuple in self._ntuples:
            if ntuple.path == ("/".join(parts[:-1]), *parts[-1:]) and not ntuple.closed:
                return ntuple
        if parts and self._core.names(path) is not None:
            return WritableDirectory(self, path)
        self._check_directories(parts[:-1])
        raise UsageError(
            f"no ntuple {name!r} is being written, and a complete ntuple cannot be extended: create it with "
            f"w = f.mkrntuple({name!r}, ...) and call w.extend(...) for each batch; write further entries to another "
            "file, and read both with fb.open([...]). Create a directory with f.mkdir"
        )

    def __contains__(self, name: str) -> bool:
        """Return whether an object or a directory has this name; ntuples that are not closed yet do not count."""
        parts = parts_of(name)
        return bool(parts) and parts[-1] in (self._core.names("/".join(parts[:-1])) or ())

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names that `keys` returns."""
        return iter(self.keys())

    def __len__(self) -> int:
        """Return the number of names that `keys` returns."""
        return len(self.keys())

    def _check_directories(self, parts: list[str]) -> None:
        """Raise if one of these names exists and is not a directory."""
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
                    f"{path!r} is an ntuple, not a directory, and contains only its fields; use another name for the "
                    "directory"
                )

    def __setitem__(self, name: str, data: Any) -> None:
        """Write data as a complete ntuple with this name, or a histogram; the name must not exist.

        Histograms are a `Histogram`, any object with the PlottableHistogram protocol of UHI, as of hist and
        boost-histogram, or a tuple of counts and edges, as from ``numpy.histogram``.
        """
        if is_histogram(data):
            self._write_histogram(name, data)
            return
        batches = to_batches(data)
        ntuple = self.mkrntuple(name, batches)
        ntuple.extend(batches)
        ntuple.close()

    def _write_histogram(self, name: str, data: Any) -> None:
        parts = parts_of(name)
        if not parts:
            raise UsageError("a histogram needs a name")
        self._check_directories(parts[:-1])
        directory, own = "/".join(parts[:-1]), parts[-1]
        self._core.histogram(directory, own, to_histogram(data, own), self._compression)

    def close(self) -> None:
        """Complete the ntuples and the file. Before that, the file or the additions are not visible.

        Raises
        ------
        FileError
            If writing fails: a new file does not appear, and an existing one is unchanged.
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
        """Abandon the file: a new file does not appear, and an existing one is unchanged."""
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
        # a common mistake in notebooks: without this warning, the file would be missing silently
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
                f"precision of {path!r} must be a number of bits, or (bits, least, largest), not {precision!r}"
            ) from None
    for path, description in (descriptions or {}).items():
        fields.describe(path, description)
