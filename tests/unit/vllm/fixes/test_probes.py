"""The probes on trees whose code has other shapes, names and places: right or unknown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deployctl.vllm.fixes.registry import by_name, probe_source
from deployctl.vllm.fixes.requirements import unmet, uses_v2_runner
from tests.unit.vllm.fixes import tree_maker as trees

RUN = (
    "import json,sys\nnames={}\nexec(sys.stdin.read(), names)\n"
    "print(json.dumps(names['examine'](sys.argv[1])))"
)


def examine(tree: Path) -> dict[str, Any]:
    """As the agent does: in a child without our package."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", RUN, str(tree)],
        input=probe_source(),
        capture_output=True,
        text=True,
        check=True,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def verdict(tree: Path, fix: str) -> str:
    entry = next(e for e in examine(tree)["fixes"] if e["fix"] == fix)
    assert entry["evidence"], entry
    return str(entry["verdict"])


RUNNER = "v1__worker__gpu_model_runner"
MODEL = "model_executor__models__qwen3_dflash"
SCHEDULER = "v1__core__sched__scheduler"


def resolver(ids: str) -> str:
    return trees.RESOLVER.replace("@ids@", ids)


def test_report_shape(tmp_path: Path) -> None:
    report = examine(trees.make(tmp_path))
    assert (report["schema"], report["version"]) == ("deployctl.fixes/1", "0.0.1")
    assert [entry["fix"] for entry in report["fixes"]] == list(by_name())
    assert list(by_name())[:3] == [
        "dflash-layer-offset",
        "dflash-sliding-window",
        "dflash-cache-drop",
    ]
    evidence = report["fixes"][0]["evidence"][0]
    assert evidence["file"] == "vllm/v1/worker/gpu_model_runner.py" and evidence["line"] == 2
    assert "[2, 17, 32, 47, 62]" in evidence["what"]


@pytest.mark.parametrize(
    ("ids", "wanted"),
    [
        (trees.SHIFTED, "present"),
        ('tuple(layer_id + 1 for layer_id in dflash.get("target_layer_ids"))', "present"),
        ('list(map(lambda x: x + 1, dflash["target_layer_ids"]))', "present"),
        (
            '_shift(dflash.get("target_layer_ids"))\n\ndef _shift(v): return [x + 1 for x in v]\n'
            "def rest(found):\n    pass",
            "unknown",
        ),
        (trees.RAW, "absent"),
        ('list(dflash.get("target_layer_ids"))', "absent"),
        ('[i + 2 for i in dflash.get("target_layer_ids")]', "unknown"),
        ('somewhere_else.layers(dflash.get("target_layer_ids"))', "unknown"),
    ],
)
def test_layer_offset_shapes(tmp_path: Path, ids: str, wanted: str) -> None:
    assert verdict(trees.make(tmp_path, **{RUNNER: resolver(ids)}), "dflash-layer-offset") == wanted


def test_layer_offset_by_a_helper_in_another_file(tmp_path: Path) -> None:
    text = "from vllm.layers import shift\n" + resolver('shift(dflash.get("target_layer_ids"))')
    for n, plus in enumerate((" + 1", "")):
        helper = f"def shift(ids: 'List[int]') -> 'Unknown':\n    return [i{plus} for i in ids]\n"
        tree = trees.make(tmp_path / str(n), **{RUNNER: text, "layers": helper})
        assert verdict(tree, "dflash-layer-offset") == ("present" if plus else "absent")


def test_layer_offset_moved_and_renamed(tmp_path: Path) -> None:
    moved = resolver(trees.RAW).replace("aux_layers", "drafter_taps")
    tree = trees.make(tmp_path, **{RUNNER: None, "spec__taps": moved})
    assert verdict(tree, "dflash-layer-offset") == "absent"


def test_layer_offset_added_elsewhere_is_not_absent(tmp_path: Path) -> None:
    elsewhere = "def dflash_setup(model, aux):\n    model.set_aux(tuple(a + 1 for a in aux))\n"
    tree = trees.make(tmp_path, **{RUNNER: resolver(trees.RAW), "v1__setup": elsewhere})
    assert verdict(tree, "dflash-layer-offset") == "unknown"


