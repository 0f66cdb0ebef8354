"""A group in a profile: what it asks of the rest, at the place where that stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from deployctl.config.loader import load_profile
from deployctl.errors import ConfigError

HOSTS = [
    {"name": "one", "ssh": {"address": "gpu1"}, "address": "10.0.0.1"},
    {"name": "two", "ssh": {"address": "10.0.0.2"}},
]
FOUR = [{"name": f"h{n}", "ssh": {"address": f"10.0.0.{n}"}} for n in range(1, 5)]
SIZED = {"size": 2, "tensor_parallel_size": 2}
RAY: dict[str, Any] = {"engine": "ray", "tensor_parallel_size": 2}
WANTED: dict[str, Any] = {
    "hosts": HOSTS,
    "model": {"path": "/models/target", "served_name": "toy"},
    "build": {"source": {"release": "0.32.0"}},
    "serve": {"port": 8123},
    "group": {"tensor_parallel_size": 2},
}


def load(tmp_path: Path, **changes: Any) -> Any:
    path = tmp_path / "toy.yaml"
    path.write_text(yaml.safe_dump({**WANTED, **changes}, sort_keys=False), encoding="utf-8")
    return load_profile(str(path), environ={}).profile


def test_a_group_over_two_hosts(tmp_path: Path) -> None:
    profile = load(tmp_path)
    assert [host.member_address for host in profile.hosts] == ["10.0.0.1", "10.0.0.2"]
    assert profile.group.world == 2


@pytest.mark.parametrize(
    ("changes", "key", "says"),
    [
        ({"hosts": HOSTS[:1]}, "hosts", "two hosts or more"),
        ({"hosts": [HOSTS[0], {"name": "b", "ssh": {"address": "gpu2"}}]}, "hosts.1", "IP"),
        ({"hosts": [HOSTS[0], {"name": "b", "ssh": {"address": "127.0.1.1"}}]}, "hosts.1", "IP"),
        ({"group": {"tensor_parallel_size": 3}}, "group", "no multiple of 2 hosts"),
        (
            {"group": {"tensor_parallel_size": 2, "master_port": 8123}},
            "group.master_port",
            "need ports of their own",
        ),
        ({"serve": {"port": 1, "tensor_parallel_size": 2}}, "serve.tensor_parallel_size", "group"),
        ({"serve": {"port": 1, "gpus": [0, 1]}}, "serve.gpus", "each host has 1 of"),
        ({"serve": {"port": 1, "args": {"nnodes": 2}}}, "serve.args.nnodes", "from hosts"),
        (
            {"serve": {"port": 1, "args": {"data-parallel-hybrid-lb": True}}},
            "serve.args.data-parallel-hybrid-lb",
            "use replicas",
        ),
        ({"switch": {"strategy": "blue-green"}}, "switch", ""),
        (
            {"group": {"engine": "ray", "tensor_parallel_size": 2, "data_parallel_size": 2}},
            "group.data_parallel_size",
            "use engine nodes",
        ),
        ({"group": {"size": 3, "tensor_parallel_size": 3}}, "group.size", "no groups of 3"),
        ({"router": {}, "serve": {"port": 8123, "host": "0.0.0.0"}}, "router", "set group.size"),
        ({"group": {**RAY, "ray": {"ports": "20000-20009"}}}, "group.ray.ports", "30 ports"),
        ({"group": {**RAY, "ray": {"port": 20001}}}, "group.ray.port", "choose another"),
        ({"group": {**RAY, "ray": {"port": 8123}}}, "group.ray.port", "ports of their own"),
        ({"group": {**RAY, "watch_port": 20001}}, "group.watch_port", "group.ray.ports"),
        ({"group": {**RAY, "ray": {"token": {"env": "T"}}}}, "group.ray.token", "set address"),
        ({"group": {**RAY, "ray": {"address": "10.0.0.1"}}}, "group.ray.address", "IP:PORT"),
        ({"group": {**RAY, "ray": {"address": "10.0.0.1:6379"}}}, "hosts", "one host"),
        (
            {
                "group": RAY,
                "build": {"source": {"release": "0.32.0"}, "extra": ["ray[default]==2.50.0"]},
            },
            "build.extra",
            "group.ray.version",
        ),
    ],
)
def test_what_does_not_go_with_a_group(
    tmp_path: Path, changes: dict[str, Any], key: str, says: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, **changes)
    said = str(refused.value)
    assert f"{key}:" in said and says in said and "toy.yaml:" in said


def test_ray_is_built_beside_vllm(tmp_path: Path) -> None:
    profile = load(tmp_path, group=RAY)
    assert profile.build.extra == ["ray==2.60.0"] and profile.ray_version == "2.60.0"
    again = type(profile).model_validate(profile.model_dump(exclude_unset=True))
    assert again.build.extra == ["ray==2.60.0"]
    named = load(tmp_path, group={**RAY, "ray": {"version": "2.59.1"}})
    assert named.build.extra == ["ray==2.59.1"]
    assert load(tmp_path).build.extra == [] and load(tmp_path).ray_version is None


def test_a_cluster_that_is_there_has_one_host_that_serves(tmp_path: Path) -> None:
    ray = {"address": "10.0.0.9:6379", "token": {"env": "RAY_TOKEN"}}
    profile = load(tmp_path, hosts=HOSTS[1:], group={**RAY, "ray": ray})
    assert profile.group.elsewhere


def test_several_groups_are_replicas(tmp_path: Path) -> None:
    serve = {"port": 8123, "host": "0.0.0.0"}
    profile = load(tmp_path, hosts=FOUR, group=SIZED, serve=serve, router={})
    assert [host.name for host in profile.grouped("h4")] == ["h3", "h4"]
    assert [host.name for host in profile.heads] == ["h1", "h3"]
    assert profile.switch.strategy == "rolling"
    assert [host.name for host in load(tmp_path).heads] == ["one"]
