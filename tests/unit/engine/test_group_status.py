"""What the status of a group makes of the states of its hosts."""

from __future__ import annotations

from typing import Any

from deployctl.engine.inspect.grouped import judged
from deployctl.report.serving import _group
from tests.unit.steps.test_ranks import profile


def host(rank: int, **more: Any) -> dict[str, Any]:
    return {
        "host": "ab"[rank],
        "rank": rank,
        "state": "running",
        "healthy": True,
        "lost": None,
        "last_exit": None,
        "words": "",
        **more,
    }


def ended(rank: int, at: float, **more: Any) -> dict[str, Any]:
    return host(rank, healthy=False, state="failed", last_exit={"status": -9, "time": at}, **more)


def test_all_are_healthy_or_none_is() -> None:
    whole = judged(profile(), [host(0), host(1)])
    assert whole["group"] == {"whole": True, "first_to_end": None}
    for other in (host(1, healthy=False), {"host": "b", "error": {}, "healthy": False}):
        found = judged(profile(), [host(0), other])
        assert [one["healthy"] for one in found["hosts"]] == [False, False]
        assert not found["group"]["whole"]


def test_some_hosts_alone_tell_nothing_of_the_others() -> None:
    part = profile()
    chosen = part.model_copy(update={"hosts": part.hosts[:1]})
    found = judged(chosen, [host(0)])
    assert found["group"]["whole"] is None and found["hosts"][0]["healthy"]
    assert "not all of its hosts" in _group(found["group"])


def test_the_one_that_ended_by_itself_ended_first() -> None:
    """Clocks may differ: who ended because of another one did not end first."""
    head = ended(0, 100.0, lost="rank 1 has ended")
    found = judged(profile(), [head, ended(1, 105.0, words="CUDA out of memory")])
    assert found["group"]["first_to_end"]["rank"] == 1
    assert _group(found["group"]).endswith(
        "rank 1 (b) ended first last time, killed by signal 9: CUDA out of memory"
    )


def test_a_profile_without_a_group_has_no_such_part() -> None:
    alone = profile().model_copy(update={"group": None})
    assert judged(alone, [host(0)]) == {"hosts": [host(0)]}
