"""The stand-in for the library of DAOS, for tests and documentation. It is built from the source of the Rust tests."""

import os
import subprocess
import tempfile
from pathlib import Path

#: A pool of a real DAOS, which tests use instead of the stand-in if this is set.
POOL = os.environ.get("FEMTOBARN_TEST_DAOS", "").removeprefix("daos://").split("/")[0]
SOURCE = Path(__file__).resolve().parent.parent / "crates" / "daos" / "tests" / "standin" / "standin.c"


def build(folder: Path) -> Path:
    """Build the library in a directory."""
    library = folder / "libdaos.so"
    flags = ["-O2", "-std=gnu11", "-shared", "-fPIC", "-pthread"]
    subprocess.run([os.environ.get("CC", "cc"), *flags, "-o", library, SOURCE], check=True)
    return library


def variables(folder: Path) -> dict[str, str]:
    """Build the library, and return the variables with which femtobarn uses it. Processes share what it stores."""
    values = folder / "daos"
    values.mkdir()
    return {"FEMTOBARN_LIBDAOS": str(build(folder)), "DAOS_STANDIN_DIR": str(values)}


def use() -> None:
    """Use the stand-in in this process and those that it starts."""
    os.environ.update(variables(Path(tempfile.mkdtemp(prefix="daos-standin-"))))