def test_two_runners_must_agree(tmp_path: Path) -> None:
    tree = trees.make(tmp_path, v1__worker__gpu__utils=resolver(trees.RAW))
    assert verdict(tree, "dflash-layer-offset") == "unknown"


def test_nothing_found_is_unknown_never_absent(tmp_path: Path) -> None:
    tree = trees.make(tmp_path, **{RUNNER: "", MODEL: "", SCHEDULER: ""})
    found = {entry["fix"]: entry["verdict"] for entry in examine(tree)["fixes"]}
    assert set(found.values()) == {"unknown", "unsupported"}
    assert found["dflash-lm-head"] == "unsupported"  # no V2 runner at all
    gone = trees.make(tmp_path / "2", config__speculative=None)
    assert {entry["verdict"] for entry in examine(gone)["fixes"]} <= {
        "unknown",
        "present",
        "absent",
    }


def test_without_dflash_it_is_unsupported(tmp_path: Path) -> None:
    speculative = trees.SPECULATIVE.replace('"dflash"', '"ngram"')
    found = examine(trees.make(tmp_path, config__speculative=speculative))["fixes"]
    assert {entry["verdict"] for entry in found} == {"unsupported"}


def test_a_file_that_cannot_be_parsed_is_unknown(tmp_path: Path) -> None:
    broken = "def target_layer_ids(:\n"
    tree = trees.make(tmp_path, v1__broken=broken)
    assert verdict(tree, "dflash-layer-offset") == "unknown"


WINDOW = 'config.sliding_window if config.layer_types[layer_idx] == "sliding_attention" else None'


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (trees.attention(""), "absent"),
        (trees.attention(", **extra"), "unknown"),
        (trees.attention() + trees.layer(WINDOW), "present"),
        (trees.attention() + trees.layer("window", f"window = {WINDOW}"), "present"),
        (trees.attention() + trees.layer("None"), "unknown"),
        (trees.attention() + trees.layer("somewhere.window(config, layer_idx)"), "unknown"),
        (
            trees.attention()
            + trees.layer(
                "window",
                f"""
                if "full_attention" in config.layer_types:
                    raise NotImplementedError("mixed")
                window = {WINDOW}
                """,
            ),
            "rejected",
        ),
    ],
)
def test_sliding_window_shapes(tmp_path: Path, model: str, wanted: str) -> None:
    tree = trees.make(tmp_path, **{MODEL: None, "models__drafters": model})
    assert verdict(tree, "dflash-sliding-window") == wanted


RESOLVED = """
def resolve(config, layer_idx):
    kinds = getattr(config, "layer_types", None)
    mixed = len(set(kinds)) > 1
    if mixed and @refused@:
        raise NotImplementedError
    is_sliding = kinds[layer_idx] == "sliding_attention"
    return (config.sliding_window if is_sliding else None), False
"""


@pytest.mark.parametrize(
    ("refused", "wanted"),
    [
        ("True", "rejected"),
        ("not get_current_vllm_config().use_v2_model_runner", "v2-only"),
        ("False", "present"),
        ("current.missing", "unknown"),
    ],
)
def test_sliding_window_by_a_resolver(tmp_path: Path, refused: str, wanted: str) -> None:
    model = (
        trees.attention()
        + RESOLVED.replace("@refused@", refused)
        + trees.layer("window", "window, causal = resolve(config, layer_idx)")
    )
    assert verdict(trees.make(tmp_path, **{MODEL: model}), "dflash-sliding-window") == wanted


KEPT = """
            if spec.use_eagle():
                self.drop = not spec.use_dflash()
"""


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (trees.EAGLE, "absent"),
        (KEPT, "present"),
        ("            self.drop = spec.use_eagle() and not spec.use_dflash()\n", "present"),
        ('            self.drop = spec.method in ("eagle", "eagle3")\n', "present"),
        (
            "            self.drop = spec.use_eagle()\n"
            '            if spec.method == "dflash":\n                self.drop = False\n',
            "present",
        ),
        ("            self.drop = spec.no_such_method()\n", "unknown"),
        ("            self.drop = decided_elsewhere(spec)\n", "unknown"),
        (
            "            self.drop = spec.use_eagle()\n"
            "            if self.unknowable():\n                self.drop = False\n",
            "unknown",
        ),
        ("", "unknown"),  # nothing drops it for eagle3 either: not the code that was meant
    ],
)
def test_cache_drop_shapes(tmp_path: Path, body: str, wanted: str) -> None:
    tree = trees.make(tmp_path, **{SCHEDULER: None, "engine__planner": trees.scheduler(body)})
    assert verdict(tree, "dflash-cache-drop") == wanted


