"""Shipped prompt sets, and files in the forms that published sets have."""

from __future__ import annotations

import gzip
import hashlib
import json
import socket
from pathlib import Path

import pytest
from huggingface_hub import constants

from deployctl.errors import ConfigError
from deployctl.vllm.client.prompt_sets import SHIPPED, Prompt, load
from deployctl.vllm.client.requests import lengthened
from tests.unit.vllm.loopback import respond, serving


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_sets_hold_enough_different_prompts(name: str) -> None:
    prompts = load(name).prompts
    assert len(prompts) >= 12
    assert len({prompt.text for prompt in prompts}) == len(prompts)


def test_long_context_is_longer_than_the_usual_window() -> None:
    assert min(prompt.filler_tokens for prompt in load("long-context").prompts) > 2048


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"prompt": "Say OK."}, "Say OK."),
        ({"question": "2 + 2?", "answer": "#### 4"}, "2 + 2?"),
        ({"question_id": 81, "category": "writing", "turns": ["First", "Second"]}, "First"),
        (
            {"task_id": "T/0", "prompt": "def f():\n", "canonical_solution": ""},
            "Complete this Python function.\n\n```python\ndef f():\n```",
        ),
    ],
    ids=["ours", "gsm8k", "mt-bench", "humaneval"],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_published_forms(
    tmp_path: Path, row: dict[str, object], text: str, compressed: bool
) -> None:
    data = json.dumps(row).encode() + b"\n\n"
    path = tmp_path / ("set.jsonl.gz" if compressed else "set.jsonl")
    path.write_bytes(gzip.compress(data) if compressed else data)
    assert load(str(path)).prompts == (Prompt(text),)


def test_a_text_file_has_one_prompt_a_line(tmp_path: Path) -> None:
    path = tmp_path / "prompts.txt"
    path.write_text("one\n\n  two\n")
    assert load(str(path)).prompts == (Prompt("one"), Prompt("two"))


@pytest.mark.parametrize("line", ["{", "[]", '{"text": "x"}', '{"turns": []}', "3"])
def test_a_broken_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text('{"prompt": "x"}\n' + line + "\n")
    with pytest.raises(ConfigError, match=r"set\.jsonl:2: not a prompt"):
        load(str(path))


def test_what_is_neither_shipped_nor_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither a shipped one nor a file"):
        load("poems")
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        load(str(empty))
    broken = tmp_path / "broken.jsonl.gz"
    broken.write_bytes(b"\x1f\x8bnot gzip")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(str(broken))


@pytest.mark.parametrize("characters", [0, 1, 100, 5000])
def test_filler_comes_to_the_wanted_length_and_ends_with_the_question(characters: int) -> None:
    text = lengthened("The question?", characters)
    assert text.endswith("The question?")
    assert characters <= len(text) <= characters + 200


def test_a_dataset_of_a_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in hub with one file, over a real socket."""
    data = b'{"question": "2 + 2?"}\n'
    asked = []

    def behave(connection: socket.socket, request: bytes) -> None:
        method, path, _ = request.split(b" ", 2)
        asked.append((method, path))
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\nConnection: close\r\n"
            f'ETag: "{hashlib.sha256(data).hexdigest()}"\r\nX-Repo-Commit: {"a" * 40}\r\n\r\n'
        )
        connection.sendall(head.encode() + (data if method == b"GET" else b""))

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with serving(behave) as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        assert load("hub:openai/sums@v1/data/test.jsonl").prompts == (Prompt("2 + 2?"),)
    assert asked[0] == (b"HEAD", b"/datasets/openai/sums/resolve/v1/data/test.jsonl")


@pytest.mark.parametrize("name", ["hub:owner/name", "hub:owner/name/data.parquet"])
def test_a_hub_name_without_a_readable_file(name: str) -> None:
    with pytest.raises(ConfigError, match=r"names no file|not JSON lines"):
        load(name)


def test_a_hub_that_does_not_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with serving(respond("404 Not Found", b"")) as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        with pytest.raises(ConfigError, match="cannot be downloaded"):
            load("hub:openai/none/test.jsonl")


@pytest.mark.parametrize(
    "row",
    [
        '{"prompt": null}',
        '{"question": ["x"]}',
        '{"turns": [null]}',
        '{"turns": []}',
        '{"prompt": "\\ud800"}',
        '{"prompt": "x", "filler_tokens": 1e999}',
        '{"prompt": "x", "filler_tokens": 1000000000000}',
        '{"prompt": "x", "filler_tokens": -1}',
        "[" * 50_000,
    ],
)
def test_what_cannot_be_asked_is_told_with_its_line(tmp_path: Path, row: str) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"prompt": "x"}\n' + row)
    with pytest.raises(ConfigError, match=":2: not a prompt"):
        load(str(file))


def test_a_byte_order_mark_and_line_separators_within_a_prompt(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_bytes('\ufeff{"prompt": "a\u2028b"}\r\n{"prompt": "c\x85d"}'.encode())
    assert [prompt.text for prompt in load(str(file)).prompts] == ["a\u2028b", "c\x85d"]
