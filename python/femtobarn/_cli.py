"""The program `fb`, as the wheel installs it."""

from __future__ import annotations

import signal
import sys

from femtobarn import _core

__all__ = ["main"]


def main() -> int:
    """Run the program `fb` with the arguments of this process.

    Returns
    -------
    int
        The exit code of the program.
    """
    # the core runs without the interpreter, which would only remember Ctrl-C
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.cli_main(sys.argv[1:])
