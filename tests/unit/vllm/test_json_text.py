"""JSON of others: a value, or ValueError, however deep."""

from __future__ import annotations

import pytest

from deployctl.vllm.drafters.drafter import DrafterConfigError, parse
from deployctl.vllm.json_text import DEEPEST, parsed


@pytest.mark.parametrize("levels", [DEEPEST + 1, 900, 5_000, 100_000])
@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"a":', "}")])
def test_beyond_the_deepest(levels: int, left: str, right: str) -> None:
    text = left * levels + "1" + right * levels
    with pytest.raises(ValueError, match="nested too deeply"):
        parsed(text)
    with pytest.raises(DrafterConfigError, match="nested too deeply"):
        parse(text)


def test_the_deepest() -> None:
    text = "[" * DEEPEST + "]" * DEEPEST
    assert parsed(text) == parsed(text.encode())


@pytest.mark.parametrize("text", ["", "{", "9" * 5000, b"\xff"])
def test_what_is_none(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parsed(text)
