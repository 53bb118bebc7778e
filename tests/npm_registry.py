"""A registry on the loopback interface for the real npm client, with packages made here."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bisect_bot.builds import eras
from bisect_bot.builds.npm import PACKAGE


@dataclass
class Registry:
    """Packages by version. `broken` makes a version's tarball another than its integrity says; `status` all fail."""

    url: str = ""
    packages: dict[str, bytes] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    status: int = 200
    tarballs_sent: list[str] = field(default_factory=list)

    def document(self) -> bytes:
        """What the registry answers for the package's name."""
        versions = {v: self._manifest(v, data) for v, data in self.packages.items()}
        latest = next(reversed(versions), None)
        return json.dumps({"name": PACKAGE, "dist-tags": {"latest": latest}, "versions": versions}).encode()

    def tarball(self, version: str) -> bytes:
        """The bytes sent for a version."""
        self.tarballs_sent.append(version)
        return self.packages[version] + (b"tampered" if version in self.broken else b"")

    def _manifest(self, version: str, data: bytes) -> dict[str, object]:
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
        tarball = f"{self.url}{PACKAGE}/-/{PACKAGE}-{version}.tgz"
        return {"name": PACKAGE, "version": version, "dist": {"tarball": tarball, "integrity": integrity}}


@contextmanager
def serve(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry that npm asks, as its environment says, with npm's cache and logs in `home`."""
    registry = Registry()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix(f"/{PACKAGE}")
            version = path.removeprefix(f"/-/{PACKAGE}-").removesuffix(".tgz")
            if registry.status != 200:
                status, body = registry.status, b'{"error": "no \\u001b[31mentry"}'
            elif path == "" and self.path != "/" and registry.packages:
                status, body = 200, registry.document()
            elif version in registry.packages:
                status, body = 200, registry.tarball(version)
            else:
                status, body = 404, b"{}"
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "application/json" if path == "" else "application/octet-stream")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_port}/"
    settings = {"registry": registry.url, "cache": str(home / "npm-cache"), "fetch_retries": "0", "audit": "false"}
    for name, value in settings.items():
        monkeypatch.setenv(f"npm_config_{name}", value)
        monkeypatch.delenv(f"NPM_CONFIG_{name.upper()}", raising=False)
    for name in ("proxy", "https_proxy", "http_proxy"):
        monkeypatch.setenv(f"npm_config_{name}", "")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def package(files: Mapping[str, bytes]) -> bytes:
    """A gzipped tar of `files`, named below `package/` as npm has them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def build(version: str, commit: str = "0123456789", more: Mapping[str, bytes] | None = None) -> bytes:
    """A package with every file that the era of `version` needs, small; `.wasm` with the commit id inside."""
    files = {"package.json": json.dumps({"name": PACKAGE, "version": version}).encode()}
    for name in sorted(eras.needed_files(version)):
        wasm = f"\0asm of {name} git-commit-id={commit}, built".encode()
        files[f"dist/{name}"] = wasm if name.endswith(".wasm") else f"// {name}".encode()
    return package(files | dict(more or {}))
