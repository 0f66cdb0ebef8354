"""The drafter's config where a release serves with it: judged, and changed by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deployctl.engine.inspect import drafters
from deployctl.errors import StagingFailed, UsageError
from tests.hosts.served.host import ServedHost


def verdicts(served: ServedHost) -> dict[str, str]:
    (found,) = drafters.on_hosts(served.profile())
    return {check.name: check.verdict for check in found.checks if check.verdict != "ok"}


def registry(served: ServedHost, architecture: str) -> None:
    """The environment's vLLM, as far as its list of architectures is read."""
    (packages,) = served.root.glob("environments/*/lib/python3.11/site-packages")
    models = packages / "vllm" / "model_executor" / "models"
    models.mkdir(parents=True, exist_ok=True)
    (models / "registry.py").write_text(f"_MODELS = {{{architecture!r}: ()}}\n")


def test_it_is_judged_against_the_build_and_the_profile(served: ServedHost) -> None:
    assert served.up().outcome == "deployed"
    registry(served, "DFlashDraftModel")
    assert verdicts(served) == {}
    registry(served, "Other")
    assert verdicts(served) == {"architecture": "error"}
    registry(served, "DFlashDraftModel")
    drafters.set_on_hosts(served.profile(), {"dflash_config.mask_token_id": 4})
    assert verdicts(served) == {"mask_token": "warning", "as_wanted": "error"}


def test_a_change_by_hand_that_cannot_be_meant_is_refused(served: ServedHost) -> None:
    served.up()
    profile = served.profile()
    (before,) = drafters.on_hosts(profile)
    for key, value, said in (
        ("dflash_confg.mask_token_id", 4, "did you mean dflash_config.mask_token_id?"),
        ("block_size", "abc", "it must be a whole number"),
        ("dflash_config.target_layer_ids", 7, "a list of whole numbers"),
    ):
        with pytest.raises(UsageError) as refused:
            drafters.set_on_hosts(profile, {key: value})
        assert said in refused.value.why
    assert drafters.on_hosts(profile) == [before]
    drafters.set_on_hosts(profile, {"house.colour": "red"}, new=True)
    drafters.set_on_hosts(profile, {"dflash_config.mask_token_id": 4})
    config = json.loads(Path(before.path).read_text())
    assert config["house"] == {"colour": "red"} and config["dflash_config"]["mask_token_id"] == 4
    assert served.up().outcome == "deployed"
    assert drafters.on_hosts(profile) == [before]


def test_a_misspelt_override_blocks_before_anything_is_touched(served: ServedHost) -> None:
    served.up()
    failed = served.up("drafter.config.blocksize=7")
    assert failed.exit_code == 6
    assert failed.hosts[0].error is not None
    assert "did you mean block_size?" in str(failed.hosts[0].error)
    assert "warn_only [keys]" in str(failed.hosts[0].error)


def test_a_config_that_is_no_json_is_told_as_that(served: ServedHost) -> None:
    served.up()
    (before,) = drafters.on_hosts(served.profile())
    Path(before.path).write_text("{")
    with pytest.raises(StagingFailed, match="is not JSON"):
        drafters.on_hosts(served.profile())
