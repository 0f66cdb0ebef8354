"""docs/logs.md is what the tables say."""

from __future__ import annotations

from pathlib import Path

from deployctl.vllm.logs.causes.document import markdown

PAGE = Path(__file__).parents[4] / "docs" / "logs.md"


def test_the_page_is_what_the_tables_say() -> None:
    again = "python -m deployctl.vllm.logs.causes.document > docs/logs.md"
    assert PAGE.read_text(encoding="utf-8") == markdown(), again
