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
        ({"group": {"engine": "ray", "tensor_parallel_size": 2}}, "group.engine", "use nodes"),
    ],
)
def test_what_does_not_go_with_a_group(
    tmp_path: Path, changes: dict[str, Any], key: str, says: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, **changes)
    said = str(refused.value)
    assert f"{key}:" in said and says in said and "toy.yaml:" in said
