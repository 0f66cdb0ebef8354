"""A build that goes on by itself is ended when somebody says so, and only that one."""

from __future__ import annotations

import pytest

from deployctl.engine import running_jobs
from deployctl.errors import UsageError
from deployctl.report import builds
from tests.hosts.served.host import ServedHost

ENDLESS = [{"phase": "compiling", "argv": ["sleep", "600"]}]


def test_a_job_is_stopped_by_its_name(served: ServedHost) -> None:
    for name in ("build-one", "build-two"):
        served.ask("jobs.start", id=name, steps=ENDLESS)
    with pytest.raises(UsageError) as unknown:
        running_jobs.stop(served.profile(), "build-three")
    assert unknown.value.next == "jobs that run: build-one, build-two"
    with served.start("build", "--stop", "build-one") as asked:
        told = asked.output()
    assert (asked.returncode, told) == (0, "here: build-one: stopped\n")
    assert served.ask("jobs.state", id="build-one")["state"] == "stopped"
    assert served.ask("jobs.state", id="build-two")["state"] == "running"
    again = running_jobs.stop(served.profile(), "build-one")
    assert list(builds.job_lines(again)) == ["here: build-one: it did not run: stopped"]
    running_jobs.stop(served.profile(), "build-two")
