"""The parsers that init proposes are in the registries of a real vLLM."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployctl.vllm.serving.parsers import FAMILIES

pytestmark = [pytest.mark.vllm, pytest.mark.slow]


def test_every_name_is_registered(vllm_environment: Path) -> None:
    (package,) = vllm_environment.glob("lib/python3*/site-packages/vllm")
    for folder, names in (
        ("tool_parsers", {family.tools for family in FAMILIES}),
        ("reasoning", {family.reasoning for family in FAMILIES}),
    ):
        text = (package / folder / "__init__.py").read_text("utf-8")
        assert [name for name in names if name and f'"{name}"' not in text] == []
