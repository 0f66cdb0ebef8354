"""What checks let pass is told: after a run, in a plan and on the page."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.report import summary
from deployctl.report.page import page
from tests.unit.report import documents

USUAL = {"name": "layer_ids_usual", "verdict": "warning", "message": "[1, 3], usual [1, 9]"}
CHECKS = [
    {"name": "vocabulary", "verdict": "ok", "message": ""},
    USUAL,
    {"name": "architecture", "verdict": "unknown", "message": "which ones the built vLLM knows"},
    {"check": "port", "verdict": "warning", "say": "port 40000 is free, but", "lines": []},
]
TOLD = [
    "warning: layer_ids_usual: [1, 3], usual [1, 9]",
    "unknown: architecture: which ones the built vLLM knows",
    "warning: port 40000 is free, but",
]


@pytest.fixture
def report() -> dict[str, Any]:
    made = documents.passed()
    (drafter,) = [s for s in made["hosts"][0]["steps"] if s["step"] == "drafter"]
    drafter["evidence"]["checks"] = CHECKS
    return made


def test_after_a_run(report: dict[str, Any]) -> None:
    lines = list(summary.lines(report))
    assert [line.strip() for line in lines if line.strip() in TOLD] == TOLD
    assert not [line for line in summary.lines(documents.passed()) if "warning" in line]


def test_in_a_plan() -> None:
    step = {"step": "drafter", "status": "unchanged", "reason": "", "changes": []}
    steps = [{**step, "evidence": {"checks": CHECKS}}]
    host = {"host": "h", "current": None, "release": None, "blocked": None, "steps": steps}
    lines = list(summary.plan_lines({"hosts": [host], "changes": False}))
    assert [line.strip() for line in lines if line.strip() in TOLD] == TOLD


def test_on_the_page(report: dict[str, Any]) -> None:
    html = page(report)
    assert "Warnings" in html and all(line in html for line in TOLD)
    assert "Warnings" not in page(documents.passed())
