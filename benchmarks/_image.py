"""A temporary image with a file system whose files can share blocks."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path


class MissingImageError(Exception):
    """No file system can be created here; the message gives the reason."""


@contextlib.contextmanager
def mounted(folder: Path, n_bytes: int, *, filled: bool = False) -> Iterator[Path]:
    """Mount an XFS of this size with reflink=1, from an image in `folder`. Both are removed at the end.

    The image is sparse, or fully allocated, so that no space is allocated during a run.
    """
    if os.geteuid() != 0:
        raise MissingImageError("only root may mount a file system: run this as root")
    for program in ("mkfs.xfs", "losetup", "mount", "umount"):
        if shutil.which(program) is None:
            raise MissingImageError(f"there is no {program} (Debian: apt-get install xfsprogs)")
    # clean up after SIGTERM, as after Ctrl-C
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    with tempfile.TemporaryDirectory(dir=folder, prefix="image-") as name:
        image, place = Path(name) / "xfs.img", Path(name) / "mounted"
        place.mkdir()
        with image.open("wb") as file:
            if filled:
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.truncate(n_bytes)
        step("mkfs.xfs", "-q", "-K", "-m", "reflink=1", str(image))
        # avoid caching data twice, for the file and for the image
        device = step("losetup", "--direct-io=on", "--show", "-f", str(image)).strip()
        try:
            step("mount", "-o", "noatime", device, str(place))
            try:
                yield place
            finally:
                unmount(place)
        finally:
            step("losetup", "-d", device)


def unmount(place: Path) -> None:
    for _ in range(100):
        if subprocess.run(["umount", place], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    step("umount", "-l", str(place))


def step(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingImageError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
