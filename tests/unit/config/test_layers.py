"""Precedence and merging, as properties: what is set last wins, and its origin says so."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deployctl.config.document import Value
from deployctl.config.layers import merge
from deployctl.config.loader import load_profile
from deployctl.config.search import Place, Search
from deployctl.config.yamltext import parse
from tests.unit.config.conftest import SMALLEST

LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "serve.port": st.integers(1, 65535),
    "serve.dtype": st.sampled_from(["auto", "bfloat16"]),
    "serve.ready.stall": st.integers(1, 900),
    "serve.args.max-num-seqs": st.integers(1, 999),
    "build.python": st.sampled_from(["3.10", "3.12"]),
    "build.max_jobs": st.integers(1, 64),
    "clean.free_below_mib": st.integers(0, 4096),
}
LAYERS = ("base", "child", "environment", "--set")
layered = st.fixed_dictionaries(
    {},
    optional={
        leaf: st.dictionaries(st.sampled_from(LAYERS), values, min_size=1)
        for leaf, values in LEAVES.items()
    },
)


def written(name: str, given: dict[str, Any], head: str) -> tuple[str, dict[str, str]]:
    """A file that gives these leaves, and the place of each."""
    lines, places = head.splitlines(), {}
    sections: dict[tuple[str, ...], list[tuple[str, Any]]] = {}
    for leaf, value in given.items():
        *above, key = leaf.split(".")
        sections.setdefault(tuple(above), []).append((key, value))
    tops = sorted({section[0] for section in sections})
    for top in tops:
        lines.append(f"{top}:")
        for section in sorted(s for s in sections if s[0] == top):
            if len(section) == 2:
                lines.append(f"  {section[1]}:")
            indent = "  " * len(section)
            for key, value in sections[section]:
                lines.append(f"{indent}{key}: {value}")
                column = len(indent) + len(key) + 3
                places[".".join((*section, key))] = f"{name}:{len(lines)}:{column}"
    return "\n".join(lines) + "\n", places


@given(layered)
def test_the_last_layer_that_gives_a_value_wins(chosen: dict[str, dict[str, Any]]) -> None:
    by_layer = {
        layer: {leaf: values[layer] for leaf, values in chosen.items() if layer in values}
        for layer in LAYERS
    }
    with tempfile.TemporaryDirectory() as folder:
        profiles = Path(folder) / "profiles"
        profiles.mkdir()
        (profiles / "smallest.yaml").write_text(SMALLEST)
        places: dict[str, dict[str, str]] = {}
        for layer, base in (("base", "smallest"), ("child", "base")):
            file = profiles / f"{layer}.yaml"
            text, places[layer] = written(str(file), by_layer[layer], f"extends: {base}")
            file.write_text(text)
        loaded = load_profile(
            "child",
            environ={
                "DEPLOYCTL_" + leaf.upper().replace(".", "__").replace("-", "_"): str(value)
                for leaf, value in by_layer["environment"].items()
            },
            sets=[f"{leaf}={value}" for leaf, value in by_layer["--set"].items()],
            search=Search((Place("working directory", Path(folder)),)),
        )
        for leaf, values in chosen.items():
            winner = [layer for layer in LAYERS if layer in values][-1]
            found: Any = loaded.profile.model_dump()
            for key in leaf.split("."):
                found = found[key]
            assert found == values[winner]
            origin = str(loaded.origins[leaf])
            if winner in places:
                assert origin == places[winner][leaf]
            elif winner == "environment":
                assert origin.startswith("environment DEPLOYCTL_")
            else:
                assert origin == "--set"


keys = st.sampled_from("abcd")
trees = st.recursive(
    st.integers(),
    lambda inner: st.dictionaries(keys, inner) | st.lists(st.integers()),
    max_leaves=8,
)
mappings = st.dictionaries(keys, trees)


def merged(base: Any, over: Any) -> Any:
    """The rule, in plain words: mappings are merged, everything else replaces."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{k: merged(base[k], v) if k in base else v for k, v in over.items()}}
    return over


def value(data: Any, source: str) -> Value:
    return parse(repr(data), source, [])


@given(mappings, mappings)
def test_mappings_are_merged_and_all_else_replaced(base: Any, over: Any) -> None:
    result = merge(value(base, "base"), value(over, "over"), None)
    assert result.plain() == merged(base, over)


@given(mappings)
def test_merging_with_nothing_changes_nothing(data: Any) -> None:
    tree, nothing = value(data, "a"), value({}, "b")
    assert merge(tree, nothing, None).plain() == merge(nothing, tree, None).plain() == data


@given(mappings, mappings)
def test_each_leaf_keeps_the_origin_of_the_layer_that_gave_it(base: Any, over: Any) -> None:
    def check(found: Value, upper: Any, is_merged: bool) -> None:
        if isinstance(found.content, dict):
            for key, child in found.content.items():
                inner = upper.get(key) if isinstance(upper, dict) else None
                given_above = isinstance(upper, dict) and key in upper
                check(child, inner, given_above)
        elif not isinstance(found.content, tuple):
            assert found.origin.source == ("over" if is_merged else "base")

    check(merge(value(base, "base"), value(over, "over"), None), over, True)
