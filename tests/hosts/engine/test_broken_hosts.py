"""A roll over hosts of which some cannot do their part: they are left out and named, the others
roll, and the exit code says that not all was done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from deployctl.engine.ledger.record import RunRecord
from deployctl.report.document import report
from deployctl.report.summary import lines
from tests.hosts.full_disk import fill, small_disk
from tests.hosts.lab.ports import free_port
from tests.hosts.served.host import ServedHost
from tests.hosts.served.many import ManyHosts, needs_root

COUNT = 20
TAKEN, DOWN, FULL = "host00", "host07", "host13"


def shown(record: RunRecord) -> list[str]:
    return [*lines(report(record))]


def test_one_that_cannot_be_reached_is_left_out_where_the_profile_says_so(
    served: ServedHost,
) -> None:
    gone = f"{{name: gone, ssh: {{address: 127.0.0.1, port: {free_port()}}}}}"
    both = f"hosts=[{gone}, {{name: here, local: true, root: {served.root}}}]"
    record = served.up(both, "roll.wait=0s")
    left, here = record.hosts
    assert record.exit_code == 4 and left.error is not None and here.held_back == "gone failed"
    assert served.unit()["state"] == "absent"
    record = served.up(both, "roll.tolerate=1")
    left, here = record.hosts
    assert (record.outcome, record.exit_code) == ("failed", 4)
    assert here.error is None and not here.held_back and served.unit()["state"] == "running"
    said = shown(record)[-1]
    assert "failed on 1 of 2 hosts: gone; the others were done" in said


@pytest.fixture
def twenty(tmp_path: Path) -> Iterator[ManyHosts]:
    """Twenty hosts: on the first a stranger has the port, one is down, one has a full disk."""
    with ExitStack() as stack:
        hosts = stack.enter_context(ManyHosts(tmp_path, COUNT))
        by_name = {machine.name: machine for machine in hosts.machines}
        serving = ["-m", "http.server", "--bind", "127.0.0.1", str(hosts.port)]
        stranger = subprocess.Popen(
            by_name[TAKEN].enter([sys.executable, *serving]), stderr=subprocess.DEVNULL
        )
        stack.callback(stranger.wait)
        stack.callback(stranger.kill)
        full = stack.enter_context(small_disk(tmp_path / "full"))
        fill(full)
        content = yaml.safe_load(hosts.profile_file.read_text("utf-8"))
        settings = {host["name"]: host for host in content["hosts"]}
        settings[FULL]["root"] = str(full / "root")
        settings[DOWN]["ssh"]["port"] = free_port()
        content["roll"] = {"at_once": 5}
        hosts.profile_file.write_text(yaml.safe_dump(content), "utf-8")
        yield hosts


# Seventeen servers; the same as data is in test_rolling.py in tests/unit/engine.
@pytest.mark.slow
@pytest.mark.skipif(needs_root(), reason="namespaces need root")
def test_seventeen_of_twenty_roll_and_three_are_named(twenty: ManyHosts) -> None:
    record = twenty.up()
    broken = {host.host: host.error for host in record.hosts if host.error is not None}
    assert [*broken] == [TAKEN, DOWN, FULL], broken
    others = [host for host in record.hosts if host.host not in broken]
    assert all(host.changed and not host.held_back for host in others)
    assert {host.wave for host in others} == {1}, "nothing serves yet"
    first = broken[TAKEN]
    assert (record.outcome, record.exit_code) == ("failed", first and first.exit_code)
    said = shown(record)
    table = said[: said.index("")]
    assert len(table) == COUNT + 1
    assert sum(" changed " in row for row in table) == COUNT - 3
    assert sum(" failed " in row for row in table) == 3
    assert f"failed on 3 of 20 hosts: {TAKEN}, {DOWN}, {FULL}; the others were done" in said[-1]
    record = twenty.up("serve.env.WHICH=other")
    assert {host.wave for host in record.hosts if host.host not in broken} == {1, 2, 3, 4}
    assert [host.host for host in record.hosts if host.error is not None] == [*broken]
    record = twenty.up("roll.tolerate=2", "serve.env.WHICH=third")
    assert all(host.held_back for host in record.hosts if host.host not in broken)
    states = [unit["state"] for unit in twenty.units() if unit["state"] != "absent"]
    assert states == ["running"] * (COUNT - 3)
