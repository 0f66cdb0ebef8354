"""Server-sent events in every form that the standard allows, in pieces of any size."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.vllm.client.event_stream import EventStream

DOCUMENTS = [json.dumps({"choices": [{"delta": {"content": "é\u2028"}}]}), "[1, 2]", "[DONE]"]


def events(text: bytes, cuts: list[int]) -> list[str]:
    stream, found, at = EventStream(), [], 0
    for cut in [*sorted(cuts), len(text)]:
        found += stream.feed(text[at : max(cut, at)])
        at = max(cut, at)
    return found + stream.end()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("lead", ["", "\ufeff", ": ping\n\n", "event: x\nid: 1\nretry: 3\n"])
@given(cuts=st.lists(st.integers(0, 120), max_size=8))
def test_line_ends_comments_and_other_fields(end: str, lead: str, cuts: list[int]) -> None:
    text = lead + "".join(f"data: {one}\n\n" for one in DOCUMENTS)
    assert events(text.replace("\n", end).encode(), cuts) == DOCUMENTS


def test_data_of_several_lines_is_one_event() -> None:
    (event,) = events(b'data: {"a":\ndata:[1,\ndata: 2]}\n\n', [])
    assert json.loads(event) == {"a": [1, 2]}


def test_events_without_the_line_between_and_without_an_end() -> None:
    assert events("\n".join(f"data: {one}" for one in DOCUMENTS).encode(), [3]) == DOCUMENTS


def test_nothing_but_comments() -> None:
    assert events(b": ping\n\n\n\ndatabase: 1\n\n", []) == []
