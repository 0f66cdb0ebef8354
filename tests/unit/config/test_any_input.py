"""Whatever is written, set or exported: a profile, or an error that says where; never a crash."""

from __future__ import annotations

import copy
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from deployctl.config import shape
from deployctl.config.document import leaves
from deployctl.config.loader import load_profile
from deployctl.config.profile import Profile
from deployctl.config.search import default_search
from deployctl.config.shipped import data_directory
from deployctl.config.validation_errors import problems
from deployctl.config.yamltext import parse, read
from deployctl.errors import ConfigError, UsageError

STORY: dict[str, Any] = read(data_directory() / "profiles/qwen36-dflash.yaml", []).plain()
PLACES = [path[:length] for path in leaves(STORY) for length in range(1, len(path) + 1)]
PLACED = re.compile(r"^(/\S+|\S+\.yaml):\d+:\d+: |^--set: |^environment DEPLOYCTL_")

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
names = st.sampled_from(sorted({str(token) for path in PLACES for token in path}))
segments = st.lists(names | st.text("abc019_-", min_size=1, max_size=4), min_size=1, max_size=5)


def outcome(text: str | None, sets: list[str], environ: dict[str, str]) -> None:
    """Loads, or fails as it should."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "p.yaml"
        if text is not None:
            file.write_text(text, "utf-8", "surrogatepass")
        try:
            load_profile(
                str(file) if text is not None else "qwen36-dflash",
                sets=sets,
                environ=environ,
                search=default_search(Path(folder)),
            )
        except ConfigError as error:
            lines = error.why.splitlines()
            assert lines and all(PLACED.match(line) for line in lines), error.why
        except UsageError as error:
            assert error.what.startswith("--set ")


@hypothesis.settings(max_examples=150)
@given(st.sampled_from(PLACES), anything)
def test_any_value_at_any_place(path: tuple[str | int, ...], value: Any) -> None:
    data = copy.deepcopy(STORY)
    inner: Any = data
    for token in path[:-1]:
        inner = inner[token]
    inner[path[-1]] = value
    outcome(json.dumps(data), [], {})


def keys(schema: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every key of the schema, first items of lists included; a host's node is a host."""
    for choice in shape.choices(schema):
        for name, inner in shape.fields(choice).items():
            yield (*above, name)
            if name not in above:
                yield from keys(inner, (*above, name))
        inner = shape.item(choice)
        if inner is not None:
            yield from keys(inner, (*above, 0))


@pytest.mark.parametrize("value", ["zz!", 7.5, -1, True, {"zz": 1}, [[]]], ids=str)
def test_what_no_key_takes(value: Any) -> None:
    for path in keys(Profile):
        inner = value
        for token in reversed(path):
            inner = {token: inner} if isinstance(token, str) else [inner]
        try:
            Profile.model_validate(inner)
        except ValidationError as error:
            written = parse(json.dumps(inner), "p.yaml", [])
            for problem in problems(error, written, Profile, complete=False):
                assert problem.message


@given(anything)
def test_any_document(value: Any) -> None:
    outcome(json.dumps(value), [], {})


@given(st.text(st.characters(codec="utf-8")))
def test_any_text(text: str) -> None:
    outcome(text, [], {})


@hypothesis.settings(max_examples=150)
@given(segments, st.text(max_size=6) | st.sampled_from(["1", "true", "[]", "{}", "x", "[a"]))
def test_any_override(path: list[str], value: str) -> None:
    outcome(None, [f"{'.'.join(path)}={value}"], {})
    outcome(None, [], {f"DEPLOYCTL_{'__'.join(path).upper()}": value})
