"""What a fix is, and what a probe finds. Standard library alone: this runs on the host too."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional

from deployctl.vllm.fixes.tree import Tree

PRESENT = "present"
ABSENT = "absent"
V2_ONLY = "v2-only"
REJECTED = "rejected"
UNSUPPORTED = "unsupported"
UNKNOWN = "unknown"
VERDICTS = (PRESENT, ABSENT, V2_ONLY, REJECTED, UNSUPPORTED, UNKNOWN)
"""present: the defect is fixed · absent: the defect is there · v2-only: fixed for the V2 model
runner alone · rejected: vLLM refuses what it would do wrong · unsupported: this vLLM has not the
feature that could be wrong · unknown: not found, or what was found could not be run."""


class Finding(NamedTuple):
    """One place that was looked at: file and line in the tree, and what was run or read there."""

    verdict: str
    file: Optional[str]
    line: Optional[int]
    what: str


class Fix(NamedTuple):
    """A known defect of vLLM, and how a tree is asked whether it has it."""

    name: str
    title: str
    pull_request: str
    fixed_in: str
    shows: str
    """How the defect shows in service."""
    probe: Callable[[Tree], List[Finding]]
    needle: str
    """A text of every file that the probe must be able to read."""


def verdict(findings: List[Finding]) -> str:
    """One verdict of several findings: they must agree, or nothing is known."""
    found = {finding.verdict for finding in findings}
    return found.pop() if len(found) == 1 else UNKNOWN


def as_data(fix: Fix, findings: List[Finding]) -> Dict[str, Any]:
    """A fix's entry in the report."""
    return {
        "fix": fix.name,
        "verdict": verdict(findings),
        "evidence": [finding._asdict() for finding in findings],
    }
