"""What is noted of a release that failed more than once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deployctl.agent.core.interface import Call
from deployctl.agent.store import release_status


def test_a_second_failure_keeps_the_figures_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "profiles/toy/units/server/releases/abc").mkdir(parents=True)
    call = Call(str(tmp_path), lambda event: None)

    def fail(run: str, error: str, **evidence: Any) -> None:
        told = {"failed_in": run, "error": error, "evidence": evidence}
        release_status.write(call, "toy", "server", "abc", "failed", told)

    fail("r1", "acceptance failed", ready={"seconds": 30}, acceptance={"verdict": "fail"})
    fail("r2", "not ready", ready={"seconds": 99})
    found = release_status.failed(call, "toy", "server")["abc"]
    assert found["error"] == "not ready" and found["failed_in"] == "r2"
    assert found["evidence"] == {"ready": {"seconds": 99}, "acceptance": {"verdict": "fail"}}
    assert found["failures"] == [
        {"run": "r1", "error": "acceptance failed"},
        {"run": "r2", "error": "not ready"},
    ]
