"""Real servers for tests and benchmarks: on free ports of this machine, in folders of their own.

    python scripts/servers.py KIND

Imported, it gives classes; as a program, it starts one, says in a line of JSON where it is, and then obeys lines of its
input, each answered by a line, until that ends: then it ends the server and removes its files. The lines are `kill`,
`restart`, `put NAME FILE`; of `toxiproxy` `before SERVER PORT`, `poison PORT KIND STREAM [NAME=NUMBER …]`, `heal PORT`,
`close_way PORT`, `open_way PORT`; of Redis `kill_server NUMBER`, `stop_server NUMBER`, `continue_server NUMBER`,
`start_server NUMBER`.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

_PATIENCE = 60.0  # seconds until a server must be up
_TRIES = 5  # another program may take a free port first


def free_port() -> int:
    """Return a port that nobody has at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class ServerError(RuntimeError):
    """A server did not come up; the message is the end of its log."""


class _Program:
    """A program of XRootD, which runs as the user that Debian made for it."""

    def __init__(self, name: str, instance: str, config: Path) -> None:
        self._log = config.with_suffix(".log")
        own(config.parent)
        command = [name, *(["-R", "xrootd"] if os.geteuid() == 0 else [])]
        # without a file for its number, cmsd looks for one of its own in /tmp
        command += ["-n", instance, "-c", str(config), "-l", str(self._log), "-s", str(config.with_suffix(".pid"))]
        nothing = subprocess.DEVNULL
        self._process = subprocess.Popen(command, cwd=config.parent, stdin=nothing, stdout=nothing, stderr=nothing)

    def log(self) -> str:
        """All that it has said."""
        # it puts its logs into a folder of the instance's name
        found = sorted(self._log.parent.rglob(self._log.name))
        return "".join(path.read_text(errors="replace") for path in found)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def own(folder: Path, name: str = "xrootd") -> None:
    """Give a folder, and what is in it, to the user that servers run as."""
    folder.chmod(0o755)
    if os.geteuid() != 0:
        return
    user = pwd.getpwnam(name)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


def _temporary() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="servers-"))
    folder.chmod(0o755)
    return folder


def wait_until(is_up: Callable[[], bool], log: Callable[[], str]) -> None:
    """Wait until a server is up; if it takes too long, the end of its log is the error."""
    end = time.monotonic() + _PATIENCE
    while not is_up():
        if time.monotonic() > end:
            raise ServerError(log()[-4000:])
        time.sleep(0.02)


def answers(port: int) -> bool:
    """Tell whether somebody listens on a port of this machine."""
    with socket.socket() as client:
        client.settimeout(0.2)
        return client.connect_ex(("127.0.0.1", port)) == 0


class Server(ABC):
    """A program that serves the files of a folder of its own, on a free port."""

    port = 0

    def __init__(self) -> None:
        self.folder = _temporary()
        self.data = self.folder / "data"
        self.data.mkdir()

    def _begin(self) -> None:
        """Start it, on another port if somebody else has taken the first."""
        for attempt in range(_TRIES):
            self.port = free_port()
            self._start()
            try:
                self._wait()
            except ServerError:
                if attempt == _TRIES - 1:
                    self.close()
                    raise
                self.kill()
            else:
                return

    @abstractmethod
    def _start(self) -> None:
        """Start the program."""

    @abstractmethod
    def _wait(self) -> None:
        """Wait until it can be used; a `ServerError` if that will never be."""

    @abstractmethod
    def log(self) -> str:
        """All that it has said."""

    @abstractmethod
    def put(self, name: str, content: bytes) -> None:
        """Write a file."""

    @abstractmethod
    def kill(self) -> None:
        """End it."""

    def restart(self) -> None:
        """Start it again, on the same port."""
        self.kill()
        self._start()
        self._wait()

    def close(self) -> None:
        """End it, and remove its files."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def about(self) -> dict[str, object]:
        """Where it is."""
        return {"port": self.port, "data": [str(self.data)], "folder": str(self.folder), "servers": [self.port]}

    def _write(self, name: str, content: bytes) -> None:
        path = self.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class Xrootd(Server):
    """One server of the files of a folder.

    Parameters
    ----------
    more : callable, optional
        Gives what else its configuration says, for the server's folder.
    """

    def __init__(self, more: Callable[[Path], str] | None = None) -> None:
        super().__init__()
        self._more = more(self.folder) if more is not None else ""
        self._begin()

    @property
    def url(self) -> str:
        """Where its files are, without a slash at the end."""
        return f"root://127.0.0.1:{self.port}/"

    def log(self) -> str:
        """All that it has said."""
        return self._program.log()

    def put(self, name: str, content: bytes) -> None:
        """Write a file."""
        self._write(name, content)
        own(self.data)

    def kill(self) -> None:
        """End it, as a crash does."""
        self._program.kill()

    def _lines(self) -> str:
        """What else its configuration says."""
        return self._more

    def _start(self) -> None:
        config = self.folder / "server.cfg"
        config.write_text(
            f"""xrd.port {self.port}
