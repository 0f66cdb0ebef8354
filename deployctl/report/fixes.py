"""The verdicts on known fixes as lines, and the list of what is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployctl.vllm.fixes.registry import by_name

SCHEMA = "deployctl.known-fixes/1"


def lines(report: Mapping[str, Any]) -> list[str]:
    """One tree: each fix with its verdict, and under it the evidence."""
    shown = [f"{report['tree']}: vllm {report['version'] or 'of unknown version'}"]
    for entry in report["fixes"]:
        shown.append(f"  {entry['fix']:<22} {entry['verdict']}")
        for item in entry["evidence"]:
            place = f"{item['file']}:{item['line'] or '?'}: " if item["file"] else ""
            shown.append(f"    {place}{item['what']}")
    return shown


def known() -> dict[str, Any]:
    """Every known fix as data."""
    described = [
        {
            "fix": fix.name,
            "title": fix.title,
            "pull_request": fix.pull_request,
            "fixed_in": fix.fixed_in,
            "shows": fix.shows,
        }
        for fix in by_name().values()
    ]
    return {"schema": SCHEMA, "fixes": described}


def known_lines() -> list[str]:
    """Every known fix for people."""
    shown = []
    for fix in by_name().values():
        shown += [
            fix.name,
            f"  defect:   {fix.title}",
            f"  shows as: {fix.shows}",
            f"  fixed in: {fix.fixed_in} ({fix.pull_request})",
        ]
    return shown
