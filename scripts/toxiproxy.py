"""A way to servers that can be made bad: Toxiproxy, which delays, cuts and silences connections on command."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from installed import Installed
from servers import ServerError, free_port


class Toxiproxy(Installed):
    """A program that stands between clients and servers of this machine, on a port for each way.

    As a context manager, it ends with the block.
    """

    program = "toxiproxy-server"

    def __init__(self) -> None:
        self._servers: dict[int, int] = {}
        super().__init__()

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
            self._tell("DELETE", f"/proxies/{port}")
        self._servers[port] = server
        way = {"name": str(port), "listen": f"127.0.0.1:{port}", "upstream": f"127.0.0.1:{server}", "enabled": True}
        self._tell("POST", "/proxies", way)
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
        self._tell("POST", f"/proxies/{port}/toxics", toxic)

    def heal(self, port: int) -> None:
        """End a way and open it anew, as a good one.

        Its connections end with it: while an answer waits on a slow way, Toxiproxy cannot make them good.
        """
        self.before(self._servers[port], port)

    def close_way(self, port: int) -> None:
        """End a way's connections, and refuse others."""
        self._tell("POST", f"/proxies/{port}", {"enabled": False})

    def open_way(self, port: int) -> None:
        """Open a way again that was closed."""
        self._tell("POST", f"/proxies/{port}", {"enabled": True})

    def put(self, name: str, content: bytes) -> None:
        """Refuse: the files are those of the servers behind it."""
        raise ServerError(f"{name}: there are no files here")

    def _command(self, program: str) -> tuple[Sequence[str | Path], Mapping[str, str]]:
        return [program, "-host", "127.0.0.1", "-port", str(self.port)], {"LOG_LEVEL": "error"}

    def _tell(self, method: str, path: str, body: Mapping[str, object] | None = None) -> None:
        self.request(method, path, "", b"" if body is None else json.dumps(body).encode(), {})
