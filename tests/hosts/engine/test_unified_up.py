"""A whole `up` on a machine whose GPU shares its memory: nothing but nvidia-smi is stood in for."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from deployctl.engine.ledger.record import RunRecord
from tests.hosts.gpu.test_unified import GB10
from tests.hosts.served.host import ServedHost

SMI = Path(__file__).parents[1] / "lab" / "nvidia_smi_stand_in.py"
ON_GPU = ("build.target=cuda", "serve.gpus=[0]", "serve.gpu_memory_utilization=0.01")


@pytest.fixture
def gb10(served: ServedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServedHost:
    """A host with one such GPU, and the environment for it."""
    state, programs = tmp_path / "gpus.json", tmp_path / "programs"
    card = {"uuid": "GPU-0f", "minor": 250, "total": "[N/A]", **GB10}
    state.write_text(json.dumps({"driver": "580.95.05", "gpus": [card]}))
    text = SMI.read_text("utf-8").replace("/stand_in/gpus.json", str(state))
    programs.mkdir()
    (programs / "nvidia-smi").write_text(f"#!{sys.executable}\n{text}")
    (programs / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    served.leave()
    served.make_environment(*ON_GPU)
    return served


def up(host: ServedHost, *sets: str, playbook: str = "up") -> RunRecord:
    """This machine has no driver and no device files, of which preflight would speak."""
    return host.up(*ON_GPU, *sets, playbook=playbook, skip=frozenset({"preflight"}))


def cleaned(record: RunRecord) -> dict[str, Any]:
    (step,) = [step for step in record.hosts[0].steps if step.step == "clean"]
    return step.evidence


@pytest.mark.slow
def test_it_is_deployed_replaced_and_taken_down(gb10: ServedHost) -> None:
    first = up(gb10)
    assert first.outcome == "deployed", first.hosts[0].error and first.hosts[0].error.parts()
    assert cleaned(first)["memory_after"] == {"0": 0} and cleaned(first)["left_out"] == {}
    second = up(gb10, "serve.env.WHICH=other")
    assert second.outcome == "deployed", second.hosts[0].error and second.hosts[0].error.parts()
    assert "the unit" in {row["why"] for row in cleaned(second)["stopped"]}
    assert up(gb10, playbook="down").exit_code == 0
    # More than there is, now that nothing of ours will free any.
    refused = up(gb10, "serve.gpu_memory_utilization=1.0")
    error = refused.hosts[0].error
    assert refused.exit_code == 6 and error is not None
    assert "GPU 0 shares the machine's memory" in f"{error.what}\n{error.why}"
    assert gb10.unit()["state"] == "stopped"