xrd.network nodnr
all.role server
oss.localroot {self.data}
all.export /
all.adminpath {self.folder}/admin
all.pidpath {self.folder}/run
all.sitename TEST
xrootd.async on
xrootd.chksum max 2 adler32 crc32c
{self._lines()}
"""
        )
        log = config.with_suffix(".log")
        for old in self.folder.rglob(log.name):
            old.unlink()
        self._program = _Program("xrootd", "one", config)

    def _wait(self) -> None:
        def is_up() -> bool:
            log = self._program.log()
            if "initialization failed" in log:
                raise ServerError(log[-4000:])
            return "initialization completed" in log and answers(self.port)

        wait_until(is_up, self._program.log)


class XrdHttp(Xrootd):
    """A server of XRootD whose files are to be had by HTTP and WebDAV, too."""

    _http_port = (0, 0)  # which one the server with the first number has

    @property
    def url(self) -> str:
        """Where its files are, without a slash at the end."""
        return f"http://127.0.0.1:{self._http_port[1]}"

    def about(self) -> dict[str, object]:
        """Where it is."""
        return {**super().about(), "port": self._http_port[1]}

    def _lines(self) -> str:
        if self._http_port[0] != self.port:
            self._http_port = (self.port, free_port())
        return f"{self._more}xrd.protocol XrdHttp:{self._http_port[1]} libXrdHttp.so\n"

    def _wait(self) -> None:
        super()._wait()
        wait_until(lambda: answers(self._http_port[1]), self.log)


def sss(folder: Path) -> str:
    """Configure a server that wants a shared key, which it makes as ``keytab``."""
    keytab = folder / "keytab"
    key = "00112233445566778899aabbccddeeff" * 2
    keytab.write_text(f"0 u:anybody g:anygroup n:test N:6912345 c:1700000000 e:0 f:0 k:{key}\n")
    keytab.chmod(0o600)
    return f"xrootd.seclib libXrdSec.so\nsec.protocol sss -s {keytab}\n"


def tls(folder: Path, demanded: str = "all") -> str:
    """Configure a server with TLS, and make its certificate ``cert.pem``, which is its own authority.

    Parameters
    ----------
    folder : Path
        The server's folder.
    demanded : str
        What is only done under TLS: "all" or "none".

    Returns
    -------
    str
        Lines of its configuration.
    """
    certificate, key = certify(folder)
    return (
        f"xrd.tls {certificate} {key}\nxrd.tlsca certfile {certificate}\nxrootd.tls capable {demanded}\n"
        "xrootd.seclib libXrdSec.so\nsec.protocol unix\n"
    )


def gsi(folder: Path) -> str:
    """Configure a server that wants X.509 proxies, and make an authority in ``grid`` and a proxy ``grid/proxy.pem``.

    Its name is localhost, as its certificate says. Who has the proxy is told by `grid_environment`.
    """
    grid = folder / "grid"
    grid.mkdir()

    def openssl(*arguments: object) -> str:
        command = ["openssl", *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=grid).stdout.strip()

    (grid / "host.ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n")
    (grid / "user.ext").write_text("basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/DC=test/CN=ca",
            "-keyout", "ca.key", "-out", "ca.pem")  # fmt: skip
    for name, subject in (("host", "/DC=test/CN=localhost"), ("user", "/DC=test/CN=someone")):
        openssl(
            "req", "-newkey", "rsa:2048", "-nodes", "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.csr"
        )
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem")  # fmt: skip
    number = openssl("x509", "-in", "ca.pem", "-noout", "-hash")
    shutil.copy(grid / "ca.pem", grid / f"{number}.0")
    policy = "access_id_CA X509 '/DC=test/CN=ca'\npos_rights globus CA:sign\ncond_subjects globus '\"/DC=test/*\"'\n"
    (grid / f"{number}.signing_policy").write_text(policy)
    (grid / "mapfile").write_text('"/DC=test/CN=someone" someone\n')
    for key in grid.glob("*.key"):
        key.chmod(0o400)
    # it takes paths as those of the folder that PWD names
    command: list[str | Path] = [
        "xrdgsiproxy",
        "init",
        "-cert",
        grid / "user.pem",
        "-key",
        grid / "user.key",
        "-certdir",
        grid,
    ]
    command += ["-out", grid / "proxy.pem"]
    subprocess.run([*command, "-valid", "24:00"], check=True, capture_output=True, cwd=grid, stdin=subprocess.DEVNULL)
    return (
        "xrootd.seclib libXrdSec.so\n"
        f"sec.protocol gsi -certdir:{grid} -cert:{grid}/host.pem -key:{grid}/host.key -crl:0 -gridmap:{grid}/mapfile\n"
    )


def grid_environment(folder: Path, proxy: Path) -> dict[str, str]:
    """Return the variables by which a client has the proxy of a server with `gsi`.

    Parameters
    ----------
    folder : Path
        The server's folder.
    proxy : Path
        A copy of its ``grid/proxy.pem``, which belongs to the client's user.
    """
    return {"X509_CERT_DIR": str(folder / "grid"), "X509_USER_PROXY": str(proxy)}


def certify(folder: Path) -> tuple[Path, Path]:
    """Make a certificate ``cert.pem``, which is its own authority, and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([*command, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    key.chmod(0o600)
    return certificate, key


def _tls_capable(folder: Path) -> str:
    return tls(folder, "none")


# Where nginx and its modules keep what they write down for themselves.
_NGINX_FOLDERS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_NGINX_PROPFIND = Path("/usr/lib/nginx/modules/ngx_http_dav_ext_module.so")


class Nginx(Server):
    """One server of the files of a folder, by HTTP.

    The same files are below ``/`` (with pages of folders), ``/dav/`` (WebDAV), ``/whole/`` (no parts of files),
    ``/few/`` (no more than four parts at once), ``/moved/`` (redirects to ``/``), ``/signed/`` (only with
    ``?sig=a%2Fb%3D``), ``/token/`` (only with the token ``good``), ``/private/`` (only for ``me`` with ``secret``).
    Files can be put below ``/dav/``, ``/folders/`` (WebDAV that makes no folders by itself), ``/plain/`` (no WebDAV),
    ``/small/`` (up to 1 MiB) and ``/tokendav/`` (WebDAV with the token ``good``).
    What it was asked is in ``access.log``, a line for each request: method, URL, status, range, tag, authorization.

    Parameters
    ----------
    has_tls : bool
        Whether it speaks TLS, and HTTP/2.
    """

    def __init__(self, has_tls: bool = False) -> None:
        super().__init__()
        for name in _NGINX_FOLDERS:
            (self.folder / name).mkdir()
        self._scheme, self._tls = "http", ""
        if has_tls:
            certificate, key = certify(self.folder)
            self._scheme = "https"
            self._tls = f"ssl_certificate {certificate}; ssl_certificate_key {key};"
        (self.folder / "users").write_text("me:{PLAIN}secret\n")
        self._begin()

    @property
    def url(self) -> str:
        """Where its files are, without a slash at the end."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def log(self) -> str:
        """All that it has said."""
        path = self.folder / "error.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def put(self, name: str, content: bytes) -> None:
        """Write a file."""
        self._write(name, content)

    def kill(self) -> None:
        """End it."""
        # by a signal that its main process hands on to the one that works
        self._process.terminate()
        self._process.wait()

    def _start(self) -> None:
        config = self.folder / "nginx.conf"
        config.write_text(self._config())
        own(self.folder, "www-data")
        nothing = subprocess.DEVNULL
        command = ["nginx", "-p", str(self.folder), "-c", str(config), "-e", str(self.folder / "error.log")]
        self._process = subprocess.Popen(command, cwd=self.folder, stdin=nothing, stdout=nothing, stderr=nothing)

    def _wait(self) -> None:
        def is_up() -> bool:
            if self._process.poll() is not None:
                raise ServerError(self.log()[-4000:])
            return answers(self.port)

        wait_until(is_up, self.log)

    def _config(self) -> str:
        folders = "\n".join(f"{name}_temp_path {self.folder}/{name};" for name in _NGINX_FOLDERS)
        has_propfind = _NGINX_PROPFIND.exists()
        same = f"alias {self.data}/;"
        dav = "autoindex off; dav_methods PUT DELETE MKCOL COPY MOVE;"
        if has_propfind:
            dav += " dav_ext_methods PROPFIND OPTIONS;"
        return f"""
{f"load_module {_NGINX_PROPFIND};" if has_propfind else ""}
{"user www-data;" if os.geteuid() == 0 else ""}
daemon off;
worker_processes 1;
pid {self.folder}/nginx.pid;
error_log {self.folder}/error.log info;
events {{ worker_connections 1024; }}
http {{
    log_format asked '$request_method $request_uri $status "$http_range" "$http_if_match" "$http_authorization"';
    access_log {self.folder}/access.log asked;
    client_max_body_size 0;
    {folders}
    server {{
        listen 127.0.0.1:{self.port} {"ssl http2" if self._tls else ""};
        {self._tls}
        root {self.data};
        autoindex on;
        location /dav/ {{ {same} {dav} create_full_put_path on; }}
        location /folders/ {{ {same} {dav} }}
        location /plain/ {{ {same} dav_methods PUT; create_full_put_path on; }}
        location /small/ {{ {same} dav_methods PUT; client_max_body_size 1m; }}
        location /tokendav/ {{ if ($http_authorization != "Bearer good") {{ return 401; }} {same} {dav} }}
        location /whole/ {{ {same} max_ranges 0; }}
        location /few/ {{ {same} max_ranges 4; }}
        location /moved/ {{ rewrite ^/moved/(.*)$ $scheme://$http_host/$1 redirect; }}
        location /signed/ {{ if ($arg_sig != "a%2Fb%3D") {{ return 403; }} {same} }}
        location /token/ {{ if ($http_authorization != "Bearer good") {{ return 401; }} {same} }}
        location /private/ {{ auth_basic files; auth_basic_user_file {self.folder}/users; {same} }}
    }}
}}
"""


class Cluster:
    """A redirector, and two servers behind it."""

    def __init__(self) -> None:
        self.folder = _temporary()
        self.port, manager = free_port(), free_port()
        self.servers = [free_port(), free_port()]
        self.data = [self.folder / name / "data" for name in ("ds0", "ds1")]
        self._programs = []
        for name, port in zip(("mgr", "ds0", "ds1"), (self.port, *self.servers), strict=True):
            place = self.folder / name
            for part in ("data", "admin", "run"):
                (place / part).mkdir(parents=True)
            for program, own_port in (("cmsd", manager if name == "mgr" else "any"), ("xrootd", port)):
                config = place / f"{program}.cfg"
                config.write_text(
                    f"""all.manager localhost:{manager}
all.role {"manager" if name == "mgr" else "server"}
xrd.port {own_port}
xrd.network nodnr
oss.localroot {place}/data
all.export /
all.adminpath {place}/admin
all.pidpath {place}/run
cms.delay startup 5 servers 1 lookup 2
cms.space min 1m 1m
"""
                )
                own(self.folder)
                self._programs.append(_Program(program, name, config))
        wait_until(lambda: all(map(answers, (self.port, *self.servers))), self.log)
        # the redirector's manager says when a server has logged in; the redirector itself does so, too
        wait_until(lambda: self._programs[0].log().count("Protocol: Primary server.") >= 2, self.log)

    @property
    def url(self) -> str:
        """Where its files are, without a slash at the end."""
        return f"root://127.0.0.1:{self.port}/"

    def log(self) -> str:
        """All that its programs have said."""
        return "".join(program.log() for program in self._programs)

    def put(self, server: int, name: str, content: bytes) -> None:
        """Write a file on one of the servers."""
        (self.data[server] / name).write_bytes(content)
        own(self.data[server])

    def kill(self) -> None:
        """End all of it."""
        for program in self._programs:
            program.kill()

    def close(self) -> None:
        """End it, and remove its files."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def about(self) -> dict[str, object]:
        """Where it is."""
        data = [str(path) for path in self.data]
        return {"port": self.port, "data": data, "folder": str(self.folder), "servers": self.servers}


def cache_of(origin: int) -> Callable[[Path], str]:
    """Configure a proxy that keeps what it has read (XCache), of a server on a port of this machine."""
    return lambda folder: (
        f"ofs.osslib libXrdPss.so\npss.cachelib default\npss.origin 127.0.0.1:{origin}\npfc.ram 1g\n# in {folder}\n"
    )


class Cache:
    """A proxy that keeps what it has read (XCache), and the server that has the files."""

    def __init__(self) -> None:
        self.origin = Xrootd()
        try:
            self.proxy = Xrootd(cache_of(self.origin.port))
        except ServerError:
            self.origin.close()
            raise

    @property
    def url(self) -> str:
        """Where its files are, without a slash at the end."""
        return self.proxy.url

    def put(self, name: str, content: bytes) -> None:
        """Write a file on the server."""
        self.origin.put(name, content)

    def kill(self) -> None:
        """End both."""
        self.proxy.kill()
        self.origin.kill()

    def close(self) -> None:
        """End both, and remove their files."""
        self.proxy.close()
        self.origin.close()

    def about(self) -> dict[str, object]:
        """Where they are."""
        return {**self.origin.about(), "port": self.proxy.port}


class Running(Protocol):
    """What all of them have."""

    def kill(self) -> None:
        """End it, as a crash does."""

    def close(self) -> None:
        """End it, and remove its files."""

    def about(self) -> dict[str, object]:
        """Where it is."""


def _object_store(name: str, *arguments: object) -> Running:
    import object_servers

    server: Running = getattr(object_servers, name)(*arguments)
    return server


def _redis(name: str, *arguments: object) -> Running:
    import redis_servers

    server: Running = getattr(redis_servers, name)(*arguments)
    return server


def _toxiproxy() -> Running:
    import toxiproxy

    return toxiproxy.Toxiproxy()


def _of_ways(server: Running, command: str) -> bool:
    """Obey a command about ways to servers, or about one server of several, if it is one and there are such."""
    verb, *words = command.split()
    of_ways = ("before", "poison", "heal", "close_way", "open_way")
    of_servers = ("kill_server", "stop_server", "continue_server", "start_server", "cut_server", "heal_server")
    verbs = (*of_ways, *of_servers)
    if verb not in verbs or not hasattr(server, verb):
        return False
    numbers = [int(word) for word in words if word.isdecimal()]
    names = [word for word in words if not word.isdecimal() and "=" not in word]
    attributes = {name: int(number) for name, _, number in (word.partition("=") for word in words if "=" in word)}
    getattr(server, verb)(*numbers, *names, **attributes)
    return True


KINDS: dict[str, Callable[[], Running]] = {
    "xrootd": lambda: Xrootd(),
    "sss": lambda: Xrootd(sss),
    "gsi": lambda: Xrootd(gsi),
    "tls": lambda: Xrootd(tls),
    "tls-capable": lambda: Xrootd(_tls_capable),
    "xrdhttp": lambda: XrdHttp(),
    "nginx": lambda: Nginx(),
    "nginx-tls": lambda: Nginx(has_tls=True),
    "cluster": lambda: Cluster(),
    "cache": lambda: Cache(),
    "minio": lambda: _object_store("Minio"),
    "minio-tls": lambda: _object_store("Minio", True),
    "azurite": lambda: _object_store("Azurite"),
    "fake-gcs": lambda: _object_store("FakeGcs"),
    "redis": lambda: _redis("Redis"),
    "redis-no-log": lambda: _redis("Redis", False, False),
    "redis-tls": lambda: _redis("Redis", True),
    "redis-cluster": lambda: _redis("RedisCluster"),
    "redis-cluster-tls": lambda: _redis("RedisCluster", True),
    "redis-cluster-net": lambda: _redis("RedisClusterNet"),
    "toxiproxy": lambda: _toxiproxy(),
}


def main() -> None:
    """Start a server for another program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kind", choices=KINDS)
    server = KINDS[parser.parse_args().kind]()
    try:
        print(json.dumps(server.about()), flush=True)
        for line in sys.stdin:
            match line.strip(), server:
                case "kill", _:
                    server.kill()
                case "restart", running if hasattr(running, "restart"):
                    running.restart()
                case command, store if command.startswith("put ") and hasattr(store, "put"):
                    # from the file with its content, as which it ends
                    name, _, place = command.removeprefix("put ").rpartition(" ")
                    store.put(name, Path(place).read_bytes())
                    Path(place).unlink()
                case command, ways if _of_ways(ways, command):
                    pass
                case command, _:
                    raise SystemExit(f"there is no {command!r}")
            print("done", flush=True)
    finally:
        server.close()


if __name__ == "__main__":
    main()
