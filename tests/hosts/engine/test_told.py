"""What a run tells at its end, about a way back and a way to an earlier release."""

from __future__ import annotations

from deployctl.report import document
from deployctl.report.summary import lines
from tests.hosts.served.host import ServedHost


def test_the_way_back_stands_last_and_names_what_serves(served: ServedHost) -> None:
    good = served.up().hosts[0].release
    failed = served.up("serve.env.STAND_IN_FAULT=start")
    names = [step.step for step in failed.hosts[0].steps]
    assert names[-2:] == ["restore-launch", "restore-ready"]
    assert names.index("smoke") < names.index("restore-launch")
    told = list(lines(document.report(failed)))
    assert f"  serves again: release {good}, proven ready" in told
    served.up("serve.env.WHICH=other")
    *_, last = lines(document.report(served.up(playbook="rollback")))
    assert "deployed: the earlier release serves" in last
