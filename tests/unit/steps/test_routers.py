"""The router's program: its command line, its requests and its answers, as 0.1.17 has them."""

from __future__ import annotations

import json

import pytest

from deployctl.agent.network.router import command
from deployctl.config.router import RouterSettings
from deployctl.steps.routers.vllm_router import VllmRouter

ENGINE = VllmRouter()
WORKERS = {
    "workers": [
        {"url": "http://10.0.0.1:8000", "model_id": "unknown", "is_healthy": True, "load": 0},
        {"url": "http://10.0.0.2:8000", "model_id": "unknown", "is_healthy": False, "load": 0},
    ],
    "total": 2,
}


def test_the_command_line_has_tight_health_checks_and_no_replica() -> None:
    settings = RouterSettings.model_validate(
        {"port": 9000, "health": {"interval": "2s", "failures": 3}}
    )
    argv = ENGINE.argv(settings, "/root/routers/x")
    assert argv[0] == "/root/routers/x/bin/vllm-router"
    given = dict(zip(argv[1::2], argv[2::2], strict=True))
    assert given["--port"] == "9000" and given["--host"] == "127.0.0.1"
    assert given["--health-check-interval-secs"] == "2"
    assert given["--health-failure-threshold"] == "3"
    assert "--worker-urls" not in argv
    assert ENGINE.requirement(settings) == "vllm-router==0.1.17"


def test_it_starts_with_the_replicas_that_it_had() -> None:
    settings = {"argv": ["r", "--port", "1"], "option": "--worker-urls", "replicas": ["u", "v"]}
    assert command(settings) == ["r", "--port", "1", "--worker-urls", "u", "v"]
    assert command({**settings, "replicas": []}) == ["r", "--port", "1"]


def test_its_replicas_and_their_health() -> None:
    found = ENGINE.replicas(json.dumps(WORKERS))
    assert found == {"http://10.0.0.1:8000": True, "http://10.0.0.2:8000": False}


@pytest.mark.parametrize("body", ["", "not found", "{}", '{"workers": [1]}', "[]"])
def test_another_answer_is_no_list(body: str) -> None:
    with pytest.raises(ValueError):
        ENGINE.replicas(body)


@pytest.mark.parametrize(
    ("status", "body", "added"),
    [
        (200, "Successfully added worker: http://10.0.0.1:8000", True),
        (400, "Worker http://10.0.0.1:8000 already exists", True),
        (400, "Invalid URL", False),
        (503, "", False),
    ],
)
def test_what_an_answer_to_add_means(status: int, body: str, added: bool) -> None:
    assert ENGINE.added(status, body) is added


@pytest.mark.parametrize(
    ("line", "cut_off"),
    [
        ('vllm_router_cb_state{worker="http://10.0.0.1:8000"} 1', True),
        ('vllm_router_cb_state{worker="http://10.0.0.1:8000"} 0', False),
        ('vllm_router_cb_state{worker="http://10.0.0.2:8000"} 1', False),
        ("vllm_router_active_workers 1", False),
    ],
)
def test_an_open_circuit_keeps_requests_from_a_replica(line: str, cut_off: bool) -> None:
    assert ENGINE.cut_off(f"# HELP x\n{line}\n", "http://10.0.0.1:8000") is cut_off


def test_a_url_is_quoted() -> None:
    assert ENGINE.add("http://[::1]:1").path == "/add_worker?url=http%3A%2F%2F%5B%3A%3A1%5D%3A1"
