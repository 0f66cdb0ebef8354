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


@pytest.mark.parametrize(
    "handler", ["serving_chat", "serving_completion", "serving", "openai/serving"]
)
def test_a_request_that_is_refused_ends_nothing(handler: str) -> None:
    """However long ago: an orderly stop has no error."""
    refused = "ValueError: This model's maximum context length is 4096 tokens"
    before = "(APIServer pid=1) INFO:     Application startup complete.\n"
    line = f"(APIServer pid=1) ERROR 09-01 10:01:00 [{handler}.py:200] "
    after = "(APIServer pid=1) INFO:     Shutting down\n"
    assert not kinds.explain(f"{before}{line}{refused}\n{after}", "server")[1].lines
    dead = f"{before}{line}vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered\n"
    assert kinds.explain(dead, "server")[1].lines


def test_there_are_enough_of_each() -> None:
    assert len(read("server_logs.txt")) >= 30 and len(read("build_logs.txt")) >= 20
    names = [(kind, report.name) for kind, report in REPORTS]
    assert len(set(names)) == len(names)
