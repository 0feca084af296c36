"""A way to a real object store on which requests fail, as they do in the stores of large sites."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Fault:
    """What happens to a request.

    Parameters
    ----------
    status : int, optional
        Status of the answer. Without it, the connection is closed instead.
    code : str
        Code of the store in the answer, e.g. ``"SlowDown"``.
    is_done : bool
        Whether the store gets and does the request before.
    """

    status: int | None = None
    code: str = "InternalError"
    is_done: bool = False


@dataclass
class Asked:
    """A request for the store: its method, its path with the query, its headers and its body."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes


#: Decides about a request by its method, its path and how often these two came before.
Rule = Callable[[str, str, int], Fault | None]


class FaultyStore:
    """A proxy before the store at a port of this machine. It forwards requests as they are, unless a rule says else.

    Parameters
    ----------
    port : int
        Port of the store.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.rule: Rule = lambda method, path, before: None
        #: What replaces the body of an answer, by method, path and body.
        self.change: Callable[[str, str, bytes], bytes] = lambda method, path, body: body
        #: Methods and paths of all requests.
        self.requests: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                path = self.path.split("?", 1)[0]
                with store._lock:
                    before = store.requests.count((self.command, path))
                    store.requests.append((self.command, path))
                fault = store.rule(self.command, path, before)
                if fault is None or fault.is_done:
                    asked = Asked(self.command, self.path, self.headers.items(), body)
                    status, headers, answer = store.ask(asked)
                if fault is None:
                    changed = store.change(self.command, path, answer)
                    self._answer(status, headers, changed, len(answer))
                elif fault.status is None:
                    self.close_connection = True
                else:
                    text = f"<Error><Code>{fault.code}</Code><Message>so it is</Message></Error>"
                    self._answer(fault.status, [("content-type", "application/xml")], text.encode(), len(text))

            def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, size: int) -> None:
                own = {"connection", "transfer-encoding", "content-length"}
                self.send_response_only(status)
                lengths = [value for name, value in headers if name.lower() == "content-length"]
                for name, value in headers:
                    if name.lower() not in own:
                        self.send_header(name, value)
                is_head = self.command == "HEAD"
                self.send_header("content-length", lengths[0] if is_head and lengths else str(size))
                self.end_headers()
                if not is_head:
                    self.wfile.write(body)
                if len(body) < size:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
            setattr(Handler, f"do_{method}", Handler._forward)

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """Say nothing: a client that got a wrong answer may close the connection."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def ask(self, asked: Asked) -> tuple[int, list[tuple[str, str]], bytes]:
        """Ask the store; return status, headers and body of its answer."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port)) as connection:
            # with the host that the client has signed
            connection.putrequest(asked.method, asked.path, skip_host=True, skip_accept_encoding=True)
            for name, value in asked.headers:
                connection.putheader(name, value)
            connection.endheaders(asked.body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    def count(self, method: str, ending: str = "") -> int:
        """Return the number of requests with this method, for paths with this ending."""
        with self._lock:
            return sum(found == method and path.endswith(ending) for found, path in self.requests)

    def heal(self) -> None:
        """Forward all requests from now on."""
        self.rule = lambda method, path, before: None
        self.change = lambda method, path, body: body

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
