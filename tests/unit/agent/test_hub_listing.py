"""A hub of ill will: what it lists stays inside the model's folder, or nothing is fetched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.core.interface import Call
from deployctl.agent.store import hub, models
from tests.unit.vllm.loopback import respond, serving

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GOOD = {"rfilename": "a/model.safetensors", "size": 3, "lfs": {"sha256": "0" * 64}}


def asked(tmp_path: Path, record: Any, revision: str | None = None) -> Any:
    call = Call(str(tmp_path), lambda event: None)
    data = record if isinstance(record, bytes) else json.dumps(record).encode()
    with serving(respond("200 OK", data)) as url:
        return hub.survey(call, "a/b", revision, endpoint=url)


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a/..",
        "..",
        ".",
        "",
        "a//b",
        "a/",
        "./a",
        "a\\..\\b",
        "a\nb",
        "a\0b",
        "\x1b[2J",
        "\u202ea",
        None,
        3,
        ["a"],
    ],
)
def test_a_name_that_leads_elsewhere(tmp_path: Path, name: Any) -> None:
    answer = asked(tmp_path, {"sha": COMMIT, "siblings": [GOOD, {"rfilename": name}]})
    assert answer["error"]["kind"] == "invalid"
    assert answer["remote"] is None
    assert answer["error"]["message"].isprintable()


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": -1},
        {"size": "3"},
        {"size": True},
        {"size": 10**30},
        {"size": 1.5},
        {"lfs": {"sha256": "x" * 64}},
        {"lfs": {"sha256": 3}},
        {"lfs": {"sha256": "0" * 63}},
    ],
)
def test_a_size_or_digest_that_is_none(tmp_path: Path, wrong: dict[str, Any]) -> None:
    answer = asked(tmp_path, {"sha": COMMIT, "siblings": [GOOD | wrong]})
    assert answer["error"]["kind"] == "invalid"


@pytest.mark.parametrize("siblings", [None, {}, 3, [3], [[]], [{}], [GOOD] * 20_000])
def test_a_list_that_is_none(tmp_path: Path, siblings: Any) -> None:
    answer = asked(tmp_path, {"sha": COMMIT, "siblings": siblings})
    assert answer["error"]["kind"] == "invalid"


@pytest.mark.parametrize(
    "sha", ["main", "../../x", COMMIT[:39], COMMIT + "0", COMMIT.upper(), COMMIT + "\n", None, 3]
)
def test_a_commit_that_is_none(tmp_path: Path, sha: Any) -> None:
    answer = asked(tmp_path, {"sha": sha, "siblings": [GOOD]})
    assert (answer["error"]["kind"], answer["commit"]) == ("invalid", None)


def test_another_commit_than_was_asked_for(tmp_path: Path) -> None:
    answer = asked(tmp_path, {"sha": COMMIT, "siblings": [GOOD]}, "f" * 40)
    assert answer["error"]["kind"] == "invalid"


@pytest.mark.parametrize("data", [b"[" * 100_000, b"3", b"[]", b"{}", b"9" * 5000, b"\xff"])
def test_an_answer_of_another_form(tmp_path: Path, data: bytes) -> None:
    assert asked(tmp_path, data)["error"]["kind"] == "unreachable"


def test_an_answer_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "ANSWER_LIMIT", 1000)
    assert asked(tmp_path, b" " * 2000)["error"]["kind"] == "invalid"


def test_a_list_of_good_will(tmp_path: Path) -> None:
    named = [{"rfilename": name} for name in ("a.b", "..a", "a..", "a/b/c", "\u00e9 [1]*")]
    answer = asked(tmp_path, {"sha": COMMIT, "siblings": [GOOD, *named]})
    assert answer["error"] is None
    assert [file["name"] for file in answer["remote"]][1:] == [n["rfilename"] for n in named]
    assert answer["remote"][0] == {
        "name": "a/model.safetensors",
        "size": 3,
        "sha256": "0" * 64,
    }


def test_headers_of_a_model_are_read_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "HEADER_LIMIT", 100)
    header = json.dumps({"__metadata__": {"a": "b" * 1000}}).encode()
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    index = {"weight_map": {"a" * 1000: "x.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    damaged = models.survey(Call(str(tmp_path), lambda event: None), "@")["damaged"]
    assert sorted(damaged) == ["model.safetensors.index.json", "x.safetensors"]
