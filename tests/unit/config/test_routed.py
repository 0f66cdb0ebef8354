"""A router and its replicas in a profile: what cannot be, and what follows."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from deployctl.config.profile import Profile

SEVERAL = {"per_host": 2}


def profile(listens: str = "0.0.0.0", **changes: Any) -> Profile:
    return Profile.model_validate(
        {
            "name": "toy",
            "hosts": [
                {"name": "a", "local": True},
                {"name": "b", "ssh": {"address": "b.example"}},
                {"name": "c", "ssh": {"address": "c.example"}, "address": "10.0.0.3"},
            ],
            "model": {"path": "/models/target", "served_name": "toy"},
            "build": {"source": {"release": "0.32.0"}},
            "serve": {"port": 8123, "host": listens},
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("changes", "strategy"),
    [
        ({}, "recreate"),
        ({"roll": {}}, "recreate"),
        ({"roll": {"at_once": 1}}, "rolling"),
        ({"router": {"port": 9000}}, "rolling"),
        ({"replicas": SEVERAL}, "rolling"),
        ({"replicas": {"per_host": 1}}, "recreate"),
        ({"roll": {"at_once": 2}, "switch": {"strategy": "recreate"}}, "recreate"),
    ],
)
def test_replicas_roll_unless_something_else_is_asked(
    changes: dict[str, Any], strategy: str
) -> None:
    assert profile(**changes).switch.strategy == strategy


def test_where_the_router_reaches_each_replica() -> None:
    wanted = profile(router={"port": 9000})
    found = [wanted.address_of(host) for host in wanted.hosts]
    assert wanted.router_host.name == "a"
    assert found == ["127.0.0.1", "b.example", "10.0.0.3"]


def test_a_run_on_some_hosts_knows_them_all() -> None:
    wanted = profile(router={"port": 9000})
    fewer = wanted.model_copy(update={"hosts": wanted.hosts[1:]})
    assert fewer.router_host.name == "a"
    assert [host.name for host in fewer.everywhere] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"router": {"host": "x"}}, "no host of the profile, which has a, b, c"),
        ({"router": {"host": "A"}}, "did you mean a?"),
        ({"router": {"port": 8123}}, "serve.port is the replica's"),
        ({"router": {"metrics_port": 8080}}, "needs a port of its own"),
        ({"router": {}, "serve": {"port": 8123}}, "cannot reach 127.0.0.1 of b"),
        ({"router": {"host": "b"}}, "a needs address"),
        ({"router": {}, "switch": {"strategy": "recreate"}}, "needs rolling, not recreate"),
        ({"replicas": {"per_host": 0}}, "greater than or equal to 1"),
        ({"replicas": SEVERAL, "switch": {"strategy": "recreate"}}, "above 1 needs rolling"),
        ({"replicas": SEVERAL, "serve": {"port": 65535}}, "the ports 65535 to 65536"),
        ({"replicas": SEVERAL, "serve": {"port": 1, "gpus": [0, 1, 2]}}, "3 GPUs cannot be shared"),
        ({"replicas": SEVERAL, "router": {"port": 8124}}, "it is a replica's"),
        ({"replicas": SEVERAL, "router": {"metrics_port": 8124}}, "it is a replica's"),
        ({"replicas": SEVERAL, "group": {"tensor_parallel_size": 3}}, "one rank on each host"),
        ({"hosts": [{"name": name, "local": True} for name in "xy"]}, "y and x are both this"),
        ({"roll": {"at_once": 0}}, "a share such as 25%"),
        ({"roll": {"at_once": "0%"}}, "a share such as 25%"),
        ({"roll": {"at_once": "lots"}}, "a share such as 25%"),
        ({"roll": {"tolerate": -1}}, "from 0 on"),
        ({"roll": {"tolerate": "lots"}}, "a share such as 25%"),
        ({"router": {"policy": "cache-aware"}}, "did you mean cache_aware?"),
        ({"router": {"address": "10.0.0"}}, "give an IP address"),
        ({"router": {"health": {"interval": "1.5s"}}}, "whole seconds: write 1s"),
        ({"router": {"health": {"timeout": 0}}}, "greater than or equal to 1"),
        ({"router": {"health": {"failures": 0}}}, "greater than or equal to 1"),
        ({"router": {"version": "latest"}}, "pattern"),
    ],
)
def test_what_cannot_be(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        profile(**changes)
    assert said in str(caught.value)


def test_another_version_of_the_router_may_know_other_policies() -> None:
    router = {"version": "0.2.0", "policy": "by_moon", "port": 9000, "address": "::1"}
    assert profile(router=router).router is not None


def test_two_replicas_need_two_addresses() -> None:
    same = [{"name": name, "ssh": {"address": "x.example"}} for name in ("b", "c")]
    with pytest.raises(ValidationError) as caught:
        profile(router={}, hosts=[{"name": "a", "local": True}, *same])
    (error,) = caught.value.errors()
    assert error["msg"] == "c and b have the same address, x.example"
    assert error["ctx"]["at"] == ("hosts", 2, "ssh", "address")


def test_what_others_run_is_not_checked() -> None:
    assert profile(router={"engine": "external"}, serve={"port": 1}).switch.strategy == "rolling"
