"""Programs that `scripts/setup_stores.sh` installs for tests: find, start and stop them.

    python scripts/installed.py NAME

prints the path of a program, and fails if it is not installed.
"""

from __future__ import annotations

import http.client
import os
import shutil
import ssl
import subprocess
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from servers import Server, ServerError, answers, wait_until

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "femtobarn"


def find(name: str) -> str | None:
    """Return the path of a program installed by `scripts/setup_stores.sh` or `go install`; None if not found."""
    if found := shutil.which(name):
        return found
    folders = [os.environ.get("GOBIN"), str(_CACHE / "bin"), str(_CACHE / "node_modules" / ".bin")]
    if shutil.which("go"):
        gopath = subprocess.run(["go", "env", "GOPATH"], capture_output=True, text=True, check=False).stdout.strip()
        folders.append(f"{gopath}/bin")
    places = os.pathsep.join(folder for folder in folders if folder)
    return shutil.which(name, path=places)


class Installed(Server):
    """An installed program that runs in its own directory, with an HTTP interface."""

    program = ""
    certificates: Path | None = None

    def __init__(self) -> None:
        found = find(self.program)
        if found is None:
            raise ServerError(f"{self.program} is not installed: run scripts/setup_stores.sh")
        self._found = found
        super().__init__()
        self._begin()

    def _start(self) -> None:
        command, environment = self._command(self._found)
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait(self) -> None:
        wait_until(self._is_up, self.log)

    @abstractmethod
    def _command(self, program: str) -> tuple[Sequence[str | Path], Mapping[str, str]]:
        """Return the command and its environment variables."""

    def _is_up(self) -> bool:
        if self._process.poll() is not None:
            raise ServerError(self.log()[-4000:])
        return answers(self.port)

    def log(self) -> str:
        """Return the content of the log."""
        return (self.folder / "log").read_text(errors="replace")

    def kill(self) -> None:
        """Kill it, like a crash."""
        self._process.kill()
        self._process.wait()

    def request(self, method: str, path: str, query: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Send a request; raise an error if the status is not a success."""
        connection: http.client.HTTPConnection
        if self.certificates is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        else:
            context = ssl.create_default_context(cafile=str(self.certificates))
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=context)
        try:
            connection.request(method, f"{path}?{query}" if query else path, body, dict(headers))
            answer = connection.getresponse()
            content = answer.read()
        except OSError as error:
            raise ServerError(f"{method} {path}: {error}") from error
        finally:
            connection.close()
        if answer.status >= 300:
            raise ServerError(f"{method} {path}: {answer.status} {content[:2000]!r}")
        return content


def main() -> None:
    """Print the path of a program; fail if it is not installed."""
    place = find(sys.argv[1])
    if place is None:
        sys.exit(1)
    print(place)


if __name__ == "__main__":
    main()
