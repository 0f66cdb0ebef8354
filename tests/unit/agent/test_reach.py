"""Whether a host without uv reaches the index that its builds install from."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl.agent.build import reach
from deployctl.agent.core.interface import Call

PAGE = '<a href="x/Flash_Attn-2.8.3-py3-none-any.whl">x</a><a href="x/flash-attn-2.9.tar.gz">x</a>'


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path == "/simple/flash-attn/"
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(PAGE.encode() if found else b"")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(reach, "CONFIGURED", ("~/uv.toml",))
    return Call(str(tmp_path), lambda event: None)


@pytest.mark.parametrize(
    ("requirement", "resolves", "why"),
    [
        ("flash.attn==2.8.3", True, ""),
        ("FLASH_attn==2.9", True, ""),
        ("flash-attn", True, ""),
        ("flash-attn==2.8", False, "the index has no flash-attn==2.8"),
        ("flash-attn==3.0", False, "the index has no flash-attn==3.0"),
        ("flash==2.8.3", False, "HTTP 404 for flash"),
    ],
)
def test_the_index_is_asked(
    call: Call, index: str, requirement: str, resolves: bool, why: str
) -> None:
    found = reach.reaches(call, None, requirement, {"UV_DEFAULT_INDEX": index})
    assert (found["resolves"], found["answers"], found["why"]) == (resolves, True, why)


def test_no_index_answers(call: Call) -> None:
    found = reach.reaches(call, None, "vllm==1", {"UV_INDEX_URL": "http://127.0.0.1:9/simple"})
    assert (found["resolves"], found["answers"]) == (False, False)
    assert "refused" in found["why"]


def test_uvs_own_configuration_is_not_guessed(call: Call, tmp_path: Path) -> None:
    (tmp_path / "uv.toml").touch()
    assert reach.reaches(call, None, "vllm==1") == {"resolves": None, "answers": None, "why": ""}
