"""The options and variables that make a server one rank of a group."""

from __future__ import annotations

import json

import pytest

from deployctl.config.profile import Profile
from deployctl.engine.run.placement import groups, placements
from deployctl.steps.facts import MODEL
from deployctl.steps.interface import Answers, Deployment
from deployctl.steps.servers import ranks, serving
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
    made = profile().model_dump(mode="json")
    made |= {"group": None, "serve": {"port": 1, "args": {"data-parallel-rank": 0}}}
    alone = Profile.model_validate(made)
    answers = Answers({MODEL: {"config": {"text": json.dumps(config)}}})
    found = list(serving._data_parallel(Deployment(alone, alone.hosts[0]), answers))
    assert bool(found) is refused and all("use replicas" in said for said in found)


def test_a_group_is_one_group_of_placements_in_the_order_of_ranks() -> None:
    (group,) = groups(placements(profile()))
    assert group.name == "toy" and group.hosts == ("a", "b")
    assert [(one.role, one.rank) for one in group.placements] == [("head", 0), ("worker", 1)]
