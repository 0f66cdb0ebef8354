"""A link that breaks, or goes silent, in the middle of a switch; the next run comes by itself."""

from __future__ import annotations

import signal

import pytest
import yaml

from tests.hosts.lab import processes
from tests.hosts.lab.sshd import Sshd
from tests.hosts.served.host import ServedHost
from tests.slow import some

OTHER = "serve.env.STAND_IN_START=0.7"


def by_ssh(served: ServedHost, sshd: Sshd) -> None:
    """From now on the served host is reached through this sshd."""
    content = yaml.safe_load(served.profile_file.read_text("utf-8"))
    content["hosts"] = [{**sshd.host_settings("here"), "root": str(served.root)}]
    served.profile_file.write_text(yaml.safe_dump(content), encoding="utf-8")


@pytest.mark.parametrize(
    "line", some(["drafter: started", "clean: started", "ready: started"], ["ready: started"])
)
def test_a_broken_link(served: ServedHost, sshd: Sshd, line: str) -> None:
    by_ssh(served, sshd)
    old = served.up().hosts[0].release
    with served.start("up", "--set", OTHER, "--json", stops_at=line) as run:
        run.told(line)
        for pid in sshd.sessions():
            processes.send(pid, signal.SIGKILL)
        run.go_on()
        output = run.output()
    assert run.returncode == 4, output
    after = served.up(OTHER, lock_wait=300.0)
    assert after.exit_code == 0, after.hosts[0].error
    unit = served.unit()
    assert (unit["release"], unit["kept"]) == (after.hosts[0].release, True)
    assert unit["release"] != old
    assert [e["outcome"] for e in served.ledger()] == ["deployed", "died", "deployed"]


def test_a_silent_link_holds_no_lock_for_long(served: ServedHost, sshd: Sshd) -> None:
    by_ssh(served, sshd)
    served.up()
    with served.start("up", "--set", "serve.env.STAND_IN_START=300", "--json") as run:
        run.told("ready: started")
        stopped = sshd.sessions()
        for pid in stopped:
            processes.send(pid, signal.SIGSTOP)
        try:
            run.output()
            assert run.returncode == 4, "the controller notices by itself"
            after = served.up(lock_wait=120.0)
        finally:
            for pid in stopped:
                processes.send(pid, signal.SIGKILL)
    assert after.exit_code == 0, after.hosts[0].error
    assert after.hosts[0].recovered_run
    assert served.unit()["kept"]
