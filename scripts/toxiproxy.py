"""Faulty connections to servers: Toxiproxy delays, cuts and silences connections on command."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from installed import Installed
from servers import ServerError, free_port


class Toxiproxy(Installed):
    """A proxy between clients and servers of this machine, with a port for each proxied server.

    As a context manager, it stops at the end of the block.
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
        """Open a proxy to a server; it replaces the proxy on the same port.

        Parameters
        ----------
        server : int
            The port of the server.
        port : int, optional
            The port of the proxy; by default a free one.

        Returns
        -------
        int
            The port of the proxy, which identifies it.
        """
        port = free_port() if port is None else port
        if port in self._servers:
            self._tell("DELETE", f"/proxies/{port}")
        self._servers[port] = server
        way = {"name": str(port), "listen": f"127.0.0.1:{port}", "upstream": f"127.0.0.1:{server}", "enabled": True}
        self._tell("POST", "/proxies", way)
        return port

    def poison(self, port: int, kind: str, stream: str = "downstream", /, **attributes: int) -> None:
        """Add a fault to a proxy, for existing and new connections.

        Parameters
        ----------
        port : int
            The port of the proxy.
        kind : str
            The type of fault in Toxiproxy: latency, bandwidth, slicer, limit_data, reset_peer, timeout, …
        stream : str
            The direction: "downstream" is data from the server, "upstream" is data to it.
        **attributes : int
            Parameters of the fault, in Toxiproxy's units: milliseconds, KB/s and bytes.
        """
        toxic = {"name": f"{kind} {stream}", "type": kind, "stream": stream, "attributes": attributes}
        self._tell("POST", f"/proxies/{port}/toxics", toxic)

    def heal(self, port: int) -> None:
        """Close a proxy and open it again without faults.

        Its connections are closed: Toxiproxy cannot remove a fault while a delayed response is pending.
        """
        self.before(self._servers[port], port)

    def close_way(self, port: int) -> None:
        """Close the connections of a proxy, and refuse new ones."""
        self._tell("POST", f"/proxies/{port}", {"enabled": False})

    def open_way(self, port: int) -> None:
        """Open a closed proxy again."""
        self._tell("POST", f"/proxies/{port}", {"enabled": True})

    def put(self, name: str, content: bytes) -> None:
        """Raise an error: a proxy has no files."""
        raise ServerError(f"{name}: there are no files here")

    def _command(self, program: str) -> tuple[Sequence[str | Path], Mapping[str, str]]:
        return [program, "-host", "127.0.0.1", "-port", str(self.port)], {"LOG_LEVEL": "error"}

    def _tell(self, method: str, path: str, body: Mapping[str, object] | None = None) -> None:
        self.request(method, path, "", b"" if body is None else json.dumps(body).encode(), {})
