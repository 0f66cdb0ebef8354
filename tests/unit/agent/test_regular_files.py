"""A FIFO, a device or a folder under a file's name is told, and never waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.build import installed, sources, wheel_store
from deployctl.agent.core.interface import AgentError, Call
from deployctl.agent.core.regular_files import NotRegular, TooBig, read_bytes, read_piece
from deployctl.agent.store import files, garbage, models, release_status, releases
from deployctl.agent.supervision import jobs, units


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return Call(str(tmp_path), lambda event: None)


def fifo(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


ASKED: dict[str, tuple[str, Callable[[Call], Any]]] = {
    "a model's config": ("m/config.json", lambda call: models.survey(call, "@/m")),
    "its index": ("m/model.safetensors.index.json", lambda call: models.survey(call, "@/m")),
    "its tokenizer": ("m/tokenizer_config.json", lambda call: models.survey(call, "@/m")),
    "its weights": ("m/a.safetensors", lambda call: models.survey(call, "@/m")),
    "a checksum": ("m/a", lambda call: models.checksums(call, "@/m", ["a"])),
    "a view's source": ("m/config.json", lambda call: models.view(call, "@/m", "@/v")),
    "a file": ("f", lambda call: files.read(call, "@/f")),
    "a tree": ("t/f", lambda call: files.tree_digest(call, "@/t")),
    "a ledger": ("profiles/p/ledger.jsonl", lambda call: releases.ledger(call, "p")),
    "a manifest": (
        "profiles/p/units/server/releases/r/manifest.json",
        lambda call: releases.state(call, "p", "server"),
    ),
    "a seal": ("environments/e/seal.json", lambda call: releases.state(call, "p", "server")),
    "a failure": (
        "profiles/p/units/server/releases/r/failed.json",
        lambda call: release_status.failed(call, "p", "server"),
    ),
    "a kept log": (
        "profiles/p/units/server/releases/r/server.log",
        lambda call: release_status.log(call, "p", "server", "r"),
    ),
    "an inventory": (
        "profiles/p/units/server/releases/r/launch.json",
        lambda call: garbage.inventory(call),
    ),
    "a job": ("jobs/j/state.json", lambda call: jobs.state(call, "j")),
    "a job's log": ("jobs/j/log", lambda call: jobs.log(call, "j")),
    "a unit": (
        "profiles/u/units/server/server/spec.json",
        lambda call: units.state(call, "u", "server"),
    ),
    "a wheel's record": ("wheels/k/wheel.json", lambda call: wheel_store.wheels(call)),
    "a record": (
        "e/lib/python3.11/site-packages/vllm-1.dist-info/RECORD",
        lambda call: installed.complete(call, "@/e"),
    ),
    "a wheel": ("w.whl", lambda call: sources.resolve_source(call, wheel="@/w.whl")),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("place", "ask"), ASKED.values(), ids=ASKED.keys())
def test_a_fifo_is_not_waited_for(
    call: Call, tmp_path: Path, place: str, ask: Callable[[Call], Any]
) -> None:
    fifo(tmp_path / place)
    try:
        ask(call)
    except (AgentError, OSError) as error:
        assert str(error)


def test_what_is_said_of_one(call: Call, tmp_path: Path) -> None:
    fifo(tmp_path / "m" / "config.json")
    with pytest.raises(AgentError, match="not a regular file") as caught:
        models.survey(call, "@/m")
    assert caught.value.kind == "not-a-file"
    for path in (tmp_path / "m" / "config.json", tmp_path, Path("/dev/null")):
        with pytest.raises(NotRegular):
            read_bytes(str(path), 10)


def test_too_big(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 11)
    assert read_bytes(str(tmp_path / "f"), 11) == b"x" * 11
    with pytest.raises(TooBig, match="more than 10 bytes"):
        read_bytes(str(tmp_path / "f"), 10)


def test_a_deep_config_is_an_error_of_that_file(call: Call, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    deep = "[" * 100_000 + "]" * 100_000
    (tmp_path / "m" / "model.safetensors.index.json").write_text(deep)
    (tmp_path / "m" / "tokenizer_config.json").write_text(deep)
    found = models.survey(call, "@/m")
    assert "cannot be read" in found["damaged"]["model.safetensors.index.json"]
    assert found["mask_tokens"] is None


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, b"abc"), (2, b"cde"), (-2, b"ef"), (-99, b"abc"), (6, b""), (7, b"abc")],
)
def test_a_piece_of_a_growing_file(tmp_path: Path, offset: int, expected: bytes) -> None:
    (tmp_path / "log").write_bytes(b"abcdef")
    assert read_piece(str(tmp_path / "log"), offset, 3).data == expected
    assert read_piece(str(tmp_path / "none"), offset, 3).size == 0
