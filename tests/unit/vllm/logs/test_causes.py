"""Sentences about causes: whatever alternative of a pattern matched, nothing in them is empty."""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _parser as regular_expressions  # type: ignore[attr-defined]
from typing import Any

import pytest

from deployctl.vllm.logs import causes
from deployctl.vllm.logs.causes.cause import UNKNOWN, Cause, bare, cause

ALL = (*causes.SERVER, *causes.BUILD)


def always(parsed: Iterable[tuple[Any, Any]]) -> set[frozenset[int]]:
    """Sets of groups of which every match of a parsed pattern has one."""
    found: set[frozenset[int]] = set()
    for operation, value in parsed:
        name = str(operation)
        if name == "SUBPATTERN":
            group, _, _, inner = value
            found |= {frozenset({group})} if group else set()
            found |= always(inner)
        elif name == "BRANCH":
            found |= either([always(branch) for branch in value[1]])
        elif name.endswith("_REPEAT") and value[0] > 0:
            found |= always(value[2])
        elif name == "ATOMIC_GROUP":
            found |= always(value)
    return found


def either(branches: list[set[frozenset[int]]]) -> set[frozenset[int]]:
    """One of each branch's together; none where a branch has none."""
    joined = branches[0]
    for branch in branches[1:]:
        joined = {one | other for one in joined for other in branch}
    return joined


@pytest.mark.parametrize("known", ALL, ids=lambda each: each.id)
def test_every_match_has_what_a_sentence_needs(known: Cause) -> None:
    sure = always(regular_expressions.parse(known.pattern.pattern, known.pattern.flags))
    numbers = known.pattern.groupindex
    for names in bare(known.sentence) | bare(known.next):
        wanted = {numbers[name] for name in names.split("/")}
        assert any(groups <= wanted for groups in sure), f"{names}: put it in brackets"


@pytest.mark.parametrize("known", ALL, ids=lambda each: each.id)
def test_texts_name_groups_of_their_pattern(known: Cause) -> None:
    assert "?" not in known.sentence
    for text in (known.sentence, known.next):
        assert text.count("[") == text.count("]")
        for names in re.findall(r"\{([^}]*)\}", text):
            assert set(names.split("/")) <= known.pattern.groupindex.keys()


@pytest.mark.parametrize(
    ("template", "line", "said"),
    [
        ("no {a}", "a=1", "no 1"),
        ("no {a/b}", "b=2", "no 2"),
        ("no[ {a}]", "b=2", "no"),
        ("no [{a}|{b} at all]", "b=2", "no 2 at all"),
        ("no [{a}|such thing]", "b=2", "no such thing"),
        ("no [{a}|{a}]", "b={a}", "no "),
        ("no {b}", "b={a}[x|y]?", "no {a}[x|y]?"),
        ("no {a}", "b=2", f"no {UNKNOWN}"),
    ],
)
def test_a_text_is_filled(template: str, line: str, said: str) -> None:
    known = cause("x", "test", r"a=(?P<a>\S+)|b=(?P<b>\S+)", template, "")
    found = known.pattern.search(line)
    assert found is not None
    assert known.words(template, found) == said
