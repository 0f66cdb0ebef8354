"""The figures of `deployctl bench` against those of vLLM's own bench, on the same server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vllm.conftest import Served

pytestmark = pytest.mark.vllm

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow
def test_both_agree_within_their_noise(served: Served, vllm_environment: Path) -> None:
    command = [
        *(sys.executable, "bench/serving_speed.py", "--url", served.url, "--model", served.model),
        *("--tokenizer", str(REPOSITORY / "models" / "tiny-target")),
        *("--environment", str(vllm_environment), "--concurrency", "1,4", "--requests", "8"),
        # Other tests run beside it: times are held to their order of magnitude, drafts are not.
        *("--agree", "0.5"),
    ]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    levels = json.loads(done.stdout.splitlines()[-1])
    assert set(levels) == {"1", "4"}
    for figures in levels.values():
        assert {"tokens_per_second", "first_token", "mean_acceptance_length"} <= set(figures)
