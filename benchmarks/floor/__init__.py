"""The floor: floor.c, compiled with the libraries that femtobarn uses, and the pages and baskets to feed it with."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import platform
import re
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
FLAGS = ["-O3", "-fPIC", "-shared", "-w", "-DZSTD_LIB_DEPRECATED=0", "-DXXH_PRIVATE_API"]


def bundled_sources(crate: str) -> Path | None:
    """The sources of the crate, in the version of Cargo.lock, where cargo has put them."""
    lock = (HERE.parent.parent / "Cargo.lock").read_text()
    found = re.search(rf'name = "{crate}"\nversion = "([^"]+)"', lock)
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    folders = sorted(home.glob(f"registry/src/*/{crate}-{found[1]}")) if found else []
    return folders[0] if folders else None


def zstd_sources() -> list[str]:
    """What to compile or to link for libzstd: as femtobarn does, or else the system's library."""
    crate = bundled_sources("zstd-sys")
    if crate is None:
        return system_library("zstd")
    lib = crate / "zstd/lib"
    files = [file for part in ("common", "compress", "decompress") for file in lib.glob(f"{part}/*.c")]
    sources = [str(file) for file in files if "xxhash" not in file.name]
    assembler = str(lib / "decompress/huf_decompress_amd64.S")
    sources.append(assembler if platform.machine() == "x86_64" else "-DZSTD_DISABLE_ASM")
    return [f"-I{lib}", f"-I{lib / 'common'}", *sources]


def lz4_sources() -> list[str]:
    crate = bundled_sources("lz4-sys")
    return system_library("lz4") if crate is None else [str(crate / "liblz4/lib/lz4.c")]


def deflate_sources() -> list[str]:
    crate = bundled_sources("libdeflate-sys")
    if crate is None:
        return system_library("deflate")
    lib = crate / "libdeflate"
    names = ("adler32", "deflate_decompress", "zlib_decompress", "utils", "x86/cpu_features", "arm/cpu_features")
    return [f"-I{lib}", *(str(lib / f"lib/{name}.c") for name in names)]


def system_library(name: str) -> list[str]:
    """The library of the system; its bare file where the development package is missing."""
    found = subprocess.run(["cc", f"-print-file-name=lib{name}.so"], capture_output=True, text=True, check=True)
    return [f"-l{name}" if Path(found.stdout.strip()).is_absolute() else f"-l:lib{name}.so.1"]


def build(folder: Path) -> Path:
    """Compile the floor into `folder`, if what is there is not as new as its source."""
    target, source = folder / "libfloor.so", HERE / "floor.c"
    newest = max(file.stat().st_mtime for file in (source, Path(__file__), HERE.parent.parent / "Cargo.lock"))
    if not target.exists() or target.stat().st_mtime < newest:
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"libfloor.{os.getpid()}.so"
        libraries = [*zstd_sources(), *lz4_sources(), *deflate_sources()]
        command = [os.environ.get("CC", "cc"), *FLAGS, "-o", str(part), str(source), *libraries]
        subprocess.run(command, check=True)
        part.replace(target)
    return target


class Floor:
    """The pages of an ntuple, or the baskets of a tree, in one file, all of which is in memory."""

    def __init__(self, library: Path, path: Path, pages: np.ndarray) -> None:
        self.library = ctypes.CDLL(str(library))
        for name in ("floor_run", "floor_decode", "floor_write"):
            getattr(self.library, name).restype = ctypes.c_int64
        self.library.floor_zstd_version.restype = ctypes.c_char_p
        self.library.floor_lz4_version.restype = ctypes.c_char_p
        self.pages = np.ascontiguousarray(pages, dtype=np.int64)
        with path.open("rb") as file:
            self.file = np.frombuffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), dtype=np.uint8)
        if (self.pages[:, 0] + self.pages[:, 1]).max(initial=0) > len(self.file):
            raise ValueError(f"the page list does not fit {path}")
        self.file[:: mmap.PAGESIZE].max(initial=0)  # maps every page of memory

    def versions(self) -> dict[str, str]:
        names = {"zstd": self.library.floor_zstd_version(), "lz4": self.library.floor_lz4_version()}
        return {name: version.decode() for name, version in names.items()}

    def run(self, *, copy: bool) -> float:
        """Seconds that one thread needs."""
        return self._run(self.pages, copy)

    def run_threads(self, n_threads: int, *, copy: bool) -> float:
        """Seconds that several threads need, each with its share of the pages."""
        shares = [np.ascontiguousarray(self.pages[i::n_threads]) for i in range(n_threads)]
        return in_parallel([lambda share=share: self._run(share, copy) for share in shares])

    def _run(self, pages: np.ndarray, copy: bool) -> float:
        seconds = ctypes.c_double()
        failed = self.library.floor_run(
            ctypes.c_void_p(self.file.ctypes.data),
            ctypes.c_void_p(pages.ctypes.data),
            ctypes.c_int64(len(pages)),
            ctypes.c_int(copy),
            ctypes.byref(seconds),
        )
        if failed:
            raise RuntimeError(f"the floor failed at page {failed} (-1: no memory)")
        return seconds.value

    def contents(self) -> Contents:
        """The decompressed bytes of all pages, to be written."""
        offsets = np.concatenate([[0], np.cumsum(self.pages[:, 2])]).astype(np.int64)
        found = np.zeros(offsets[-1], dtype=np.uint8)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (self.file, self.pages, found)]
        failed = self.library.floor_decode(*pointers[:2], ctypes.c_int64(len(self.pages)), pointers[2])
        if failed:
            raise RuntimeError(f"page {failed} cannot be decompressed (-1: no memory)")
        return Contents(self.library, found, offsets)


