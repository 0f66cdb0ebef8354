"""`deployctl fixes` on any tree, without a host or a network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deployctl.cli.app import app
from deployctl.engine.ledger import wheels
from deployctl.errors import DeployError, UsageError
from tests.unit.vllm.fixes import tree_maker


def test_a_tree(tmp_path: Path) -> None:
    tree = tree_maker.make(tmp_path)
    done = CliRunner().invoke(app, ["fixes", str(tree), "--json"], catch_exceptions=False)
    report = json.loads(done.stdout)
    assert report["schema"] == "deployctl.fixes/1"
    assert report["fixes"][0]["verdict"] == "present"
    lines = CliRunner().invoke(app, ["fixes", str(tree)], catch_exceptions=False).stdout
    assert "vllm/v1/worker/gpu_model_runner.py:2: aux_layers of" in lines
    # The folder vllm itself is meant too.
    inside = CliRunner().invoke(app, ["fixes", str(tree / "vllm"), "--json"])
    assert json.loads(inside.stdout)["fixes"] == report["fixes"]


def test_no_tree(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["fixes", str(tmp_path)])
    assert isinstance(done.exception, UsageError)


def test_what_is_known() -> None:
    done = CliRunner().invoke(app, ["fixes"])
    assert "dflash-cache-drop" in done.stdout and "shows as:" in done.stdout
    known = json.loads(CliRunner().invoke(app, ["fixes", "--json"]).stdout)
    assert len(known["fixes"]) == 5


def test_sizes() -> None:
    assert wheels.size("20G") == 20 << 30
    assert wheels.size("1.5 MiB") == 3 << 19
    assert wheels.size("0") == 0
    with pytest.raises(UsageError):
        wheels.size("many")


ENDS = """\
class SpeculativeConfig:
    method: str = "dflash"


def layers(config):
    names = ["eagle_aux_hidden_state_layer_ids", "dflash_config", "target_layer_ids"]
    raise SystemExit(0)
"""


def test_code_that_ends_the_probe_leaves_its_fix_unknown(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/__init__.py").touch()
    (tmp_path / "vllm/spec.py").write_text(ENDS)
    done = CliRunner().invoke(app, ["fixes", str(tmp_path), "--json"], catch_exceptions=False)
    assert json.loads(done.stdout)["fixes"][0]["verdict"] == "unknown"
    (tmp_path / "vllm/spec.py").write_text(ENDS.replace("raise SystemExit", "import os; os._exit"))
    failed = CliRunner().invoke(app, ["fixes", str(tmp_path), "--json"]).exception
    assert isinstance(failed, DeployError) and "ended without an answer" in failed.what
