"""Kept wheels are counted and removed while others do the same."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.build import wheel_store
from deployctl.agent.core import atomic_files
from deployctl.agent.core.interface import Call


@pytest.fixture
def call(tmp_path: Path) -> Call:
    for number in range(3):
        folder = tmp_path / "wheels" / f"key{number}"
        folder.mkdir(parents=True)
        (folder / "vllm.whl").write_bytes(b"wheel")
        record = {"wheel": "vllm.whl", "size": 5, "built": number}
        (folder / "wheel.json").write_text(json.dumps(record))
        os.utime(folder / "vllm.whl", (number + 10, number + 10))
    return Call(str(tmp_path), lambda event: None)


def test_the_longest_unused_go_and_those_in_use_stay(call: Call) -> None:
    done = wheel_store.prune_wheels(call, limit=5, keep=["key0"])
    assert done == {"removed": ["key1", "key2"], "size": 5}
    assert [wheel["key"] for wheel in wheel_store.wheels(call)] == ["key0"]


def test_one_that_goes_between_two_looks(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    real = atomic_files.read_json

    def read(path: str) -> dict[str, Any] | None:
        found = real(path)
        if "key1" in path:
            Path(path).with_name("vllm.whl").unlink()
        return found

    monkeypatch.setattr(wheel_store, "read_json", read)
    whole = {wheel["key"]: wheel["whole"] for wheel in wheel_store.wheels(call)}
    assert whole == {"key0": True, "key1": False, "key2": True}


def test_what_another_removes_is_not_ours(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = wheel_store.wheels(call)
    assert wheel_store.prune_wheels(call, limit=10, keep=[])["removed"] == ["key0"]
    monkeypatch.setattr(wheel_store, "wheels", lambda call: kept)
    done = wheel_store.prune_wheels(call, limit=5, keep=[])
    assert done == {"removed": ["key1"], "size": 5}
