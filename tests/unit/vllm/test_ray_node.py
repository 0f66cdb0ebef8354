"""The program that runs a node of a Ray cluster: its command line, and what it lacks."""

from __future__ import annotations

from typing import Any

from deployctl.vllm.serving import ray_node

OPTIONS = [
    *("node", "--rank", "0", "--ray", "ray", "--node", "10.0.0.1", "--cluster", "10.0.0.1:6379"),
    *("--ports", "20000-20199", "--gpus", "2", "--total", "4", "--objects", "256"),
    *("--nodes", "10.0.0.1=rank 0 (a)", "10.0.0.2=rank 1 (b)", "--within", "5", "--grace", "20"),
]


def test_the_head_has_no_dashboard_and_no_port_of_chance() -> None:
    options, server = ray_node.parsed([*OPTIONS, "--", "vllm", "serve", "/m", "--port", "1"])
    assert server == ["vllm", "serve", "/m", "--port", "1"]
    line = ray_node.ray_command(options)
    assert line[:4] == ["ray", "start", "--block", "--head"] and "--port=6379" in line
    assert {"--include-dashboard=false", "--disable-usage-stats", "--num-gpus=2"} <= {*line}
    ports = [word.partition("=")[2] for word in line if "port=" in word and word[:6] != "--port"]
    assert all(20000 <= int(port) <= 20199 for port in ports) and len({*ports}) == len(ports) == 9


def test_another_node_joins_by_the_heads_address() -> None:
    options, server = ray_node.parsed([*OPTIONS, "--rank", "1"])
    line = ray_node.ray_command(options)
    assert "--address=10.0.0.1:6379" in line and "--head" not in line and not server


class Cluster:
    """A stand-in for the module `ray`."""

    def __init__(self, **gpus: float) -> None:
        self._gpus = gpus

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"NodeManagerAddress": at, "Alive": gpus >= 0, "Resources": {"GPU": gpus}}
            for at, gpus in self._gpus.items()
        ]

    def available_resources(self) -> dict[str, float]:
        return {"GPU": sum(self._gpus.values())}


def test_the_node_that_is_missing_or_short_of_gpus_is_named() -> None:
    wanted = {"a": "rank 0 (one)", "b": "rank 1 (two)"}
    assert ray_node.lacking_nodes(Cluster(a=2, b=2), wanted, 2) == ""
    said = ray_node.lacking_nodes(Cluster(a=2, b=-1), wanted, 2)
    assert said == "rank 1 (two), b did not join the cluster"
    assert "rank 1 (two) has 1" in ray_node.lacking_nodes(Cluster(a=2, b=1), wanted, 2)
    assert "3 free GPUs, and 4 are needed" in ray_node.lacking_gpus(Cluster(a=2, b=1), 4)
