"""Several replicas on each host: names, ports and GPUs of their own, as data."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.config.host_patterns import select
from deployctl.config.profile import Profile
from deployctl.config.replicas import firsts, grouped
from deployctl.engine.inspect.exporting import exported
from deployctl.steps import replicas
from deployctl.steps.identity import replica_number
from deployctl.steps.servers import siblings
from tests.unit.config.test_routed import profile

NAMES = ["a/1", "a/2", "b/1", "b/2", "c/1", "c/2"]


HOSTS = [{"name": name, "ssh": {"address": f"{name}.example"}} for name in ("a", "b", "c")]


def spread(serve: dict[str, Any] | None = None, **changes: Any) -> Profile:
    serve = {"port": 8123, "host": "0.0.0.0", **(serve or {})}
    return profile(replicas={"per_host": 2}, serve=serve, **changes).spread()


def test_each_host_is_there_once_for_each_of_its_replicas() -> None:
    found = spread(router={"port": 9000, "host": "c"}, hosts=HOSTS)
    assert [host.name for host in found.hosts] == NAMES
    assert [host.name for host in found.everywhere] == NAMES
    assert found.router_host.name == "c/1"
    assert firsts(found.hosts) == ["a/1", "b/1", "c/1"]
    assert [host.name for host in found.by_machine().hosts] == ["a", "b", "c"]
    one = profile(router={"port": 9000})
    assert one.spread() == one


def test_a_host_names_all_of_its_replicas() -> None:
    found = spread()
    groups = grouped({"rack": ("b", "c")}, found.hosts)
    assert select("a", NAMES, groups) == ["a/1", "a/2"]
    assert select("rack:!c/2", NAMES, groups) == ["b/1", "b/2", "c/1"]
    assert select("b/2", NAMES, groups) == ["b/2"]
    assert grouped({"rack": ("b",)}, profile().hosts) == {"rack": ("b",)}


@pytest.mark.parametrize(
    ("target", "serve", "shares"),
    [
        ("cuda", {"gpus": [4, 5, 6, 7]}, ([4, 5], [6, 7])),
        ("cuda", {"tensor_parallel_size": 2}, ([0, 1], [2, 3])),
        ("cuda", {}, ([0], [1])),
        ("cpu", {}, (None, None)),
        ("cpu", {"gpus": []}, ([], [])),
    ],
)
def test_each_replica_has_a_port_and_gpus_of_its_own(
    target: str, serve: dict[str, Any], shares: tuple[Any, Any]
) -> None:
    build = {"source": {"release": "0.32.0"}, "target": target}
    found = spread(serve, build=build)
    first, second = (replicas.placed(found, host) for host in found.hosts[:2])
    assert (first.unit, second.unit) == ("server", "server-2")
    assert (first.profile.serve.port, second.profile.serve.port) == (8123, 8124)
    assert (first.profile.serve.gpus, second.profile.serve.gpus) == shares
    assert second.profile.written_serve == found.serve


def test_units_that_are_no_replicas_belong_to_the_first() -> None:
    found = spread()
    first, second = (replicas.placed(found, host) for host in found.hosts[:2])
    units = ["proxy", "router", "server", "server-2", "server-3"]
    assert replicas.own_units(first, units) == ["proxy", "router", "server", "server-3"]
    assert replicas.own_units(second, units) == ["server-2"]
    alone = replicas.placed(profile(), profile().hosts[0])
    assert replicas.own_units(alone, units) == units


def test_what_the_profile_has_not_any_more_is_the_firsts_to_end() -> None:
    found = spread()
    first, second = (replicas.placed(found, host) for host in found.hosts[:2])
    runs: Any = {"state": "running", "members": []}
    known = {"server": runs, "server-2": runs, "server-3": runs, "server-4": siblings.ABSENT}
    assert siblings.surplus(first, known) == ["server-3"]
    assert siblings.surplus(second, known) == []
    assert replica_number("server-3") == 3 and replica_number("blue") is None


def test_an_export_has_the_gpus_of_one_and_counts_them_all() -> None:
    build = {"source": {"release": "0.32.0"}, "target": "cuda"}
    found = spread({"gpus": [4, 5, 6, 7], "tensor_parallel_size": 2}, build=build)
    made = exported(found, "image")
    assert (made.device_ids, made.gpus, made.replicas) == (("4", "5"), 2, 6)
