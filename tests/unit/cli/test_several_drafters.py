"""`deployctl drafter check` where there are several drafters: which one is judged, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deployctl.cli.drafter import app
from deployctl.errors import UsageError

MEDUSA = {"model_type": "medusa", "medusa_num_heads": 4, "hidden_size": 64, "vocab_size": 100}
EAGLE3 = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 50}
OTHER = {"architectures": ["LlamaForCausalLM"]}
STAGED = {"model_type": "deepseek_v4", "num_nextn_predict_layers": 1, "dspark_block_size": 5}


def laid(root: Path, **configs: Any) -> Path:
    """A folder with one config.json per name; `own` is its own."""
    for name, config in configs.items():
        folder = root if name == "own" else root / name
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(config if config == "{" else json.dumps(config))
    return root


def asked(*words: object) -> dict[str, Any]:
    """The config that was judged: its path, and its checks by name."""
    done = CliRunner().invoke(app, ["check", *map(str, words), "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    (found,) = json.loads(done.stdout)["configs"]
    checks = {one["name"]: (one["verdict"], one["message"]) for one in found["checks"]}
    return {"path": found["path"], **checks}


def test_the_only_one_below_is_judged_and_said(tmp_path: Path) -> None:
    found = asked(laid(tmp_path, heads=MEDUSA, vision=OTHER))
    assert found["path"] == str(tmp_path / "heads/config.json")
    verdict, said = found["drafter"]
    assert verdict == "warning" and "heads, the only drafter there" in said
    assert "draft_tokens" in found


def test_a_method_chooses_among_several(tmp_path: Path) -> None:
    folder = laid(tmp_path, heads=MEDUSA, eagle=EAGLE3, plain=OTHER)
    for method, name in (("medusa", "heads"), ("eagle3", "eagle"), ("draft_model", "plain")):
        found = asked(folder, "--method", method)
        assert found["path"] == str(folder / name / "config.json")
        assert f"the only one there for {method}" in found["drafter"][1]


@pytest.mark.parametrize("more", [(), ("--method", "medusa"), ("--method", "dflash")])
def test_one_must_be_named_where_none_follows(tmp_path: Path, more: tuple[str, ...]) -> None:
    folder = laid(tmp_path, a=MEDUSA, b=MEDUSA, c=EAGLE3)
    with pytest.raises(UsageError) as raised:
        asked(folder, *more)
    assert "a (medusa), b (medusa), c (eagle3)" in str(raised.value)
    assert raised.value.next == f"name one of them: deployctl drafter check {folder}/a"


def test_the_folders_own_is_what_vllm_reads(tmp_path: Path) -> None:
    found = asked(laid(tmp_path, own=MEDUSA, eagle=EAGLE3, vision=OTHER))
    assert found["path"] == str(tmp_path / "config.json")
    verdict, said = found["drafter"]
    assert verdict == "ok" and "drafters below: eagle (eagle3)" in said and "vision" not in said
    assert "drafter" not in asked(laid(tmp_path / "eagle"))


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        asked(laid(tmp_path))
    with pytest.raises(Exception, match="not JSON"):
        asked(laid(tmp_path, broken="{"))
    with pytest.raises(UsageError) as raised:
        asked(laid(tmp_path, broken="{", more="{"))
    assert "broken (unknown), more (unknown)" in str(raised.value)


def test_a_target_that_brings_its_own(tmp_path: Path) -> None:
    target = laid(tmp_path, own={**STAGED, "dspark_block_size": None})
    both = asked("--target", laid(tmp_path, own=STAGED))
    assert "several methods, mtp and dspark: name one" in both["method"][1]
    assert asked("--target", target, "--method", "mtp", "--tokens", 3)["mtp_layers"][0] == "ok"
    assert asked("--target", target, "--method", "dspark")["draft_tokens"][0] == "ok"
    with pytest.raises(UsageError, match="nothing to look at"):
        asked("--target", target, "--method", "eagle3")


def test_of_several_proposals_vllm_takes_the_first(tmp_path: Path) -> None:
    proposals = [{"proposal_type": "greedy"}, {"proposal_type": "sample"}, 3]
    said = {"proposal_methods": proposals, "default_proposal_method": "sample"}
    drafter = {"speculators_model_type": "eagle3", "speculators_config": said}
    verdict, text = asked(laid(tmp_path, own=drafter))["proposals"]
    assert verdict == "warning" and "takes the first, greedy, whatever default" in text
    said["proposal_methods"] = proposals[:1]
    assert "proposals" not in asked(laid(tmp_path, own=drafter))
