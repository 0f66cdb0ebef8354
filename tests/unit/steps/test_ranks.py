"""The options and variables that make a server one rank of a group."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deployctl.config.profile import Profile
from deployctl.engine.run.placement import groups, placements
from deployctl.steps.facts import MODEL, SHM
from deployctl.steps.identity import ReleasePaths
from deployctl.steps.interface import Answers, Deployment
from deployctl.steps.servers import ranks, ray, serving
from deployctl.steps.servers.serving import serve_settings
from deployctl.vllm.serving.command import command
from deployctl.vllm.serving.knowledge import Knowledge


def profile() -> Profile:
    return Profile.model_validate(
        {
            "name": "toy",
            "hosts": [
                {"name": name, "ssh": {"address": address}}
                for name, address in (("a", "10.0.0.1"), ("b", "10.0.0.2"))
            ],
            "model": {"path": "/models/target", "served_name": "toy"},
            "build": {"source": {"release": "0.32.0"}},
            "serve": {"port": 8123, "host": "10.0.0.1"},
            "group": {"tensor_parallel_size": 4, "pipeline_parallel_size": 1},
        }
    )


def wanted(rank: int) -> Deployment:
    made = profile()
    host = made.hosts[rank]
    return Deployment(made, host, member=ranks.member(made, host.name))


def argv(rank: int) -> list[str]:
    knowledge = Knowledge(options=frozenset({"shutdown-timeout", "enable-server-load-tracking"}))
    return command(serve_settings(wanted(rank), "vllm", "/m", None, knowledge))


def test_the_head_answers_and_a_worker_has_no_address() -> None:
    head, worker = argv(0), argv(1)
    both = ["--nnodes", "2", "--master-addr", "10.0.0.1", "--master-port", "29500"]
    for line in (head, worker):
        assert [word for word in both if word in line] == both
        assert line[line.index("--tensor-parallel-size") + 1] == "4"
    assert head[head.index("--node-rank") + 1] == "0"
    assert head[head.index("--port") + 1] == "8123" and "--headless" not in head
    assert worker[worker.index("--node-rank") + 1] == "1" and "--headless" in worker
    assert not {"--host", "--port", "--shutdown-timeout"} & {*worker}


def test_a_rank_is_found_by_its_own_address_and_interface() -> None:
    assert ranks.variables(wanted(1), "eth1") == {
        "VLLM_HOST_IP": "10.0.0.2",
        "GLOO_SOCKET_IFNAME": "eth1",
        "NCCL_SOCKET_IFNAME": "eth1",
    }
    assert ranks.processes_here(profile()) == 2 and ranks.shards(profile()) == 4


def test_a_vllm_without_nodes_is_no_rank() -> None:
    known = Knowledge(options=frozenset({"shutdown-timeout"}))
    assert any("--nnodes" in said for said in serving._nodes(wanted(1), known))
    assert not list(serving._nodes(wanted(1), Knowledge()))


@pytest.mark.parametrize(
    ("config", "refused"),
    [
        ({"hidden_size": 8}, True),
        ({"num_experts": 8}, False),
        ({"text_config": {"n_routed_experts": 8}}, False),
    ],
)
def test_an_api_on_each_rank_is_for_models_with_experts(
    config: dict[str, object], refused: bool
) -> None:
    made = profile().model_dump(mode="json", exclude_unset=True)
    made |= {"group": None, "serve": {"port": 1, "args": {"data-parallel-rank": 0}}}
    alone = Profile.model_validate(made)
    answers = Answers({MODEL: {"config": {"text": json.dumps(config)}}})
    found = list(serving._data_parallel(Deployment(alone, alone.hosts[0]), answers))
    assert bool(found) is refused and all("use replicas" in said for said in found)


def test_a_group_is_one_group_of_placements_in_the_order_of_ranks() -> None:
    (group,) = groups(placements(profile()))
    assert group.name == "toy" and group.hosts == ("a", "b")
    assert [(one.role, one.rank) for one in group.placements] == [("head", 0), ("worker", 1)]


BY_RAY: dict[str, Any] = {"engine": "ray", "tensor_parallel_size": 4}


def by_ray(rank: int, **more: Any) -> Deployment:
    content = profile().model_dump(mode="json", exclude_unset=True)
    content["group"] = {**BY_RAY, **more}
    made = Profile.model_validate(content)
    host = made.hosts[rank]
    return Deployment(made, host, member=ranks.member(made, host.name))


def node(wanted: Deployment) -> list[str]:
    release = ReleasePaths("toy", "r1", "e1")
    server = command(serve_settings(wanted, "vllm", "/m", None, Knowledge()))
    return ray.node_command(wanted, release, "/root", server)


def test_by_ray_each_host_is_a_node_and_the_head_serves_in_the_cluster() -> None:
    head, worker = node(by_ray(0)), node(by_ray(1))
    for line in (head, worker):
        assert line[line.index("--cluster") + 1] == "10.0.0.1:6379"
        assert line[line.index("--gpus") + 1] == "2" and line[line.index("--total") + 1] == "4"
        assert "10.0.0.2=rank 1 (b)" in line
    assert line[line.index("--node") + 1] == "10.0.0.2" and "--" not in worker
    server = head[head.index("--") + 1 :]
    assert server[:2] == ["vllm", "serve"] and not {"--nnodes", "--headless"} & {*server}
    assert server[server.index("--distributed-executor-backend") + 1] == "ray"


def test_a_nodes_bounds_are_todays() -> None:
    before = node(by_ray(0))
    now = ray.bounded(before, by_ray(0, rendezvous=60.0))
    assert now[now.index("--within") + 1] == "75"
    assert before[before.index("--within") + 1] == "315"


def test_a_cluster_that_is_there_is_neither_started_nor_stopped() -> None:
    content = profile().model_dump(mode="json", exclude_unset=True)
    there = {"address": "10.0.0.9:6379", "token": {"env": "RAY_TOKEN"}}
    made = Profile.model_validate(
        {**content, "hosts": content["hosts"][:1], "group": {**BY_RAY, "ray": there}}
    )
    wanted = Deployment(made, made.hosts[0], member=ranks.member(made, "a"))
    line = node(wanted)
    assert wanted.member is None and "--there" in line and "--nodes" not in line
    assert line[line.index("--cluster") + 1] == "10.0.0.9:6379"
    assert serving.secrets(wanted)[ray.TOKEN].env == "RAY_TOKEN"


def test_a_plan_states_the_node_that_will_run() -> None:
    (change,) = ray.planned(by_ray(1))
    assert change.what == "Ray" and change.new == "node 2 of 2 at 10.0.0.1:6379"
    assert change.why == "2 GPUs, ports 20000-20199"
    assert ray.planned(wanted(1)) == []


def test_a_node_needs_shared_memory_for_its_objects() -> None:
    little = Answers({SHM: {"free": 300 << 20, "path": "/dev/shm"}})
    (said,) = serving._shared_memory(by_ray(0), little)
    assert "300 MiB free, and this start needs 512 MiB" in said
    assert not list(serving._shared_memory(wanted(0), little))
