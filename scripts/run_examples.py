"""Run every example like a user, and report how many work.

An example is a file, or a directory with a ``__main__.py``; of the AGC it is ``ttbar.py``. Each one runs in its own
process and directory; it passes if it exits with 0 and prints something. Its output is shown only if it fails.

    run_examples.py [PATTERN]
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIME_LIMIT_SECONDS = 300


def run(example: Path) -> str | None:
    """Run an example; return the problem, or None."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [sys.executable, str(example)],
                cwd=folder,
                env={**os.environ, "MPLBACKEND": "Agg"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=TIME_LIMIT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"took more than {TIME_LIMIT_SECONDS} s"
    if done.returncode:
        return f"exited with {done.returncode}\n{done.stdout}"
    if not done.stdout.strip():
        return "printed nothing"
    return None


def is_example(path: Path) -> bool:
    """Return whether a path is an example, not one of the modules of the AGC."""
    if path.parent.name == "agc":
        return path.name == "ttbar.py"
    return path.suffix == ".py" or (path / "__main__.py").is_file()


def main(pattern: str = "*") -> int:
    """Run the examples that match, print the totals, and return the exit code."""
    found = [*(ROOT / "examples" / "python").glob(pattern), *(ROOT / "examples").glob(f"agc/{pattern}")]
    examples = sorted(path for path in found if is_example(path))
    n_failed = 0
    for example in examples:
        start = time.perf_counter()
        trouble = run(example)
        seconds = time.perf_counter() - start
        n_failed += trouble is not None
        print(f"{'FAILED' if trouble else 'ok':6} {example.relative_to(ROOT)} ({seconds:.1f} s)")
        if trouble:
            print(trouble)
    print(f"{len(examples) - n_failed} passed, {n_failed} failed")
    return int(n_failed > 0 or not examples)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