class Contents:
    """What is in pages, one after another."""

    def __init__(self, library: ctypes.CDLL, contents: np.ndarray, offsets: np.ndarray) -> None:
        self.library, self.contents, self.offsets = library, contents, offsets

    def write(self, path: Path, level: int, n_threads: int) -> float:
        """Seconds that threads need to compress by this level of libzstd (0: not at all) and to write to a new file."""
        following, end = ctypes.c_int64(0), ctypes.c_int64(0)
        failed: list[int] = []
        start = time.perf_counter()
        with path.open("wb") as file:

            def work() -> None:
                code = self.library.floor_write(
                    ctypes.c_void_p(self.contents.ctypes.data),
                    ctypes.c_void_p(self.offsets.ctypes.data),
                    ctypes.c_int64(len(self.offsets) - 1),
                    ctypes.c_int(level),
                    ctypes.c_int(file.fileno()),
                    ctypes.byref(following),
                    ctypes.byref(end),
                )
                failed.extend([code] if code else [])

            in_parallel([work] * n_threads)
        seconds = time.perf_counter() - start
        if failed:
            raise RuntimeError(f"the floor failed: {failed[0]} (-1: no memory, -2: cannot write)")
        return seconds


def in_parallel(tasks: list[Callable[[], Any]]) -> float:
    """Seconds that the tasks need, each in a thread of its own."""
    threads = [threading.Thread(target=task) for task in tasks]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def page_list(path: Path, ntuple: str) -> np.ndarray:
    """Every page once, in the order of the file: offset, bytes stored, bytes uncompressed.

    Pages with equal contents, which ROOT writes once and refers to often, count once.
    """
    return kept_list(path, lambda: pages_of(path, ntuple))


def basket_list(path: Path, tree: str) -> np.ndarray:
    """Every basket without its key, in the order of the file: offset, bytes stored, bytes uncompressed."""
    return kept_list(path, lambda: baskets_of(path, tree))


def kept_list(path: Path, make: Callable[[], list[tuple[int, int, int]]]) -> np.ndarray:
    """What `make` gives. uproot lists it, as an independent witness; that takes some seconds: it is kept in a file."""
    kept = path.with_name(path.name + ".pages.npy")
    if kept.exists() and kept.stat().st_mtime >= path.stat().st_mtime:
        return np.load(kept)
    found = np.array(sorted(make()), dtype=np.int64)
    with contextlib.suppress(OSError):  # where the folder cannot be written, the list is made again next time
        np.save(kept, found)
    return found


def pages_of(path: Path, ntuple: str) -> list[tuple[int, int, int]]:
    import uproot

    metadata = uproot.open(f"{path}:{ntuple}", object_cache=None, array_cache=None)
    bits = [column.nbits for column in metadata.column_records]
    pages = {
        page.locator.offset: (page.locator.num_bytes, -(-page.num_elements * bits[i] // 8))
        for cluster in metadata.page_link_list
        for i, column in enumerate(cluster)
        for page in column.pages
    }
    return [(offset, *sizes) for offset, sizes in pages.items()]


def baskets_of(path: Path, tree: str) -> list[tuple[int, int, int]]:
    import uproot

    key = struct.Struct(">iHiIH")  # bytes of the record, version, bytes of the object, date, bytes of the key
    found = []
    with path.open("rb") as file:
        contents = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    for branch in uproot.open(f"{path}:{tree}", object_cache=None, array_cache=None).branches:
        for offset in branch.member("fBasketSeek")[: branch.member("fWriteBasket")]:
            n_bytes, _, object_size, _, key_size = key.unpack_from(contents, offset)
            found.append((offset + key_size, n_bytes - key_size, object_size))
    return found
