"""The floor of reading: floor.c, compiled with the libraries that femtobarn uses, and the pages to feed it with."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import platform
import re
import subprocess
import threading
import time
from pathlib import Path

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
    files = [*lib.glob("common/*.c"), *lib.glob("decompress/*.c")]
    sources = [str(file) for file in files if "xxhash" not in file.name]
    assembler = str(lib / "decompress/huf_decompress_amd64.S")
    sources.append(assembler if platform.machine() == "x86_64" else "-DZSTD_DISABLE_ASM")
    return [f"-I{lib}", f"-I{lib / 'common'}", *sources]


def lz4_sources() -> list[str]:
    crate = bundled_sources("lz4-sys")
    return system_library("lz4") if crate is None else [str(crate / "liblz4/lib/lz4.c")]


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
        command = [os.environ.get("CC", "cc"), *FLAGS, "-o", str(part), str(source), *zstd_sources(), *lz4_sources()]
        subprocess.run(command, check=True)
        part.replace(target)
    return target


class Floor:
    """The pages of one file, all of which is in memory."""

    def __init__(self, library: Path, path: Path, pages: np.ndarray) -> None:
        self.library = ctypes.CDLL(str(library))
        self.library.floor_run.restype = ctypes.c_int64
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
        threads = [threading.Thread(target=self._run, args=(share, copy)) for share in shares]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - start

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


def page_list(path: Path, ntuple: str) -> np.ndarray:
    """Every page once, in the order of the file: offset, bytes stored, bytes uncompressed.

    Pages with equal contents, which ROOT writes once and refers to often, count once. uproot lists them, as an
    independent witness; since that takes it some seconds, the list is kept beside the file.
    """
    kept = path.with_name(path.name + ".pages.npy")
    if kept.exists() and kept.stat().st_mtime >= path.stat().st_mtime:
        return np.load(kept)
    import uproot

    metadata = uproot.open(f"{path}:{ntuple}", object_cache=None, array_cache=None)
    bits = [column.nbits for column in metadata.column_records]
    pages = {
        page.locator.offset: (page.locator.num_bytes, -(-page.num_elements * bits[i] // 8))
        for cluster in metadata.page_link_list
        for i, column in enumerate(cluster)
        for page in column.pages
    }
    found = np.array([(offset, *sizes) for offset, sizes in sorted(pages.items())], dtype=np.int64)
    with contextlib.suppress(OSError):  # where the folder cannot be written, the list is made again next time
        np.save(kept, found)
    return found
