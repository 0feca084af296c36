"""A file system whose files can share blocks, in an image that is there as long as it is needed."""

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
    """No file system can be made here; the message says why."""


@contextlib.contextmanager
def mounted(folder: Path, n_bytes: int, *, filled: bool = False) -> Iterator[Path]:
    """A folder on an XFS of this size with reflink=1, in an image in `folder`. Both are gone in the end.

    The image is sparse, or has all of its room from the beginning, so that none of it is taken during a run.
    """
    if os.geteuid() != 0:
        raise MissingImageError("only root may mount a file system: run this as root")
    for program in ("mkfs.xfs", "losetup", "mount", "umount"):
        if shutil.which(program) is None:
            raise MissingImageError(f"there is no {program} (Debian: apt-get install xfsprogs)")
    # who ends this by a signal shall find nothing left, as with Ctrl-C
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
        # what is written shall not be in the cache twice, as the file's and as the image's
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