def test_cache_drop_names_the_opt_in(tmp_path: Path) -> None:
    body = "            self.drop = spec.use_eagle() and not spec.disable_eagle_block_drop\n"
    tree = trees.make(tmp_path, **{SCHEDULER: trees.scheduler(body)})
    (entry,) = [e for e in examine(tree)["fixes"] if e["fix"] == "dflash-cache-drop"]
    assert entry["verdict"] == "absent" and "opt-in" in entry["evidence"][0]["what"]
    report = {"fixes": [entry]}
    assert len(unmet(report, [entry["fix"]], True, {})) == 1
    assert unmet(report, [entry["fix"]], True, {"disable_eagle_block_drop": True}) == []


EXTRA = (
    trees.EAGLE
    + """
            if spec.use_dflash():
                self.num_lookahead_tokens = self.num_spec_tokens + 1
"""
)


@pytest.mark.parametrize(
    ("body", "slots", "wanted"),
    [
        (trees.EAGLE, "self.num_lookahead_tokens", "absent"),
        (EXTRA, "self.num_lookahead_tokens", "present"),
        (EXTRA, "0 if request.num_computed_tokens == 0 else self.num_lookahead_tokens", "absent"),
        (EXTRA, "0 if load_kv_async else self.num_lookahead_tokens", "present"),
        (EXTRA, "self.elsewhere(request)", "unknown"),
    ],
)
def test_lookahead_shapes(tmp_path: Path, body: str, slots: str, wanted: str) -> None:
    tree = trees.make(tmp_path, **{SCHEDULER: trees.scheduler(body, slots)})
    assert verdict(tree, "dflash-lookahead") == wanted


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        ('getattr(target_model, "lm_head", None)', "absent"),
        ('getattr(target_language_model, "lm_head", None) or target_model.lm_head', "present"),
        ("head_of(target_model)", "unknown"),
    ],
)
def test_lm_head_shapes(tmp_path: Path, head: str, wanted: str) -> None:
    text = f"def load(target_model, target_language_model):\n    target_lm_head = {head}\n"
    tree = trees.make(tmp_path, v1__worker__gpu__spec_decode__dflash__utils=text)
    assert verdict(tree, "dflash-lm-head") == wanted


def test_hostile_code_ends_with_its_child(tmp_path: Path) -> None:
    """Code of a tree runs under limits; what it does to its own process is no verdict."""
    endless = 'list(range(1 << 40)) + dflash.get("target_layer_ids")'
    tree = trees.make(tmp_path, **{RUNNER: resolver(endless)})
    assert verdict(tree, "dflash-layer-offset") == "unknown"


REPORT: dict[str, Any] = {
    "fixes": [
        {"fix": "a", "verdict": "present", "evidence": []},
        {"fix": "b", "verdict": "v2-only", "evidence": []},
        {
            "fix": "c",
            "verdict": "unknown",
            "evidence": [{"file": "vllm/x.py", "line": 7, "what": "could not run"}],
        },
    ]
}


def test_requirements() -> None:
    assert unmet(REPORT, ["a", "b"], True, {}) == []
    (sentence,) = unmet(REPORT, ["a", "b"], False, {})
    assert "V2 model runner alone" in sentence
    assert unmet(REPORT, ["c"], True, {}) == ["c is unknown: vllm/x.py:7 could not run"]
    assert "no such fix" in unmet(REPORT, ["d"], True, {})[0]


def test_which_runner_is_used() -> None:
    assert uses_v2_runner({}, "cuda") and uses_v2_runner({"VLLM_USE_V2_MODEL_RUNNER": "1"}, "cuda")
    assert not uses_v2_runner({"VLLM_USE_V2_MODEL_RUNNER": "0"}, "cuda")
    assert not uses_v2_runner({}, "cpu")
