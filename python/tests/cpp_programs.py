"""C++ programs, compiled against the headers and the library of this checkout."""

import os
import subprocess
from pathlib import Path
from typing import Any

import femtobarn as fb


def run_cpp(
    program: str, folder: Path, need_program: Any, *arguments: str, libraries: tuple[str, ...] = ()
) -> list[str]:
    """Compile and run a C++ program; return the lines that it prints."""
    need_program("c++")
    root = Path(__file__).resolve().parents[2]
    library = Path(os.environ.get("CARGO_TARGET_DIR", root / "target")) / "release"
    if not (library / "libfemtobarn_c.so").exists():
        command = [need_program("cargo"), "build", "--release", "--locked", "--quiet", "-p", "femtobarn-capi"]
        subprocess.run(command, cwd=root, check=True)
    (folder / "program.cpp").write_text(program)
    command = ["c++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "program.cpp", f"-I{root / 'include'}"]
    soname = "libfemtobarn_c.so." + ".".join(fb.__version__.split(".")[:2])
    (folder / soname).unlink(missing_ok=True)
    (folder / soname).symlink_to(library / "libfemtobarn_c.so")
    command += [f"-L{library}", f"-Wl,-rpath,{folder}", "-lfemtobarn_c", *libraries, "-o", "program"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run([folder / "program", *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
