"""A real vLLM with its control endpoints: they answer with their key alone, and put it to sleep."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from deployctl.config.host import HostSettings
from deployctl.engine.connections.connect import connect
from deployctl.hosts.operations import sleeping, units
from deployctl.steps.identity import UnitId
from deployctl.steps.servers.sleeping import GUARD, guard
from tests.hosts.lab.ports import free_port
from tests.hosts.test_units import until

pytestmark = [pytest.mark.vllm, pytest.mark.slow]
MODEL = Path(__file__).parents[2] / "models/tiny-target"
ENV = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
OPTIONS = ("--max-model-len", "512", "--max-num-seqs", "4", "--enforce-eager")


@pytest.fixture
def environment(request: pytest.FixtureRequest) -> Path:
    """The environment of the deployed demo, or one that is said to be like it."""
    given = os.environ.get("DEPLOYCTL_TEST_ENVIRONMENT")
    return Path(given) if given else request.getfixturevalue("vllm_environment")


def ask(port: int, path: str, post: bool = False) -> int:
    """The status of an answer without the key; 0 where none comes."""
    data = b"{}" if post else None
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_control_endpoints_answer_with_their_key_alone(environment: Path, tmp_path: Path) -> None:
    # A CPU build has no memory to give back: at level 0 its scheduler alone sleeps.
    port, unit = free_port(), UnitId(profile="p", unit="blue")
    argv = [str(environment / "bin/vllm"), "serve", str(MODEL), "--served-model-name", "tiny"]
    argv += ["--host", "127.0.0.1", "--port", str(port), *OPTIONS, "--middleware", GUARD]
    host = HostSettings(name="here", local=True, root=str(tmp_path / "root"))
    with connect(host) as connected:
        session = connected.session
        try:
            session.call(
                units.start,
                **unit,
                argv=argv,
                release="r",
                env=ENV,
                supervisor="agent",
                guard=guard(argv),
            )
            until("it answers", lambda: ask(port, "/health") == 200, 300)
            assert session.call(sleeping.guarded, **unit) == {"without_key": 404, "with_key": 200}
            for path in ("/sleep?level=0", "/wake_up", "/collective_rpc", "/reset_prefix_cache"):
                assert ask(port, path, post=True) == 404
            assert ask(port, "/v1/models") == ask(port, "/metrics") == 200
            session.call(sleeping.sleep, **unit, level=0)
            asleep = session.call(units.state, **unit)["asleep"]
            assert asleep is not None and asleep["level"] == 0
            session.call(sleeping.wake, **unit)
            assert session.call(units.state, **unit)["asleep"] is None
            body = json.dumps({"model": "tiny", "prompt": "a", "max_tokens": 1}).encode()
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/v1/completions",
                body,
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=120) as answer:
                assert json.loads(answer.read())["choices"]
        finally:
            session.call(units.stop, **unit, grace=1.0)
