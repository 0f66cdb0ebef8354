"""What ended the servers and builds that people reported, and the lines that say it."""

from __future__ import annotations

import pytest

from deployctl.vllm.logs import kinds
from deployctl.vllm.logs.explanation import Kind
from tests.unit.vllm.logs.reports import Report, read

REPORTS: list[tuple[Kind, Report]] = [
    *(("server", report) for report in read("server_logs.txt")),
    *(("build", report) for report in read("build_logs.txt")),
]


@pytest.mark.parametrize(
    ("kind", "report"), REPORTS, ids=[f"{kind}-{report.name}" for kind, report in REPORTS]
)
def test_a_report(kind: Kind, report: Report) -> None:
    found, explained = kinds.explain(report.log)
    assert (found, explained.cause) == (kind, report.cause), explained
    assert explained.evidence and report.first in explained.evidence[0], explained.evidence
    assert all(line in report.log for line in explained.evidence)
    assert explained.next or (kind == "server" and not report.cause)


def test_there_are_enough_of_each() -> None:
    assert len(read("server_logs.txt")) >= 30 and len(read("build_logs.txt")) >= 20
    names = [(kind, report.name) for kind, report in REPORTS]
    assert len(set(names)) == len(names)
