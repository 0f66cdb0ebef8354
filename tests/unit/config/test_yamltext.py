"""YAML as text: positions, the core schema, and what is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from deployctl.config.document import leaves
from deployctl.config.origins import COMMAND_LINE
from deployctl.config.yamltext import parse, parse_scalar, read, scalar
from deployctl.errors import ConfigError
from tests.unit.config.conftest import Folder


def plain(text: str) -> Any:
    return parse(text, "t.yaml", []).plain()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("true", True),
        ("False", False),
        ("22:22", "22:22"),
        ("2026-11-30", "2026-11-30"),
        ("1e7", 1e7),
        ("1_000", "1_000"),
        ("0123", 123),
        ("0o17", 15),
        ("0x1F", 31),
        ("-.inf", float("-inf")),
        ("3.10", 3.1),
        ("~", None),
        ("", None),
        ("0.33.0", "0.33.0"),
        ("'8'", "8"),
        ("=", "="),
        ("<<", "<<"),
    ],
)
def test_scalars_are_those_of_the_core_schema(text: str, value: Any) -> None:
    found = plain(f"[{text}]" if text else "[null]")[0]
    assert found == value and type(found) is type(value)


def test_keys_are_text_as_written() -> None:
    assert plain("{8: a, true: b, null: c, on: d, 1.50: e}") == {
        "8": "a",
        "true": "b",
        "null": "c",
        "on": "d",
        "1.50": "e",
    }


def test_every_value_and_key_knows_its_place() -> None:
    value = parse("a:\n  - b: 1\n    c: [2,  3]\n", "t.yaml", [])
    b = value.entries["a"].items[0].entries["b"]
    c = value.entries["a"].items[0].entries["c"]
    assert (str(b.key), str(b.origin)) == ("t.yaml:2:5", "t.yaml:2:8")
    assert [str(item.origin) for item in c.items] == ["t.yaml:3:9", "t.yaml:3:13"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\n\tb: 2\n", "t.yaml:2:1: while scanning for the next token, "),
        ("a: [1, 2\nb: 3\n", "t.yaml:2:2: "),
        ("a: 1\n---\nb: 2\n", "t.yaml:2:1: expected a single document in the stream, "),
        ("a: *b\n", "t.yaml:1:4: found undefined alias 'b'"),
        ("a: &a [*a]\n", "t.yaml:1:4: an alias inside its own anchor"),
        ("a: 'x\n", "t.yaml:2:1: while scanning a quoted scalar, "),
        ("a: \x07\n", "t.yaml:1:4: the character U+0007 is not allowed"),
        ("[" * 5000, "t.yaml: it is nested too deeply"),
    ],
)
def test_broken_yaml_is_told_with_its_place(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text, "t.yaml", [])
    assert error.value.why.startswith(why)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\n\tb: 2\n", "use spaces, not tabs"),
        ("a:\n    b: 1\n  c: 2\n", "the indentation differs from line 2"),
        ("a:\n    b: 1\n\n    # c\n  c: 2\n", "the indentation differs from line 2"),
        ("a:\n  - x\n y: 2\n", "the indentation differs from line 2"),
        ("a: 1\n- b\n", "it does not continue line 1: keys and list items ('- ') do not mix"),
        ("a: b: c\n", "quote a text that has ': ' in it, or correct the indentation"),
        ("a: 1\nb\nc: 2\n", "a key needs ': ' behind it"),
    ],
)
def test_broken_yaml_is_described_in_our_words(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text, "t.yaml", [])
    assert words in error.value.why


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigError, match="too many values"):
        parse("\n".join(lines), "t.yaml", [])


def test_half_a_character_is_refused() -> None:
    problems: list[Any] = []
    assert parse(r'a: "\ud83d\ude00"', "t.yaml", problems).plain() == {"a": "\U0001f600"}
    parse(r'a: "\ud83d"', "t.yaml", problems)
    assert [str(p) for p in problems] == ["t.yaml:1:4: an escape that is half a character"]


def test_an_alias_is_the_same_value_again() -> None:
    assert plain("a: &a {b: 1}\nc: *a\n") == {"a": {"b": 1}, "c": {"b": 1}}


def test_tags_and_keys_that_are_no_text_are_problems_and_reading_goes_on() -> None:
    problems: list[Any] = []
    value = parse("a: !x 1\n? [b]\n: 2\nc: 3\n", "t.yaml", problems)
    assert [str(problem) for problem in problems] == [
        "t.yaml:1:4: the tag !x is unsupported",
        "t.yaml:2:3: a key must be plain text",
    ]
    assert value.plain()["c"] == 3


def test_bytes_that_are_not_utf8_have_a_place(folder: Folder) -> None:
    path = folder.write("work/x.yaml", b"a: 1\nb: \xff\n")
    with pytest.raises(ConfigError) as error:
        read(path, [])
    assert error.value.why == "x.yaml:2:4: this byte is not UTF-8 text"


def test_a_byte_order_mark_and_an_empty_file_are_read(folder: Folder) -> None:
    assert read(folder.write("work/x.yaml", b"\xef\xbb\xbfa: 1\n"), []).plain() == {"a": 1}
    assert read(folder.write("work/y.yaml", b"# nothing\n"), []).plain() == {}


def test_a_folder_is_no_file(folder: Folder) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        read(folder.work, [])
    with pytest.raises(ConfigError, match="No such file"):
        read(Path("absent.yaml"), [])


def test_a_value_from_outside_may_be_empty_or_a_comment() -> None:
    assert parse_scalar("", COMMAND_LINE).content is None
    assert parse_scalar(" # nothing", COMMAND_LINE).content is None
    assert parse_scalar("{}", COMMAND_LINE).content == {}


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])) | st.sampled_from(
    [
        "1e7",
        "0o17",
        "on",
        "22:22",
        "~",
        "",
        " ",
        "- a",
        "a: b",
        "# c",
        "2026-11-30",
        "a\nb",
        "\n",
        "a\u2028b",
        "\x85",
        "a\r",
        "=",
        "<<",
    ]
)
# A key of more than 1024 characters, escapes counted, is none for YAML.
keys = words.filter(lambda word: len(json.dumps(word)) <= 1000)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | words
    | st.floats(allow_nan=False, allow_infinity=False)
)
data = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=12
)


@given(scalars | st.lists(scalars))
def test_a_scalar_on_one_line_reads_back_the_same(value: Any) -> None:
    written = scalar(value)
    assert "\n" not in written
    assert plain(f"k: {written}") == {"k": value}


@given(words)
def test_text_is_quoted_for_readers_of_yaml_1_1_too(value: str) -> None:
    assert yaml.safe_load(f"k: {scalar(value)}") == {"k": value}


@given(data)
def test_json_is_read_as_it_is_meant(value: Any) -> None:
    assert plain(json.dumps([value])) == [value]


@given(st.dictionaries(words, data))
def test_leaves_cover_everything_once(value: dict[str, Any]) -> None:
    found = list(leaves(value))
    assert len(found) == len(set(found))

    def at(path: tuple[str | int, ...]) -> Any:
        inner: Any = value
        for token in path:
            inner = inner[token]
        return inner

    for path in found:
        leaf = at(path)
        assert not (isinstance(leaf, dict) and leaf)
        assert not (isinstance(leaf, list) and any(isinstance(x, dict | list) for x in leaf))


def test_aliases_of_a_long_text_are_bounded() -> None:
    text = f"a: &a {'x' * (1 << 20)}\nb: [{', '.join(['*a'] * 2000)}]\n"
    with pytest.raises(ConfigError, match="too much text; aliases multiply"):
        parse(text, "p.yaml", [])


def test_a_document_without_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="characters"):
        parse("# " + "x" * (5 << 20), "p.yaml", [])
