"""Two groups of two hosts as replicas of one model behind a real router: one after the other, each
as one, while requests come."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployctl.engine.inspect import status
from tests.hosts.served.host import STALE
from tests.hosts.served.many import needs_root
from tests.hosts.served.replicas import Replicas, address

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(needs_root(), reason="needs root for networks of their own"),
]
OTHER = "serve.env.STAND_IN_START=0.3"


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[Replicas]:
    """Two groups that serve."""
    group = {"size": 2, "tensor_parallel_size": 2, "rendezvous": "60s"}
    with Replicas(tmp_path, 4, group=group) as hosts:
        first = hosts.up()
        assert first.exit_code == 0, errors(first)
        yield hosts


def errors(record: Any) -> list[str]:
    return [str(one.rollback_error or one.error or one.held_back) for one in record.hosts]


def releases(hosts: Replicas) -> list[str]:
    return [unit["release"] for unit in hosts.units()]


def test_a_roll_over_groups_loses_no_request(groups: Replicas) -> None:
    heads = {"127.0.0.1": True, address(2): True}
    assert groups.workers() == heads
    before = releases(groups)
    assert before[0] == before[1] and before[2] == before[3]
    with groups.asking() as asked:
        record = groups.up(OTHER)
    assert record.exit_code == 0, errors(record)
    assert asked["sent"] > 20 and not asked["failed"] and not asked["cut"], asked
    assert [host.wave for host in record.hosts] == [1, 1, 2, 2]
    assert groups.workers() == heads
    after = releases(groups)
    assert not {*before} & {*after} and after[0] == after[1]
    found = status.survey(groups.profile(OTHER))
    assert found["group"]["whole"], found

    stale = groups.up(STALE)
    assert stale.exit_code == 10, errors(stale)
    assert releases(groups) == after and groups.workers() == heads
    assert all(host.held_back for host in stale.hosts[2:]), "the second group was left alone"
    assert groups.up(playbook="down").exit_code == 0
    assert all(not unit["members"] for unit in groups.units())
