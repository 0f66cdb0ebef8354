"""Models whose files are not of the form that they should have: damaged, each with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployctl.agent.core.interface import Call
from deployctl.agent.store import models


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return Call(str(tmp_path), lambda event: None)


@pytest.mark.parametrize(
    "header",
    [
        "[]",
        "7",
        "{",
        '{"a": {}}',
        '{"a": {"data_offsets": [], "shape": []}}',
        '{"a": {"data_offsets": ["x", "y"], "shape": []}}',
        "[" * 100_000,
    ],
)
def test_a_header_of_another_form(call: Call, tmp_path: Path, header: str) -> None:
    data = header.encode()
    (tmp_path / "x.safetensors").write_bytes(len(data).to_bytes(8, "little") + data)
    damaged = models.survey(call, "@", tensors=True)["damaged"]
    assert "header cannot be read" in damaged["x.safetensors"]


@pytest.mark.parametrize("text", ["[]", "{}", '{"weight_map": [1]}', "no JSON"])
def test_an_index_of_another_form(call: Call, tmp_path: Path, text: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(text)
    damaged = models.survey(call, "@")["damaged"]
    assert "cannot be read" in damaged["model.safetensors.index.json"]
