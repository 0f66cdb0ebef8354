"""A small hub of models for tests: huggingface_hub downloads from it as from the real one.

It serves repositories from folders. A repository may be gated (a token opens it), hang after some
bytes of a file once, or hand out a file that is not what it promised.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

API = re.compile(r"^/api/models/(?P<repo>[^/]+/[^/]+)(?:/revision/(?P<rev>[^/?]+))?(?:\?.*)?$")
TREE = re.compile(r"^/api/models/(?P<repo>[^/]+/[^/]+)/tree/(?P<rev>[^/?]+)(?:\?.*)?$")
FILE = re.compile(r"^/(?P<repo>[^/]+/[^/]+)/resolve/(?P<rev>[^/]+)/(?P<name>.+)$")


@dataclass
class Repository:
    """One repository at one commit; `main` names it too."""

    folder: Path
    commit: str
    gated: bool = False
    hang_once_after: int | None = None
    damaged: str = ""
    hung: threading.Event = field(default_factory=threading.Event)

    def files(self) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in sorted(self.folder.iterdir()) if p.is_file()}


@dataclass
class Hub:
    """The server: its URL, repositories, the token that opens gated ones, and every request."""

    url: str
    repositories: dict[str, Repository]
    token: str = "hf_open"
    requests: list[str] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, body: bool) -> None:
        self.hub.requests.append(f"{self.command} {self.path}")
        found = API.match(self.path) or TREE.match(self.path) or FILE.match(self.path)
        repository = self.hub.repositories.get(found["repo"]) if found else None
        if found is None or repository is None:
            return self.refuse(404, "RepoNotFound")
        if found["rev"] not in (None, "main", repository.commit):
            return self.refuse(404, "RevisionNotFound")
        if FILE.match(self.path):
            return self.file(repository, found["name"], body)
        entries = [self.entry(repository, name) for name in repository.files()]
        if TREE.match(self.path):
            return self.send_json(
                [{"type": "file", "path": e["rfilename"], "oid": "0", **e} for e in entries]
            )
        return self.send_json(
            {
                "id": found["repo"],
                "sha": repository.commit,
                "gated": repository.gated,
                "private": False,
                "downloads": 0,
                "likes": 0,
                "tags": [],
                "siblings": entries,
            }
        )

    def entry(self, repository: Repository, name: str) -> dict[str, Any]:
        data = repository.files()[name]
        entry: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": "0"}
        if name.endswith(".safetensors"):
            digest = hashlib.sha256(data).hexdigest()
            entry["lfs"] = {"sha256": digest, "size": len(data), "pointerSize": 1, "oid": digest}
        return entry

    def file(self, repository: Repository, name: str, body: bool) -> None:
        allowed = self.headers.get("Authorization") == f"Bearer {self.hub.token}"
        if repository.gated and not allowed:
            return self.refuse(403 if "Authorization" in self.headers else 401, "GatedRepo")
        data = repository.files().get(name)
        if data is None:
            return self.refuse(404, "EntryNotFound")
        etag = hashlib.sha256(data).hexdigest()
        if name == repository.damaged:
            data = b"x" * len(data)
        first = int((self.headers.get("Range") or "bytes=0-").split("=")[1].split("-")[0])
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("ETag", f'"{etag}"')
        self.send_header("X-Repo-Commit", repository.commit)
        self.send_header("Accept-Ranges", "bytes")
        if "Range" in self.headers:
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - first))
        self.end_headers()
        if body:
            self.send_data(repository, name, data, first)
        return None

    def send_data(self, repository: Repository, name: str, data: bytes, first: int) -> None:
        cut = repository.hang_once_after
        if cut is not None and name.endswith(".safetensors") and not repository.hung.is_set():
            repository.hung.set()
            self.wfile.write(data[first : first + cut])
            self.wfile.flush()
            self.hub.release.wait(60)
            self.close_connection = True
            return
        self.wfile.write(data[first:])

    def refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send_json(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serve(repositories: dict[str, Repository]) -> Iterator[Hub]:
    """Run a hub on a loopback port."""
    handler = type("BoundHandler", (Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        hub = Hub(f"http://127.0.0.1:{server.server_port}", repositories)
        handler.hub = hub  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield hub
        finally:
            hub.release.set()
            server.shutdown()
            thread.join()
