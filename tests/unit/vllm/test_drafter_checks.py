"""Checks of a drafter's config: the published ones pass, each wrong one is named."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.vllm.drafters.drafter import desired, parse
from deployctl.vllm.drafters.drafter_checks import check, errors
from deployctl.vllm.drafters.drafter_shape import usual_layer_ids
from deployctl.vllm.drafters.drafter_verdicts import CHECKS, Circumstances, Verdict
from deployctl.vllm.drafters.edits import refused
from deployctl.vllm.drafters.fields import FIELDS
from deployctl.vllm.drafters.jsonedit import NotAnObject, put
from deployctl.vllm.drafters.loaded import layers

CONFIGS = Path(__file__).parents[2] / "cases" / "configs"

# file, its target's hidden size, layers and vocabulary, draft tokens, the checks that are not ok
PUBLISHED: list[tuple[str, tuple[int, int, int], int, dict[str, Verdict]]] = [
    ("qwen3-4b-dflash-b16.derived", (2560, 36, 151936), 15, {}),
    # use_sliding_window is missing in this trimmed copy: the window would be dropped.
    ("qwen3.6-27b-dflash.trimmed", (5120, 64, 248320), 15, {"sliding_window": "error"}),
    # It has use_sliding_window and no layer_types: all full attention, silently.
    ("qwen3.5-122b-a10b-dflash.trimmed", (3072, 48, 248320), 15, {"layer_types": "warning"}),
    ("qwen3.8-27b-dflash2", (5120, 64, 248320), 7, {}),
    ("muse-glimmer-30b-dflash2", (6656, 52, 202048), 15, {}),
    ("mimo-v2.5-pro-dflash", (6144, 70, 152064), 7, {"layer_ids_usual": "warning"}),
]


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CONFIGS / f"{name}.config.json").read_text("utf-8"))
    return found


def circumstances(sizes: tuple[int, int, int], tokens: int, **more: Any) -> Circumstances:
    target = dict(zip(("hidden_size", "num_hidden_layers", "vocab_size"), sizes, strict=True))
    known = {"DFlashDraftModel", "DFlash2DraftModel"}
    return Circumstances(target, "dflash", tokens, architectures=known, **more)


def verdicts(config: dict[str, Any], around: Circumstances) -> dict[str, Verdict]:
    assert {c.name for c in check(config, around)} <= CHECKS
    return {c.name: c.verdict for c in check(config, around) if c.verdict != "ok"}


@pytest.mark.parametrize(("name", "sizes", "tokens", "expected"), PUBLISHED)
def test_published_configs(
    name: str, sizes: tuple[int, int, int], tokens: int, expected: dict[str, Verdict]
) -> None:
    assert verdicts(load(name), circumstances(sizes, tokens)) == expected


def test_an_eagle3_drafter_has_its_own_checks() -> None:
    target = {"hidden_size": 4096, "vocab_size": 128256}
    around = Circumstances(target, "eagle3", 4, architectures={"LlamaForCausalLMEagle3"})
    found = check(load("eagle3-llama3-8b.shape"), around)
    assert [(c.name, c.verdict) for c in found] == [
        ("architecture", "ok"),
        ("hidden_size", "ok"),
        ("vocabulary", "ok"),
        ("layer_ids", "ok"),
    ]


def test_more_draft_tokens_than_the_block_has() -> None:
    """Case 6, its second half."""
    sizes = (5120, 64, 248320)
    found = errors(check(load("qwen3.8-27b-dflash2"), circumstances(sizes, 16)))
    assert [c.name for c in found] == ["draft_tokens"]
    assert "7 is the most" in found[0].message


BASE = (2560, 36, 151936)
SHIFTED = [2, 10, 18, 26, 34]
WRONG: list[tuple[str, dict[str, Any], dict[str, Verdict]]] = [
    ("no architectures", {"architectures": None}, {"architecture": "error"}),
    ("unknown architecture", {"architectures": ["DFlash9"]}, {"architecture": "error"}),
    ("hidden size", {"hidden_size": 4096}, {"hidden_size": "error"}),
    ("vocabulary", {"vocab_size": 1024}, {"vocabulary": "error", "mask_token": "error"}),
    ("number of target layers", {"num_target_layers": 64}, {"target_layers": "error"}),
    (
        "ids missing",
        {"dflash_config": {"mask_token_id": 151669}},
        {"layer_ids": "error"},
    ),
    (
        "ids twice",
        {"dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 9, 25, 33]}},
        {"layer_ids": "error", "layer_ids_usual": "warning"},
    ),
    (
        "ids that are no numbers",
        {"dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, "9"]}},
        {"types": "error"},
    ),
    (
        "ids beyond the target",
        {"dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 36]}},
        {"layer_ids_range": "error", "layer_ids_usual": "warning"},
    ),
    (
        "ids not usual",
        {"dflash_config": {"mask_token_id": 151669, "target_layer_ids": [0, 9, 17, 25, 33]}},
        {"layer_ids_usual": "warning"},
    ),
    (
        "ids plus one",
        {"dflash_config": {"mask_token_id": 151669, "target_layer_ids": SHIFTED}},
        {"layer_ids_usual": "warning", "layer_ids_shifted": "error"},
    ),
    (
        "no mask token",
        {"dflash_config": {"target_layer_ids": [1, 9, 17, 25, 33]}},
        {"mask_token": "error"},
    ),
    (
        "mask token outside the vocabulary",
        {"dflash_config": {"mask_token_id": 151936, "target_layer_ids": [1, 9, 17, 25, 33]}},
        {"mask_token": "error"},
    ),
    ("layer types too few", {"layer_types": ["full_attention"] * 4}, {"layer_types": "error"}),
    ("layer types unknown", {"layer_types": ["chunked"] * 5}, {"layer_types": "error"}),
    (
        "sliding layers without a window",
        {"layer_types": ["sliding_attention"] * 5, "use_sliding_window": True},
        {"sliding_window": "error"},
    ),
    (
        "sliding layers switched off",
        {"layer_types": ["sliding_attention"] * 5, "sliding_window": 2048},
        {"sliding_window": "error"},
    ),
    (
        "two copies that differ",
        {
            "dflash_config": {
                "mask_token_id": 151669,
                "target_layer_ids": [1, 9, 17, 25, 33],
                "block_size": 8,
            }
        },
        {"copies": "error"},
    ),
]


@pytest.mark.parametrize(("changes", "expected"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_each_wrong_config_is_named(changes: dict[str, Any], expected: dict[str, Verdict]) -> None:
    config = {**load("qwen3-4b-dflash-b16.derived"), **changes}
    assert verdicts(config, circumstances(BASE, 15)) == expected


def test_a_check_may_be_softened_by_name() -> None:
    config = {**load("qwen3-4b-dflash-b16.derived"), "vocab_size": 1024}
    found = check(config, circumstances(BASE, 15), warn_only={"vocabulary", "mask_token"})
    assert not errors(found)
    assert {c.name for c in found if c.verdict == "warning"} == {"vocabulary", "mask_token"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("block_size", "abc"),
        ("dflash_config.mask_token_id", "x"),
        ("dflash_config.mask_token_id", 1.5),
        ("dflash_config.mask_token_id", True),
        ("dflash_config.target_layer_ids", 7),
        ("layer_types", 3),
        ("num_hidden_layers", None),
        ("sliding_window", "x"),
        ("hidden_size", 10**400),
        ("dflash_config", []),
    ],
)
def test_a_wrong_type_is_named_alone(path: str, value: Any) -> None:
    config = json.loads(put(json.dumps(load("qwen3-4b-dflash-b16.derived")), path, value))
    (found,) = errors(check(config, circumstances(BASE, 15)))
    assert found.name == "types" and found.message.startswith(f"{path} is ")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
SAMPLES = ["qwen3-4b-dflash-b16.derived", "mimo-v2.5-pro-dflash", "qwen3.8-27b-dflash2"]
SPECULATORS = {"speculators_model_type": "dflash", "transformer_layer_config": {"hidden_size": 1}}


@given(
    base=st.sampled_from([*map(load, SAMPLES), SPECULATORS]),
    path=st.sampled_from(sorted(FIELDS)),
    value=VALUES,
    target=st.dictionaries(st.sampled_from(["hidden_size", "vocab_size", "text_config"]), VALUES)
    | st.fixed_dictionaries({"num_hidden_layers": VALUES, "pad_token_id": VALUES}),
    soft=st.sampled_from([(), CHECKS]),
)
def test_any_value_at_any_key_gives_verdicts(
    base: dict[str, Any], path: str, value: Any, target: dict[str, Any], soft: Collection[str]
) -> None:
    try:
        config = parse(put(json.dumps(base), path, value))
    except NotAnObject:
        return
    shapes = {"fc.weight": [5, 10]}
    around = Circumstances(target, "dflash", 7, upstream=base, tensors=shapes, mask_tokens=[3])
    assert {c.name for c in check(config, around, soft)} <= CHECKS
    assert not soft or not errors(check(config, around, soft))
    assert layers("", config) is None or layers("", config)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"blocksize": 7}, "did you mean block_size?"),
        ({"dflash_confg.mask_token_id": 4}, "did you mean dflash_config.mask_token_id?"),
        ({"mask_tokenid": 4}, "did you mean mask_token_id?"),
        ({"zzz": 4}, "zzz is not in this config, nor a known key"),
        ({"house": 1}, 'house is 1, it was "red": another type'),
        ({"rooms": ["a"]}, 'rooms is ["a"], it was [1]: another type'),
        ({"house": None}, "another type"),
    ],
)
def test_an_override_that_cannot_be_meant_is_refused(overrides: dict[str, Any], said: str) -> None:
    upstream = {**load("qwen3-4b-dflash-b16.derived"), "house": "red", "rooms": [1], "open": None}
    config = desired(json.dumps(upstream), overrides).config
    (found,) = errors(check(config, circumstances(BASE, 15, upstream=upstream)))
    assert said in found.message
    assert refused(upstream, config) == [found]
    assert not errors(check(config, circumstances(BASE, 15, upstream=upstream), {"keys", "types"}))


@pytest.mark.parametrize(
    "overrides",
    [
        {"dflash_config.block_size": 16},
        {"auto_map": {"AutoConfig": "x"}},
        {"house": "blue"},
        {"rooms": [2, 3.5]},
        {"rooms": []},
        {"open": 3},
        {"rope_theta": 1e6},
    ],
)
def test_keys_that_are_there_or_known_may_be_set(overrides: dict[str, Any]) -> None:
    upstream = {**load("qwen3-4b-dflash-b16.derived"), "house": "red", "rooms": [1], "open": None}
    assert refused(upstream, desired(json.dumps(upstream), overrides).config) == []


def test_what_was_wrong_before_is_not_held_against_an_edit() -> None:
    assert refused({"block_size": "x"}, {"block_size": "x", "hidden_size": 3}) == []


def test_what_the_build_knows_may_be_unknown() -> None:
    target = {"hidden_size": 2560, "num_hidden_layers": 36, "vocab_size": 151936}
    around = Circumstances(target, "dflash", 15)
    assert verdicts(load("qwen3-4b-dflash-b16.derived"), around) == {"architecture": "unknown"}


@pytest.mark.parametrize(
    ("offset", "verdict"), [(True, "error"), (None, "error"), (False, "warning")]
)
def test_the_workaround_for_the_layer_offset(offset: bool | None, verdict: Verdict) -> None:
    upstream = load("qwen3.8-27b-dflash2") | {"architectures": ["DFlashDraftModel"]}
    ids = [i + 1 for i in upstream["dflash_config"]["target_layer_ids"]]
    config = {**upstream, "dflash_config": {**upstream["dflash_config"], "target_layer_ids": ids}}
    around = circumstances((5120, 64, 248320), 7, upstream=upstream, layer_offset=offset)
    assert verdicts(config, around)["layer_ids_shifted"] == verdict


def test_a_stale_upstream_may_be_raised_to_the_usual_layers() -> None:
    stale = {
        "architectures": ["DFlashDraftModel"],
        "dflash_config": {"target_layer_ids": [0, 2, 4]},
    }
    right = {
        "architectures": ["DFlashDraftModel"],
        "dflash_config": {"target_layer_ids": [1, 3, 5]},
    }
    around = circumstances((128, 8, 1024), 7, upstream=stale)
    assert "layer_ids_shifted" not in verdicts(right, around)


def test_the_weights_say_how_many_layers_they_read() -> None:
    config = load("qwen3-4b-dflash-b16.derived")
    shapes = {"fc.weight": [2560, 5 * 2560]}
    assert "weights" not in verdicts(config, circumstances(BASE, 15, tensors=shapes))
    shapes = {"fc.weight": [2560, 3 * 2560]}
    assert verdicts(config, circumstances(BASE, 15, tensors=shapes)) == {"weights": "error"}


def test_the_tokenizers_own_mask_token_is_compared() -> None:
    config = load("qwen3-4b-dflash-b16.derived")
    assert verdicts(config, circumstances(BASE, 15, mask_tokens=[151669])) == {}
    assert verdicts(config, circumstances(BASE, 15, mask_tokens=[])) == {}
    assert verdicts(config, circumstances(BASE, 15, mask_tokens=[7])) == {"mask_token": "warning"}


def test_a_mask_token_that_is_also_padding() -> None:
    target = dict(zip(("hidden_size", "num_hidden_layers", "vocab_size"), BASE, strict=True))
    config = load("qwen3-4b-dflash-b16.derived")
    config["dflash_config"]["mask_token_id"] = 0
    around = Circumstances({**target, "pad_token_id": 0}, "dflash", 15)
    assert verdicts(config, around)["mask_token"] == "warning"


def test_speculators_count_from_one() -> None:
    config = {
        "architectures": ["DFlashDraftModel"],
        "speculators_model_type": "dflash",
        "aux_hidden_state_layer_ids": [2, 17, 32, 47, 62],
        "mask_token_id": 248070,
        "block_size": 16,
        "transformer_layer_config": {
            "hidden_size": 5120,
            "vocab_size": 248320,
            "num_hidden_layers": 5,
        },
    }
    assert verdicts(config, circumstances((5120, 64, 248320), 15)) == {}
    config["aux_hidden_state_layer_ids"] = [0, 17, 32, 47, 62]
    assert "layer_ids_range" in verdicts(config, circumstances((5120, 64, 248320), 15))


@pytest.mark.parametrize(
    ("count", "layers", "ids"),
    [
        (5, 64, [1, 16, 31, 46, 61]),
        (5, 36, [1, 9, 17, 25, 33]),
        (5, 40, [1, 10, 19, 28, 37]),
        (5, 24, [1, 6, 11, 16, 21]),
        (8, 48, [1, 7, 14, 20, 26, 32, 39, 45]),
        (3, 8, [1, 3, 5]),
        (1, 8, [1]),
    ],
)
def test_the_usual_layers(count: int, layers: int, ids: list[int]) -> None:
    assert usual_layer_ids(count, layers) == ids
