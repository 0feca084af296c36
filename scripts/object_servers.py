"""Object stores for tests, started by `servers.py`: MinIO (S3), Azurite (Azure) and fake-gcs-server (Google)."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
import shutil
import urllib.parse
import xml.etree.ElementTree
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from installed import Installed
from servers import ServerError, tls, wait_until

_REGION = "us-east-1"

# The only account of Azurite, from its documentation.
_AZURITE_ACCOUNT = "devstoreaccount1"
_AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class _Store(Installed):
    """An object store with two buckets in its own directory."""

    buckets = ("private", "public")

    def _wait(self) -> None:
        super()._wait()
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """Prepare the server before it is used."""

    def about(self) -> dict[str, object]:
        """Return the URL and the credentials."""
        scheme = "http" if self.certificates is None else "https"
        return {
            **super().about(),
            "endpoint": f"{scheme}://127.0.0.1:{self.port}",
            "access_key_id": "",
            "secret_access_key": "",
        }


class Minio(_Store):
    """An S3 server with a bucket `private`, and a bucket `public` that everybody may read.

    Parameters
    ----------
    is_secure : bool
        Whether to use TLS, with the self-signed certificate `cert.pem` in its directory.
    """

    program = "minio"
    key = "testing-key"
    secret = "testing-secret"

    def __init__(self, is_secure: bool = False) -> None:
        self._is_secure = is_secure
        super().__init__()

    def _command(self, program: str) -> tuple[Sequence[str | Path], Mapping[str, str]]:
        # a bucket is a directory
        for bucket in self.buckets:
            (self.data / bucket).mkdir(exist_ok=True)
        certificates = self.folder / "certs"
        certificates.mkdir(exist_ok=True)
        if self._is_secure and self.certificates is None:
            tls(self.folder)
            self.certificates = self.folder / "cert.pem"
            shutil.copy(self.certificates, certificates / "public.crt")
            shutil.copy(self.folder / "key.pem", certificates / "private.key")
        command = [program, "server", "--quiet", "--address", f"127.0.0.1:{self.port}"]
        variables = {
            "MINIO_ROOT_USER": self.key,
            "MINIO_ROOT_PASSWORD": self.secret,
            "MINIO_UPDATE": "off",
            "MINIO_BROWSER": "off",
        }
        return [*command, "--certs-dir", certificates, self.data], variables

    def _prepare(self) -> None:
        actions = {
            "s3:GetObject": "arn:aws:s3:::public/*",
            "s3:ListBucket": "arn:aws:s3:::public",
        }
        statement = [
            {"Effect": "Allow", "Principal": {"AWS": ["*"]}, "Action": [action], "Resource": [resource]}
            for action, resource in actions.items()
        ]
        policy = json.dumps({"Version": "2012-10-17", "Statement": statement})

        # it answers, and claims to be ready, before it is
        def is_ready() -> bool:
            try:
                self.request("GET", "/minio/health/ready", "", b"", {})
                self._signed("PUT", "/public", "policy=", policy.encode())
            except ServerError:
                return False
            return True

        wait_until(is_ready, self.log)

    def put(self, name: str, content: bytes) -> None:
        """Write an object: its bucket, a slash, and its key."""
        self._signed("PUT", f"/{urllib.parse.quote(name)}", "", content)

    def copy(self, source: str, name: str) -> None:
        """Copy an object with its metadata, in the store."""
        self._signed("PUT", f"/{urllib.parse.quote(name)}", "", b"", {"x-amz-copy-source": f"/{source}"})

    def get(self, name: str) -> bytes:
        """Read an object: its bucket, a slash, and its key."""
        return self._signed("GET", f"/{urllib.parse.quote(name)}", "", b"")

    def delete(self, name: str) -> None:
        """Delete an object: its bucket, a slash, and its key."""
        self._signed("DELETE", f"/{urllib.parse.quote(name)}", "", b"")

    def presigned(self, method: str, name: str, digest: str = "UNSIGNED-PAYLOAD", seconds: int = 3600) -> str:
        """Return path and query of a request for an object, which needs no credentials.

        Parameters
        ----------
        method : str
            The method.
        name : str
            The bucket, a slash, and the key.
        digest : str
            The SHA-256 of the body, which the request must have as header `x-amz-content-sha256`; by default, none is
            needed.
        seconds : int
            The time for which it is valid.

        Returns
        -------
        str
            The target of the request, whose header `Host` must be that of this server.
        """
        now, scope = self._now()
        path = f"/{urllib.parse.quote(name)}"
        query = {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": f"{self.key}/{scope}",
            "X-Amz-Date": now,
            "X-Amz-Expires": str(seconds),
            "X-Amz-SignedHeaders": "host",
        }
        asked = urllib.parse.urlencode(query, quote_via=urllib.parse.quote, safe="")
        lines = [method, path, asked, f"host:127.0.0.1:{self.port}\n", "host", digest]
        return f"{path}?{asked}&X-Amz-Signature={self._signature(now, scope, lines)}"

    def _now(self) -> tuple[str, str]:
        """Return the time, and the scope of signatures."""
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        return now, f"{now[:8]}/{_REGION}/s3/aws4_request"

    def _signature(self, now: str, scope: str, canonical: Sequence[str]) -> str:
        digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
        key = f"AWS4{self.secret}".encode()
        for part in [*scope.split("/"), f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}"]:
            key = hmac.digest(key, part.encode(), "sha256")
        return key.hex()

    def _signed(self, method: str, path: str, query: str, body: bytes, more: Mapping[str, str] | None = None) -> bytes:
        """Send a request with an AWS signature version 4."""
        now, scope = self._now()
        headers = {
            "host": f"127.0.0.1:{self.port}",
            "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
            "x-amz-date": now,
        }
        headers = dict(sorted((headers | dict(more or {})).items()))
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        signature = self._signature(now, scope, [method, path, query, lines, names, headers["x-amz-content-sha256"]])
        credential = f"Credential={self.key}/{scope}, SignedHeaders={names}, Signature={signature}"
        headers["authorization"] = f"AWS4-HMAC-SHA256 {credential}"
        return self.request(method, path, query, body, headers)

    def about(self) -> dict[str, object]:
        """Return the URL and the credentials."""
        return {**super().about(), "access_key_id": self.key, "secret_access_key": self.secret}


class Azurite(_Store):
    """A server for Azure's protocol with two containers; everybody may read `public`."""

    program = "azurite-blob"

    def _command(self, program: str) -> tuple[Sequence[str | Path], Mapping[str, str]]:
        command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location", str(self.data)]
        return [*command, "--silent", "--disableTelemetry", "--skipApiVersionCheck"], {}

    def _prepare(self) -> None:
        for bucket in self.buckets:
            more = {"x-ms-blob-public-access": "container"} if bucket == "public" else {}
            self._signed("PUT", f"/{_AZURITE_ACCOUNT}/{bucket}", {"restype": "container"}, b"", more)

    def put(self, name: str, content: bytes) -> None:
        """Write an object: its container, a slash, and its key."""
        path = f"/{_AZURITE_ACCOUNT}/{urllib.parse.quote(name)}"
        self._signed("PUT", path, {}, content, {"x-ms-blob-type": "BlockBlob"})

    def names(self, bucket: str, prefix: str) -> list[str]:
        """Return the keys of a container that begin with a prefix, at most 5000."""
        query = {"restype": "container", "comp": "list", "prefix": prefix}
        found = self._signed("GET", f"/{_AZURITE_ACCOUNT}/{bucket}", query, b"", {})
        return [name.text or "" for name in xml.etree.ElementTree.fromstring(found).iter("Name")]

    def _signed(self, method: str, path: str, query: Mapping[str, str], body: bytes, more: Mapping[str, str]) -> bytes:
        """Send a request with an Azure shared key."""
        now = datetime.datetime.now(datetime.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        own = {**more, "x-ms-date": now, "x-ms-version": "2021-08-06"}
        length = str(len(body)) if body else ""
        lines = [method, "", "", length, "", "application/octet-stream", *[""] * 6]
        lines += [f"{name}:{value}" for name, value in sorted(own.items())]
        lines += [f"/{_AZURITE_ACCOUNT}{path}", *[f"{name}:{value}" for name, value in sorted(query.items())]]
        signature = hmac.digest(base64.b64decode(_AZURITE_KEY), "\n".join(lines).encode(), "sha256")
        own["authorization"] = f"SharedKey {_AZURITE_ACCOUNT}:{base64.b64encode(signature).decode()}"
        own["content-type"] = "application/octet-stream"
        return self.request(method, path, urllib.parse.urlencode(query), body, own)

    def about(self) -> dict[str, object]:
        """Return the URL and the credentials."""
        about = super().about()
        keys = {"access_key_id": _AZURITE_ACCOUNT, "secret_access_key": _AZURITE_KEY}
        return {**about, **keys, "endpoint": f"{about['endpoint']}/{_AZURITE_ACCOUNT}"}


class FakeGcs(_Store):
    """A server for Google's protocol without authentication."""

    program = "fake-gcs-server"

    def _command(self, program: str) -> tuple[Sequence[str | Path], Mapping[str, str]]:
        place = f"127.0.0.1:{self.port}"
        command = [program, "-scheme", "http", "-host", "127.0.0.1", "-port", str(self.port), "-backend", "memory"]
        return [*command, "-public-host", place, "-external-url", f"http://{place}", "-log-level", "error"], {}

    def _prepare(self) -> None:
        for bucket in self.buckets:
            body = json.dumps({"name": bucket}).encode()
            self.request("POST", "/storage/v1/b", "project=test", body, {"content-type": "application/json"})

    def put(self, name: str, content: bytes) -> None:
        """Write an object: its bucket, a slash, and its key."""
        bucket, key = name.split("/", 1)
        query = urllib.parse.urlencode({"uploadType": "media", "name": key})
        kind = {"content-type": "application/octet-stream"}
        self.request("POST", f"/upload/storage/v1/b/{bucket}/o", query, content, kind)

    def names(self, bucket: str, prefix: str) -> list[str]:
        """Return the keys of a bucket that begin with a prefix."""
        query = urllib.parse.urlencode({"prefix": prefix})
        found = json.loads(self.request("GET", f"/storage/v1/b/{bucket}/o", query, b"", {}))
        return [item["name"] for item in found.get("items", ())]
