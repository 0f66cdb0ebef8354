"""One model over two hosts, each rank the stand-in: started, judged and restored as one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl.hosts import operations
from deployctl.hosts.session import Call
from tests.hosts.served.grouped import GroupedHosts
from tests.hosts.served.host import STALE
from tests.hosts.served.many import needs_root

pytestmark = pytest.mark.skipif(needs_root(), reason="needs root for networks of their own")


@pytest.fixture
def group(tmp_path: Path) -> Iterator[GroupedHosts]:
    """Two hosts of one group, on which nothing was deployed."""
    with GroupedHosts(tmp_path) as hosts:
        yield hosts


def currents(group: GroupedHosts) -> list[str | None]:
    call = Call(operations.releases.state, profile="stand", unit="server", last=0)
    return [machine.ask(call)[0]["current"] for machine in group.machines]


def test_up_a_failed_gate_rollback_and_down(group: GroupedHosts) -> None:
    first = group.up()
    assert first.exit_code == 0, [host.error for host in first.hosts]
    head, worker = first.hosts
    good = head.release
    assert currents(group) == [good, good]
    ran = {host.host: [s.step for s in host.steps if s.status != "skipped"] for host in first.hosts}
    assert ran[head.host][-2:] == ["smoke", "acceptance"] and ran[worker.host][-1] == "ready"
    argv = [unit["argv"] for unit in group.units()]
    assert "--headless" in argv[1] and "--port" not in argv[1] and "--headless" not in argv[0]
    assert group.up().outcome == "unchanged"

    stale = group.up(STALE)
    assert stale.exit_code == 10, [host.error for host in stale.hosts]
    assert all(host.restored for host in stale.hosts)
    assert currents(group) == [good, good]
    assert [unit["release"] for unit in group.units()] == [good, good]

    other = group.up("serve.env.STAND_IN_START=0.3")
    assert other.exit_code == 0 and currents(group) == [other.hosts[1].release] * 2 != [good, good]
    back = group.up(playbook="rollback")
    assert back.exit_code == 0 and currents(group) == [good, good]

    down = group.up(playbook="down")
    assert down.exit_code == 0
    assert group.processes() == [0, 0]
