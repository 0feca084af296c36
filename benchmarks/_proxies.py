"""A proxy that counts the requests of a reader."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections import Counter
from dataclasses import dataclass

XROOTD_HELLO, XROOTD_HEADER = 20, 24  # bytes of the client's handshake, and of each request header
READ, READV, PGREAD = 3013, 3025, 3030
ELEMENT = 16  # bytes that describe one range of a vector read


@dataclass(frozen=True)
class Request:
    """A request by HTTP: its range, if it has one, and the size of its body."""

    method: str
    target: str
    range: str | None
    size: int


class Counting:
    """A proxy that counts the requests of a client, and the bytes that the server sends.

    Parameters
    ----------
    port : int
        The port of the server.
    is_xrootd : bool
        Whether the protocol is XRootD; otherwise it is HTTP/1.1, with bodies whose lengths are in headers.
    """

    def __init__(self, port: int, is_xrootd: bool) -> None:
        self._target, self._is_xrootd = port, is_xrootd
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._found: Counter[str] = Counter()
        self._heard: list[Request] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def take(self) -> dict[str, int]:
        """Return the counts since the last call."""
        with self._lock:
            found, self._found = self._found, Counter()
        return dict(found)

    def heard(self) -> list[Request]:
        """Return the requests by HTTP since the last call."""
        with self._lock:
            heard, self._heard = self._heard, []
        return heard

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()

    def _count(self, **found: int) -> None:
        with self._lock:
            self._found.update(found)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._count(connections=1)
            for run in (self._upstream, self._downstream):
                threading.Thread(target=run, args=(client, server), daemon=True).start()

    def _downstream(self, client: socket.socket, server: socket.socket) -> None:
        while data := received(server):
            self._count(bytes=len(data))
            if not sent(client, data):
                break
        ended(client)

    def _upstream(self, client: socket.socket, server: socket.socket) -> None:
        requests = XrootdRequests() if self._is_xrootd else HttpRequests()
        while data := received(client):
            for found in requests.of(data):
                self._count(**found)
            if isinstance(requests, HttpRequests):
                with self._lock:
                    self._heard += requests.take()
            if not sent(server, data):
                break
        ended(server)


class XrootdRequests:
    """Counts the requests of one connection in its byte stream: all requests, and requests for data."""

    def __init__(self) -> None:
        self._rest, self._skip = b"", XROOTD_HELLO

    def of(self, data: bytes) -> list[dict[str, int]]:
        self._rest += data
        found: list[dict[str, int]] = []
        while True:
            dropped = min(self._skip, len(self._rest))
            self._rest, self._skip = self._rest[dropped:], self._skip - dropped
            if self._skip or len(self._rest) < XROOTD_HEADER:
                return found
            kind, length = struct.unpack_from(">H", self._rest, 2)[0], struct.unpack_from(">i", self._rest, 20)[0]
            one = {"messages": 1}
            if kind in {READ, READV, PGREAD}:
                one |= {"requests": 1, "ranges": length // ELEMENT if kind == READV else 1}
            found.append(one)
            self._skip = XROOTD_HEADER + length


class HttpRequests:
    """Counts the requests of one connection in its byte stream: all requests, and requests for data."""

    def __init__(self) -> None:
        self._rest, self._skip = b"", 0
        self._heard: list[Request] = []

    def of(self, data: bytes) -> list[dict[str, int]]:
        found: list[dict[str, int]] = []
        while data:
            dropped = min(self._skip, len(data))
            data, self._skip = data[dropped:], self._skip - dropped
            head, end, rest = (self._rest + data).partition(b"\r\n\r\n")
            if self._skip or not end:
                self._rest = head
                break
            data, self._rest = rest, b""
            method, target, _ = head.decode("latin-1").split(" ", 2)
            ranges = re.search(rb"\r\nrange: *bytes=([^\r]*)", head, re.IGNORECASE)
            length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
            self._skip = int(length[1]) if length else 0
            self._heard.append(Request(method, target, ranges[1].decode() if ranges else None, self._skip))
            one = {"messages": 1}
            if method == "GET":
                one |= {"requests": 1, "ranges": ranges[1].count(b",") + 1 if ranges else 1}
            found.append(one)
        return found

    def take(self) -> list[Request]:
        """Return the requests since the last call."""
        heard, self._heard = self._heard, []
        return heard


def received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 18)
    except OSError:
        return b""


def sent(connection: socket.socket, data: bytes) -> bool:
    try:
        connection.sendall(data)
    except OSError:
        return False
    return True


def ended(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may have ended already
        connection.shutdown(socket.SHUT_RDWR)
