"""A way to servers that can be made bad: Toxiproxy, which delays, cuts and silences connections on command."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from object_servers import find
from servers import Server, ServerError, answers, free_port, wait_until

PROGRAM = "toxiproxy-server"


class Toxiproxy(Server):
    """A program that stands between clients and servers of this machine, on a port for each way.

    As a context manager, it ends with the block.
    """

    def __init__(self) -> None:
        found = find(PROGRAM)
        if found is None:
            raise ServerError(f"there is no {PROGRAM}: scripts/setup_stores.sh installs it")
        self._found = found
        self._servers: dict[int, int] = {}
        super().__init__()
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def before(self, server: int, port: int | None = None) -> int:
        """Open a way to a server, in place of the one that had the port.

        Parameters
        ----------
        server : int
            The port of the server.
        port : int, optional
            The port of the way; by default a free one.

        Returns
        -------
        int
            The port of the way, by which it is named.
        """
        port = free_port() if port is None else port
        if port in self._servers:
            self._request("DELETE", f"/proxies/{port}", None)
        self._servers[port] = server
        way = {"name": str(port), "listen": f"127.0.0.1:{port}", "upstream": f"127.0.0.1:{server}", "enabled": True}
        self._request("POST", "/proxies", way)
        return port

    def poison(self, port: int, kind: str, stream: str = "downstream", /, **attributes: int) -> None:
        """Make a way bad, for the connections that there are and those to come.

        Parameters
        ----------
        port : int
            The way.
        kind : str
            How, in Toxiproxy's words: latency, bandwidth, slicer, limit_data, reset_peer, timeout, …
        stream : str
            What is made bad: "downstream" is what comes from the server, "upstream" what goes to it.
        **attributes : int
            How much, in Toxiproxy's units: milliseconds, KB/s and bytes.
        """
        toxic = {"name": f"{kind} {stream}", "type": kind, "stream": stream, "attributes": attributes}
        self._request("POST", f"/proxies/{port}/toxics", toxic)

    def heal(self, port: int) -> None:
        """End a way and open it anew, as a good one.

        Its connections end with it: while an answer waits on a slow way, Toxiproxy cannot make them good.
        """
        self.before(self._servers[port], port)

    def close_way(self, port: int) -> None:
        """End a way's connections, and refuse others."""
        self._request("POST", f"/proxies/{port}", {"enabled": False})

    def open_way(self, port: int) -> None:
        """Open a way again that was closed."""
        self._request("POST", f"/proxies/{port}", {"enabled": True})

    def log(self) -> str:
        """All that it has said."""
        return (self.folder / "log").read_text(errors="replace")

    def put(self, name: str, content: bytes) -> None:
        """Refuse: the files are those of the servers behind it."""
        raise ServerError(f"{name}: there are no files here")

    def kill(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [self._found, "-host", "127.0.0.1", "-port", str(self.port)],
                cwd=self.folder,
                env={**os.environ, "LOG_LEVEL": "error"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait(self) -> None:
        def is_up() -> bool:
            if self._process.poll() is not None:
                raise ServerError(self.log()[-4000:])
            return answers(self.port)

        wait_until(is_up, self.log)

    def _request(self, method: str, path: str, body: Mapping[str, object] | None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            content = answer.read()
        except OSError as error:
            raise ServerError(f"{method} {path}: {error}") from error
        finally:
            connection.close()
        if answer.status >= 300:
            raise ServerError(f"{method} {path}: {answer.status} {content[:2000]!r}")
        return content
