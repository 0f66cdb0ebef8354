"""Twenty hosts of which four cannot do their part: the others are done, the four are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from deployctl.engine.connections import connect
from deployctl.errors import InternalError
from deployctl.hosts.interface import Transport
from deployctl.hosts.session import Limits, Session
from deployctl.report.document import report
from deployctl.report.summary import lines
from deployctl.steps.fetch import FetchStep
from deployctl.steps.interface import Answers, Deployment, Plan
from tests.hosts.lab.ports import free_port
from tests.hosts.lab.sshd import Sshd, make_key
from tests.hosts.served.host import ServedHost

COUNT = 20
DOWN, REFUSED, HANGS, RAISES = "host03", "host07", "host11", "host15"
BROKEN = (DOWN, REFUSED, HANGS, RAISES)


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def many(served: ServedHost, sshd: Sshd, tmp_path: Path) -> ServedHost:
    """A profile with hosts that one sshd reaches, each with a root of its own; four are broken."""
    hosts: list[dict[str, Any]] = []
    for number in range(COUNT):
        name = f"host{number:02}"
        hosts.append({**sshd.host_settings(name), "root": str(tmp_path / name)})
    broken = {host["name"]: host for host in hosts}
    broken[DOWN]["ssh"]["port"] = free_port()
    broken[REFUSED]["ssh"]["identity_file"] = str(make_key(tmp_path / "another"))
    other = tmp_path / "ssh_config"
    other.write_text("Host *\n  IdentitiesOnly yes\n  IdentityAgent none\n", encoding="utf-8")
    broken[REFUSED]["ssh"]["config_file"] = str(other)
    broken[HANGS]["python"] = program(tmp_path / "hangs", "exec cat >/dev/null")
    broken[RAISES]["python"] = program(tmp_path / "raises", "echo Traceback: no memory >&2; exit 1")
    content = {**yaml.safe_load(served.profile_file.read_text("utf-8")), "hosts": hosts}
    served.profile_file.write_text(yaml.safe_dump(content), encoding="utf-8")
    playbook = tmp_path / "fetches.yaml"
    playbook.write_text("name: fetches\nsteps: [fetch]\n", encoding="utf-8")
    return served


def test_sixteen_are_done_and_four_are_named(
    many: ServedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def session(way: Transport, **more: Any) -> Session:
        # Nobody else is given up, however slow this machine is.
        return Session(way, limits=Limits(start=5.0 if way.name == HANGS else 300.0), **more)

    monkeypatch.setattr(connect, "Session", session)
    record = many.up(playbook=str(tmp_path / "fetches.yaml"))
    failed = {host.host: host.error for host in record.hosts if host.error is not None}
    assert tuple(failed) == BROKEN
    done = [host for host in record.hosts if host.error is None]
    assert len(done) == COUNT - len(BROKEN) and all(host.changed for host in done)
    said = {name: f"{error.what} {error.why}" for name, error in failed.items()}
    assert "no connection to 127.0.0.1" in said[DOWN]
    assert "refuse" in said[REFUSED]
    assert "the agent did not start" in said[HANGS]
    assert "no memory" in said[RAISES]
    assert (record.outcome, record.exit_code) == ("failed", 4), "of the first one that failed"
    shown = "\n".join(lines(report(record)))
    assert all(f"error: {failed[name].what}" in shown for name in BROKEN)


def test_a_bug_on_one_host_hides_no_other(
    many: ServedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = yaml.safe_load(many.profile_file.read_text("utf-8"))
    content["hosts"] = content["hosts"][:3]
    many.profile_file.write_text(yaml.safe_dump(content), encoding="utf-8")
    planned = FetchStep.plan

    def plan(self: FetchStep, wanted: Deployment, answers: Answers) -> Plan:
        if wanted.host.name == "host01":
            raise TypeError("a bug of ours")
        return planned(self, wanted, answers)

    monkeypatch.setattr(FetchStep, "plan", plan)
    record = many.up(playbook=str(tmp_path / "fetches.yaml"))
    errors = [host.error for host in record.hosts]
    assert errors[0] is errors[2] is None and isinstance(errors[1], InternalError)
    assert (record.outcome, record.exit_code) == ("failed", 1)
    kept = Path(errors[1].next.rpartition(" ")[2])
    assert "TypeError: a bug of ours" in kept.read_text("utf-8")
    kept.unlink()
