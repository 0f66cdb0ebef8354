"""An edit changes one value; every other byte of the file stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.vllm.drafters import jsonedit

KEYS = st.text(st.characters(codec="utf-8", exclude_characters="."), min_size=1, max_size=6)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5)
INDENTS = st.sampled_from([None, 0, 2, 4, "\t"])


@given(OBJECTS, INDENTS, st.lists(KEYS, min_size=1, max_size=3), VALUES)
def test_an_edit_changes_that_value_and_nothing_else(
    document: dict[str, Any], indent: int | str | None, path: list[str], value: Any
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    expected = json.loads(text)
    place = expected
    for key in path[:-1]:
        place = place.setdefault(key, {})
        if not isinstance(place, dict):
            with pytest.raises(jsonedit.NotAnObject):
                jsonedit.put(text, ".".join(path), value)
            return
    place[path[-1]] = value
    edited = jsonedit.put(text, ".".join(path), value)
    assert json.loads(edited) == expected
    # The order of the keys stays too.
    assert list(json.loads(edited)) == list(expected)


@given(OBJECTS, INDENTS, st.data())
def test_bytes_outside_the_value_stay(
    document: dict[str, Any], indent: int | str | None, data: st.DataObject
) -> None:
    if not document:
        return
    text = json.dumps(document, indent=indent)
    key = data.draw(st.sampled_from(list(document)))
    edited = jsonedit.put(text, key, 12345)
    found = jsonedit.find(text, key)
    assert found is not None
    assert edited == text[: found.value] + "12345" + text[found.end :]


@given(OBJECTS, INDENTS, st.data())
def test_an_edit_twice_is_an_edit_once(
    document: dict[str, Any], indent: int | str | None, data: st.DataObject
) -> None:
    text = json.dumps(document, indent=indent)
    key, value = data.draw(KEYS), data.draw(VALUES)
    once = jsonedit.put(text, key, value)
    assert json.loads(jsonedit.put(once, key, value)) == json.loads(once)


def test_numbers_keep_their_spelling() -> None:
    text = '{"rms_norm_eps": 1e-6, "rope_theta": 1E7, "block_size": 16}'
    assert jsonedit.put(text, "block_size", 4) == (
        '{"rms_norm_eps": 1e-6, "rope_theta": 1E7, "block_size": 4}'
    )


def test_a_list_keeps_the_shape_it_had() -> None:
    text = '{\n  "a": {\n    "ids": [\n      0,\n      2\n    ],\n    "b": [1, 2]\n  }\n}'
    assert jsonedit.put(text, "a.ids", [1, 3]) == text.replace("0,", "1,").replace(
        "      2", "      3"
    )
    assert jsonedit.put(text, "a.b", [9]) == text.replace("[1, 2]", "[9]")


def test_of_a_key_given_twice_the_last_is_changed() -> None:
    text = '{"a": 1, "a": 2}'
    assert jsonedit.put(text, "a", 3) == '{"a": 1, "a": 3}'


def test_a_path_through_a_number_is_refused() -> None:
    with pytest.raises(jsonedit.NotAnObject):
        jsonedit.put('{"a": 1}', "a.b", 2)


def test_nested_and_dotted_wishes_are_the_same() -> None:
    assert jsonedit.flatten({"a": {"b": 1, "c": {"d": 2}}, "e": {}}) == {
        "a.b": 1,
        "a.c.d": 2,
        "e": {},
    }
