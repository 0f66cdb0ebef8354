"""Weights are read into memory before a switch, where there is memory for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deployctl.agent.core import memory
from deployctl.agent.core.interface import Call
from deployctl.agent.store import page_cache
from deployctl.agent.wire.stored import ReadAhead


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = tmp_path / "model"
    model.mkdir()
    (model / "a.safetensors").write_bytes(b"w" * (9 << 20))
    (model / "config.json").write_text("{}")
    view = tmp_path / "view"
    view.mkdir()
    (view / "a.safetensors").symlink_to(model / "a.safetensors")
    (view / "gone.safetensors").symlink_to(tmp_path / "nowhere")
    return tmp_path


def read(folder: Path, keep: int = 0, limit: float = 60.0) -> ReadAhead:
    call = Call(str(folder), lambda event: None)
    paths = [str(folder / "model"), str(folder / "view"), str(folder / "nowhere")]
    return page_cache.read_ahead(call, paths, keep, limit)


def test_weights_are_read_once_however_many_links_lead_to_them(folder: Path) -> None:
    size = 9 << 20
    handle = os.open(folder / "model/a.safetensors", os.O_RDONLY)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)
    first, second = read(folder), read(folder)
    assert (first["bytes"], first["read"], first["skipped"]) == (size, size, None)
    assert first["resident"] <= size
    # A file system that keeps no pages, or does not tell, says 0.
    assert second["resident"] in (0, size)


def test_without_memory_or_time_none_are_read_and_it_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(folder, limit=-1.0)["skipped"] == "-1 s were over"
    monkeypatch.setattr(memory, "available", lambda: 12 << 20)
    found = read(folder, keep=8 << 20)
    assert found["read"] == 0 and found["skipped"] == "9 MiB of weights, 4 MiB of memory for them"
    assert read(folder, keep=1 << 20)["skipped"] is None
