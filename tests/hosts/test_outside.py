"""Where a connection to an index, a repository or a hub ends, in the words of the real uv, git and
Python.
"""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from deployctl.agent.build import outside
from deployctl.agent.core.interface import Call
from deployctl.agent.store.hub import Hub, Refused
from deployctl.engine.inspect.checks import network
from tests.hosts.lab.ports import free_port

CERTIFICATE = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=own"


@pytest.fixture
def own_authority(tmp_path: Path) -> Iterator[str]:
    """A server whose certificate no authority has signed."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl")
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "own.pem")]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([openssl, *CERTIFICATE.split(), *files, *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "own.pem", tmp_path / "key.pem")
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def stages(base: str, root: Path) -> list[str]:
    """The stages at which uv, git and the hub's client end."""
    call = Call(str(root), lambda event: None)
    found = [
        outside.index(call, {"UV_DEFAULT_INDEX": f"{base}/simple"})["stage"],
        outside.repository(call, f"{base}/vllm.git")["stage"],
    ]
    with pytest.raises(Refused) as refused:
        Hub(base, None).model("a/b", "main")
    return [*found, network._stage(str(refused.value).partition(": ")[2])]


def test_a_certificate_that_is_not_trusted(own_authority: str, tmp_path: Path) -> None:
    assert stages(own_authority, tmp_path) == ["certificate"] * 3


def test_a_port_that_is_closed(tmp_path: Path) -> None:
    assert stages(f"https://127.0.0.1:{free_port()}", tmp_path) == ["connect"] * 3


def test_a_name_that_has_no_address(tmp_path: Path) -> None:
    assert stages("https://no-such-host.invalid", tmp_path) == ["name"] * 3


def test_a_proxy_that_is_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    assert stages("https://no-such-host.invalid", tmp_path)[:2] == ["proxy", "proxy"]
