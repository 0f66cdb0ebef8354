"""One model over two hosts, each rank the stand-in: started, judged and restored as one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployctl.config.loader import load_playbook
from deployctl.engine.inspect import status
from deployctl.engine.ledger import garbage
from deployctl.engine.run.coordinator import run, survey
from deployctl.engine.run.options import Options
from deployctl.errors import UsageError
from deployctl.hosts import operations
from deployctl.hosts.session import Call
from deployctl.report.serving import status_lines
from deployctl.steps import registry
from tests.hosts.served.grouped import GroupedHosts
from tests.hosts.served.host import STALE
from tests.hosts.served.many import needs_root

pytestmark = pytest.mark.skipif(needs_root(), reason="needs root for networks of their own")
OTHER = "serve.env.STAND_IN_START=0.3"


@pytest.fixture
def group(tmp_path: Path) -> Iterator[GroupedHosts]:
    """Two hosts of one group, on which nothing was deployed."""
    with GroupedHosts(tmp_path) as hosts:
        yield hosts


@pytest.fixture
def serving(group: GroupedHosts) -> GroupedHosts:
    """The same, once it serves."""
    record = group.up()
    assert record.exit_code == 0, [host.error for host in record.hosts]
    return group


def currents(group: GroupedHosts) -> list[str | None]:
    call = Call(operations.releases.state, profile="stand", unit="server", last=0)
    return [machine.ask(call)[0]["current"] for machine in group.machines]


def errors(record: Any) -> list[str]:
    return [str(host.error) for host in record.hosts]


def test_up_and_down(group: GroupedHosts) -> None:
    profile = group.profile()
    planned = survey(profile, load_playbook("up", registry.options()), Options())
    named = [[one.step.name for one in host["plan"].steps] for host in planned]
    assert "acceptance" in named[0] and "peers" in named[1] and "smoke" not in named[1]
    first = group.up()
    assert first.exit_code == 0, errors(first)
    head, worker = first.hosts
    assert currents(group) == [head.release] * 2
    ran = {host.host: [s.step for s in host.steps if s.status != "skipped"] for host in first.hosts}
    assert ran[head.host][-2:] == ["smoke", "acceptance"] and ran[worker.host][-1] == "ready"
    argv = [unit["argv"] for unit in group.units()]
    assert "--headless" in argv[1] and "--port" not in argv[1] and "--headless" not in argv[0]
    (reached,) = (s.evidence["reached"] for s in worker.steps if s.step == "peers")
    assert len(reached) == 4 and all(row["error"] is None for row in reached)
    assert next(row["rate"] for row in reached if row["rate"] is not None) > 0
    assert status.survey(group.profile())["group"] == {"whole": True, "first_to_end": None}
    part = profile.model_copy(update={"hosts": profile.hosts[:1]})
    with pytest.raises(UsageError, match="host01 is left out"):
        run(part, load_playbook("up", registry.options()), Options())
    assert group.up(playbook="down").exit_code == 0
    assert group.processes() == [0, 0]


@pytest.mark.slow
def test_a_failed_gate_and_a_rollback_are_of_all_ranks(serving: GroupedHosts) -> None:
    (good, _) = currents(serving)
    assert serving.up().outcome == "unchanged"
    stale = serving.up(STALE)
    assert stale.exit_code == 10, errors(stale)
    assert all(host.restored for host in stale.hosts)
    assert currents(serving) == [good, good]
    assert [unit["release"] for unit in serving.units()] == [good, good]

    other = serving.up(OTHER)
    assert other.exit_code == 0 and currents(serving) == [other.hosts[1].release] * 2
    assert other.hosts[0].release != good
    cleared = garbage.collect(serving.profile(OTHER), 0, False)
    gone = [
        {one["name"] for one in host["removed"] if one["kind"] == "releases"}
        for host in cleared["hosts"]
    ]
    assert gone[0] == gone[1] and gone[0] and good not in gone[0], "the failed one, on both"
    back = serving.up(playbook="rollback")
    assert back.exit_code == 0 and currents(serving) == [good, good]


@pytest.mark.slow
def test_a_rank_that_is_killed_takes_the_other_along_and_both_start_again(
    serving: GroupedHosts,
) -> None:
    before = [unit["pid"] for unit in serving.units()]
    os.kill(before[1], signal.SIGKILL)
    serving.until(
        "both to run again",
        lambda units: all(
            unit["state"] == "running" and unit["pid"] != pid
            for unit, pid in zip(units, before, strict=True)
        ),
    )
    head, worker = serving.units()
    assert head["lost"] == "rank 1 has ended" and worker["restarts"] == 1
    found = status.survey(serving.profile())
    assert not found["group"]["whole"], "they run again, and were not proven"
    first = found["group"]["first_to_end"]
    assert (first["rank"], first["status"]) == (1, -signal.SIGKILL)
    assert "rank 1 (host01) ended first last time, killed by signal 9" in "\n".join(
        status_lines(found)
    )
    proven = serving.up()
    assert (proven.outcome, proven.exit_code) == ("passed", 0), errors(proven)
    assert [unit["pid"] for unit in serving.units()] == [head["pid"], worker["pid"]]
    assert status.survey(serving.profile())["group"]["whole"]

    os.kill(head["pid"], signal.SIGKILL)
    serving.until(
        "both to run again",
        lambda units: all(u["state"] == "running" and u["restarts"] == 2 for u in units),
    )
    assert serving.units()[1]["lost"] == "rank 0 has ended"


@pytest.mark.slow
def test_a_group_that_hangs_is_restarted_as_one(group: GroupedHosts, tmp_path: Path) -> None:
    """As a head whose worker was killed while idle: /health answers, and no completion comes."""
    hangs = tmp_path / "hangs"
    life = "serve.liveness={interval: 1s, completion: 1s, failures: 1}"
    first = group.up(f"serve.env.STAND_IN_HANGS={hangs}", life)
    assert first.exit_code == 0, errors(first)
    before = group.units()
    assert all(unit["state"] == "running" for unit in before)
    hangs.touch()
    group.until("the head to be killed", lambda units: units[0]["restarts"] > 0)
    hangs.unlink()
    group.until(
        "both to run again",
        lambda units: all(
            unit["state"] == "running" and unit["pid"] != old["pid"]
            for unit, old in zip(units, before, strict=True)
        ),
    )
    assert group.units()[1]["lost"] == "rank 0 has ended"


@pytest.mark.slow
def test_a_rank_that_fails_to_start_is_named_and_all_are_restored(serving: GroupedHosts) -> None:
    good = currents(serving)
    record = serving.up("serve.env.STAND_IN_FAULT=start 1")
    assert record.exit_code == 10, errors(record)
    head, worker = record.hosts
    assert "the stand-in was told to fail" in str(worker.error)
    first = "rank 1 (host01) failed first: ready: this rank ended: failed, status 1: "
    assert first in str(head.error)
    assert "ValueError: the stand-in was told to fail" in str(head.error)
    assert all(host.restored for host in record.hosts) and currents(serving) == good


@pytest.mark.slow
def test_a_rank_that_never_comes_is_named_within_the_bound(group: GroupedHosts) -> None:
    group.write(group={"tensor_parallel_size": 2, "rendezvous": "2s"})
    record = group.up("serve.env.STAND_IN_FAULT=late 1")
    assert record.exit_code == 7, errors(record)
    assert "rank 1 (host01) did not come to the rendezvous within 2 s" in errors(record)[0]
    assert group.processes() == [0, 0], "nothing is left of a start that failed"


@pytest.mark.slow
def test_ranks_that_never_meet_are_named_within_the_bound(group: GroupedHosts) -> None:
    """As with a wrong address of the head, or a port closed after the hosts were asked."""
    group.write(group={"tensor_parallel_size": 2, "rendezvous": "2s"})
    record = group.up("serve.env.STAND_IN_FAULT=deaf")
    assert record.exit_code == 7, errors(record)
    said = "the ranks do not meet within 2 s: rank 0 (host00), rank 1 (host01) still wait"
    assert said in errors(record)[0] and ":29500" in errors(record)[0]
    assert group.processes() == [0, 0]


@pytest.mark.slow
def test_hosts_that_do_not_reach_each_other_are_named_before_anything_is_touched(
    serving: GroupedHosts,
) -> None:
    before = [unit["pid"] for unit in serving.units()]
    there, port = serving.addresses[1], serving.machines[1]
    drop = "{ type filter hook input priority 0; }"
    port.inside("nft", "add", "table", "inet", "closed")
    port.inside("nft", "add", "chain", "inet", "closed", "in", drop)
    rule = ("add", "rule", "inet", "closed", "in", "tcp", "flags", "syn", "iifname", "card2")
    port.inside("nft", *rule, "drop")
    record = serving.up(OTHER)
    assert record.exit_code == 6, errors(record)
    assert f"host00 to host01, {there}" in errors(record)[0]
    assert "no answer within 5 s" in errors(record)[0]
    assert [unit["pid"] for unit in serving.units()] == before


@pytest.mark.slow
def test_a_cut_cable_ends_both_and_the_group_serves_again_once_it_is_back(
    serving: GroupedHosts,
) -> None:
    before = [unit["pid"] for unit in serving.units()]
    serving.cable.cut(2)
    serving.until("both to end", lambda units: all(not unit["members"] for unit in units))
    assert ["silent" in unit["lost"] for unit in serving.units()] == [True, True]
    serving.cable.mend(2)
    serving.until(
        "both to run again",
        lambda units: all(
            unit["state"] == "running" and unit["pid"] != pid
            for unit, pid in zip(units, before, strict=True)
        ),
    )
    assert serving.up().exit_code == 0
