"""A build that goes on by itself is ended when somebody says so, and only that one."""

from __future__ import annotations

import pytest

from deployctl.agent.core.interface import Call
from deployctl.agent.supervision import jobs
from deployctl.engine.inspect import running_jobs
from deployctl.engine.ledger import wheels
from deployctl.errors import UsageError
from deployctl.report import builds
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.served.host import ServedHost

SHORT = [{"phase": "compiling", "argv": ["true"]}]
ENDLESS = [{"phase": "compiling", "argv": ["sleep", "600"]}]


def test_a_job_is_stopped_by_its_name(served: ServedHost) -> None:
    for name in ("build-one", "build-two"):
        served.ask("jobs.start", id=name, steps=ENDLESS)
    with pytest.raises(UsageError) as unknown:
        running_jobs.stop(served.profile(), "build-three")
    assert unknown.value.next == "jobs that run: build-one, build-two"
    assert list(builds.wheel_lines(wheels.listing(served.profile()))) == [
        "here: 0 wheels kept",
        "  build-one  runs",
        "  build-two  runs",
    ]
    with served.start("build", "--stop", "build-one") as asked:
        told = asked.output()
    assert (asked.returncode, told) == (0, "here: build-one: stopped\n")
    assert served.ask("jobs.state", id="build-one")["state"] == "stopped"
    assert served.ask("jobs.state", id="build-two")["state"] == "running"
    again = running_jobs.stop(served.profile(), "build-one")
    assert list(builds.job_lines(again)) == ["here: build-one: it did not run: stopped"]
    running_jobs.stop(served.profile(), "build-two")


def test_it_can_be_looked_at_while_it_is_started_anew(served: ServedHost) -> None:
    """Its log is put away between two looks at it."""
    served.ask("jobs.start", id="build-one", steps=SHORT)
    call = Call(str(served.root), lambda event: None)
    wait_for("its end", lambda: jobs.state(call, "build-one")["state"] == "done")
    log = served.root / "jobs/build-one/log"
    assert jobs.log(call, "build-one")["size"] == log.stat().st_size
    log.unlink()
    assert jobs.state(call, "build-one")["log_size"] == 0
    assert jobs.log(call, "build-one")["size"] == 0
