"""Real starts that fail, each in its own way: the right outcome at once, and nothing left running.

Then a real server whose processes are killed one by one.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deployctl.errors import AcceptanceFailed, NotReady
from deployctl.steps.acceptance import AcceptanceStep
from deployctl.steps.drafter import DrafterStep
from deployctl.steps.facts import MODEL
from deployctl.steps.fetch import FetchStep
from deployctl.steps.launch import LaunchStep
from deployctl.steps.ready import ReadyStep
from tests.hosts.lab.ports import free_port
from tests.hosts.lab.processes import is_alive
from tests.hosts.step_bench import Bench, deployment
from tests.hosts.test_units import until

pytestmark = pytest.mark.vllm
APART = (pytest.mark.slow, pytest.mark.xdist_group("vllm starts"))
"""Beside the deployed demo, and not in `scripts/test`: there one start of each kind is enough."""

ENV = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
RIGHT = {"dflash_config.mask_token_id": 3, "dflash_config.target_layer_ids": [1, 3, 5]}
STEPS = (FetchStep(), DrafterStep())
ALL_CHECKS = ["layer_ids", "layer_ids_range", "mask_token", "weights", "sliding_window"]


@pytest.fixture(scope="module")
def environment(request: pytest.FixtureRequest) -> Path:
    """The environment of the deployed demo, or one that is said to be like it."""
    given = os.environ.get("DEPLOYCTL_TEST_ENVIRONMENT")
    return Path(given) if given else request.getfixturevalue("vllm_environment")


def profile(port: int, drafter: dict[str, Any] | None = None, **serve: Any) -> dict[str, Any]:
    drafting = {
        "method": "dflash",
        "model": {"bundled": "tiny-dflash-stale"},
        "num_speculative_tokens": 7,
        "config": RIGHT,
        **(drafter or {}),
    }
    args = {"max-num-seqs": 8, "enforce-eager": True, **serve.pop("args", {})}
    env = {**ENV, **serve.pop("env", {})}
    return {
        "drafter": drafting,
        "serve": {
            "port": port,
            "gpus": [],
            "max_model_len": 1024,
            "args": args,
            "env": env,
            **serve,
        },
    }


@contextmanager
def bench(root: Path, environment: Path, changes: dict[str, Any]) -> Iterator[Bench]:
    """Fetched and with its drafter config written, as far as the steps let it."""
    made = Bench.at(root, deployment(changes))
    with made.session:
        made.run(FetchStep())
        made.environment(made.ask(FetchStep()), environment)
        if made.wanted.profile.drafter is not None:
            made.run(DrafterStep(), FetchStep())
        try:
            yield made
        finally:
            made.session.call("units.stop", profile="toy", unit="server", grace=1)


def launch(bench: Bench) -> None:
    step = LaunchStep()
    answers = bench.ask(step, FetchStep())
    plan = step.plan(bench.wanted, answers)
    assert plan.status == "change", plan.reason
    step.apply(bench.context(answers), plan)
    step.prove(bench.context(answers))


def ready(bench: Bench) -> dict[str, Any]:
    url = f"http://127.0.0.1:{bench.wanted.profile.serve.port}"
    return ReadyStep().prove(bench.context(bench.ask(ReadyStep()), url))


def unit(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = bench.session.call("units.state", profile="toy", unit="server")
    return found


def no_config(**config: Any) -> dict[str, Any]:
    return {"config": {**RIGHT, **config}, "warn_only": ALL_CHECKS}


ONE_OF_EACH = ("unknown option", "no mask token")
"""One that ends with its arguments, one that ends in the engine."""
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("unknown option", {"args": {"no-such-flag": 1}}, "unknown-option"),
    ("context too long", {"max_model_len": 999_999}, "context-too-long"),
    (
        "cache too small",
        {"max_model_len": 500_000, "env": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}},
        "kv-cache",
    ),
    ("host memory", {"env": {"VLLM_CPU_KVCACHE_SPACE": "1000"}}, "host-memory"),
    ("tokenizer that is not there", {"args": {"tokenizer": "/nowhere/tokenizer"}}, "model-path"),
    (
        "no mask token",
        {"drafter": no_config(**{"dflash_config.mask_token_id": None})},
        "mask-token-missing",
    ),
    (
        "sliding layers without a window",
        {"drafter": no_config(layer_types=["sliding_attention"] * 5, use_sliding_window=True)},
        "window-missing",
    ),
    (
        "layers that the target does not have",
        {"drafter": no_config(**{"dflash_config.target_layer_ids": [1, 3, 11]})},
        "layer-ids",
    ),
]


@pytest.mark.parametrize(
    ("wrong", "cause"),
    [pytest.param(*w[1:], id=w[0], marks=() if w[0] in ONE_OF_EACH else APART) for w in WRONG],
)
def test_a_start_that_fails(
    tmp_path: Path, environment: Path, wrong: dict[str, Any], cause: str
) -> None:
    with bench(tmp_path, environment, profile(free_port(), **wrong)) as made:
        launch(made)
        with pytest.raises(NotReady) as failed:
            ready(made)
        assert failed.value.evidence["cause"] == cause, failed.value
        assert failed.value.next
        assert unit(made)["members"] == []
        port = made.wanted.profile.serve.port
        assert not made.session.call("network.listener", port=port)["listening"]


@pytest.mark.slow
@pytest.mark.xdist_group("vllm starts")
def test_a_model_that_went_away(tmp_path: Path, environment: Path) -> None:
    with bench(tmp_path, environment, profile(free_port())) as made:
        step = LaunchStep()
        answers = made.ask(step, FetchStep())
        Path(answers[MODEL]["place"]).rename(tmp_path / "elsewhere")
        step.apply(made.context(answers), step.plan(made.wanted, answers))
        with pytest.raises(NotReady) as failed:
            ReadyStep().prove(made.context(answers))
        assert failed.value.evidence["cause"] == "model-path"
        assert answers[MODEL]["place"] in failed.value.thing
        assert unit(made)["members"] == []


@pytest.mark.slow
@pytest.mark.xdist_group("vllm starts")
def test_a_port_that_another_program_holds(tmp_path: Path, environment: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with bench(tmp_path, environment, profile(port)) as made:
            launch(made)
            with pytest.raises(NotReady, match=f"port {port} is held by pid {os.getpid()}"):
                ready(made)
            assert unit(made)["members"] == []


@pytest.mark.parametrize(
    "victim",
    [pytest.param(name, marks=APART) for name in ("vllm", "VLLM::EngineCor", "VLLM::Worker")],
)
def test_a_killed_process_is_noticed_and_all_is_cleaned_up(
    tmp_path: Path, environment: Path, victim: str
) -> None:
    with bench(tmp_path, environment, profile(free_port())) as made:
        began = time.monotonic()
        launch(made)
        ready(made)
        start = time.monotonic() - began
        # As after a failure too many: no restart, so that what is left can be looked at.
        (tmp_path / "profiles/toy/units/server/server/kept").unlink()
        members = unit(made)["members"]
        assert {"vllm", "VLLM::EngineCor", "VLLM::Worker"} <= {m["comm"] for m in members}
        began = time.monotonic()
        os.kill(next(m["pid"] for m in members if m["comm"] == victim), signal.SIGKILL)
        over = ("failed", "exited")
        ended = until("the end", lambda: u if (u := unit(made))["state"] in over else None, 120)
        assert time.monotonic() - began < 15 + start
        # An engine's death ends the API server with status 0: a failure all the same.
        assert ended["state"] == ("failed" if victim == "vllm" else "exited")
        until("nobody left", lambda: not unit(made)["members"], 60)
        assert not any(is_alive(m["pid"]) for m in members)


@pytest.mark.slow
@pytest.mark.xdist_group("vllm starts")
@pytest.mark.parametrize(
    ("config", "warned"),
    [
        ({"dflash_config.mask_token_id": 0}, "mask_token"),
        ({"dflash_config.target_layer_ids": [0, 2, 4]}, "layer_ids_usual"),
        (
            {
                "layer_types": ["sliding_attention"] * 5,
                "use_sliding_window": True,
                "sliding_window": 4,
            },
            None,
        ),
    ],
    ids=["mask token", "layers one off", "sliding window"],
)
def test_a_wrong_config_that_starts_is_caught_by_acceptance(
    tmp_path: Path, environment: Path, config: dict[str, Any], warned: str | None
) -> None:
    """Each passes the checks that must refuse, and none stays silent."""
    changes = profile(free_port(), {"config": {**RIGHT, **config}})
    gate = {
        "prompts": "code",
        "max_prompts": 4,
        "max_tokens": 128,
        "min_length": 6,
        "min_drafts": 20,
    }
    with bench(tmp_path, environment, {**changes, "acceptance": gate}) as made:
        checks = {c["name"]: c["verdict"] for c in made.evidence["drafter"]["checks"]}
        assert warned is None or checks[warned] == "warning"
        launch(made)
        ready(made)
        step = AcceptanceStep()
        url = f"http://127.0.0.1:{made.wanted.profile.serve.port}"
        with pytest.raises(AcceptanceFailed) as failed:
            step.prove(made.context(made.ask(step, *STEPS), url))
        assert failed.value.evidence["mean_acceptance_length"] < 5
