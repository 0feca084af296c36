"""ROOT's RDataFrame over ntuples."""

from __future__ import annotations

import ctypes
import functools
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from femtobarn import _core
from femtobarn._files.ntuple import NTuple
from femtobarn._files.open import open_pairs, resolve
from femtobarn._shared.compat import with_cache
from femtobarn._shared.steps import num_bytes
from femtobarn.errors import FemtobarnError, MissingDependencyError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from femtobarn._files.open import Files

__all__ = ["rdataframe"]

_HEADERS = Path(__file__).parent.parent / "include"


def rdataframe(
    files: Files,
    name: str | None = None,
    *,
    threads: int | None = None,
    block_size: int | str | None = None,
    verify_checksums: bool = True,
    memory_map: bool = True,
    allow_missing: bool = False,
    cache: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Make a ROOT RDataFrame that reads through femtobarn.

    Columns have the names and types that RDataFrame gives them when it reads RNTuples. Only columns that the dataframe
    uses are read, block by block, while the event loop runs over the last block. Needs ROOT's Python package; the first
    call in a process takes some seconds, as ROOT compiles a header.

    Parameters
    ----------
    files : str, path, dict, list or NTuple
        Files as for `open`.
    name : str, optional
        The name of the RNTuple or TTree in files without ``":name"``; not needed if each file has only one.
    threads : int, optional
        Number of threads for reading; by default as many as run the event loop (``ROOT.EnableImplicitMT``).
    block_size : int or str, optional
        Memory of a block of entries, as ``"64 MB"``; by default 64 MiB, and with implicit multi-threading 32 MiB per
        thread up to 512 MiB. Up to three blocks are in memory.
    verify_checksums : bool
        Whether the checksum of every page is checked.
    memory_map : bool
        Whether local files may be mapped into memory.
    allow_missing : bool
        Whether files without the ntuple are skipped.
    cache : str or path, optional
        A directory that keeps what is read from servers, as for `open`.
    storage_options : dict, optional
        Settings for access to servers, as for `open`.

    Returns
    -------
    ROOT.RDataFrame
        The dataframe.

    Raises
    ------
    MissingDependencyError
        If ROOT is not installed.
    FemtobarnError
        If ROOT cannot compile the header of femtobarn, and errors of `open`.

    See Also
    --------
    open : Open files.
    process : Run a Python function over all events.

    Examples
    --------
    >>> import femtobarn as fb
    >>> events = fb.rdataframe(dimuon, "Events")  # doctest: +SKIP
    >>> events.Filter("nMuon == 2").Count().GetValue()  # doctest: +SKIP
    4021
    """
    namespace = _namespace()
    if isinstance(files, NTuple):
        ntuple = files
    else:
        storage_options = with_cache(storage_options, cache)
        pairs = [(file, own or name) for file, own in resolve(files, storage_options)]
        ntuple = open_pairs(
            pairs,
            verify_checksums=verify_checksums,
            memory_map=memory_map,
            allow_missing=allow_missing,
            storage_options=storage_options,
        )
    options = namespace.DataFrameOptions()
    options.threads = threads or 0
    options.block_bytes = 0 if block_size is None else num_bytes(block_size)
    # the handle is freed by the C++ object
    return namespace.adopted_dataframe(ntuple._core.c_handle(), options)


@functools.cache
def _namespace() -> Any:
    """Compile the C++ header, whose functions of C are in the extension module."""
    try:
        root: Any = importlib.import_module("ROOT")
    except ImportError as error:
        raise MissingDependencyError("rdataframe needs ROOT, which is not installed: pip install root") from error
    if not (_HEADERS / "femtobarn" / "rdf.hxx").exists():
        raise FemtobarnError(f"{_HEADERS} has no headers of femtobarn; reinstall femtobarn")
    ctypes.CDLL(_core.__file__, mode=ctypes.RTLD_GLOBAL)
    root.gInterpreter.AddIncludePath(str(_HEADERS))
    # The function is not inline, so that all it needs is compiled here, with this optimization.
    code = """
    #pragma cling optimize(2)
    #include <femtobarn/rdf.hxx>
    namespace fb {
    ROOT::RDataFrame adopted_dataframe(std::uintptr_t handle, const DataFrameOptions &options) {
        return dataframe(NTuple(reinterpret_cast<fb_ntuple *>(handle)), options);
    }
    }
    """
    if not root.gInterpreter.Declare(code):
        raise FemtobarnError("ROOT cannot compile femtobarn/rdf.hxx; its messages say why. It needs ROOT 6.36 or later")
    return root.fb
