"""deployctl drafter on files of this machine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from deployctl.cli.drafter import app
from deployctl.config.shipped import bundled_model
from deployctl.errors import DeployError, UsageError

TARGET = str(bundled_model("tiny-target") / "config.json")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def stale(tmp_path: Path) -> Path:
    return Path(shutil.copy(bundled_model("tiny-dflash-stale") / "config.json", tmp_path))


def test_show_prints_the_text_as_it_is(stale: Path) -> None:
    assert run("show", str(stale)).stdout == stale.read_text()


def test_diff_names_the_keys_that_a_profile_wants_otherwise(stale: Path) -> None:
    done = run("diff", str(stale), "--profile", "demo", "--json")
    assert done.exit_code == 6
    document = json.loads(done.stdout)
    assert document["schema"] == "deployctl.drafter/1"
    assert document["configs"][0]["differences"] == [
        {"key": "dflash_config.mask_token_id", "actual": 0, "wanted": 3},
        {"key": "dflash_config.target_layer_ids", "actual": [0, 2, 4], "wanted": [1, 3, 5]},
    ]


def test_set_mends_a_file_and_only_there(stale: Path) -> None:
    before = stale.read_text()
    stale.chmod(0o640)
    done = run("set", str(stale), "mask_token_id=3", "dflash_config.target_layer_ids=[1,3,5]")
    assert done.exit_code == 0
    assert "dflash_config.mask_token_id: 0 -> 3" in done.stdout
    assert stale.stat().st_mode & 0o777 == 0o640
    expected = json.loads(before)
    expected["dflash_config"] = {"mask_token_id": 3, "target_layer_ids": [1, 3, 5]}
    assert json.loads(stale.read_text()) == expected
    assert run("diff", str(stale), "--profile", "demo").exit_code == 0
    assert "nothing to change" in run("set", str(stale), "mask_token_id=3").stdout


def test_diff_says_so_where_nothing_differs() -> None:
    right = bundled_model("tiny-dflash-full") / "config.json"
    done = run("diff", str(right), "--profile", "demo")
    assert (done.exit_code, done.stdout) == (0, f"file: as wanted: {right}\n")


def test_a_check_that_could_check_nothing_has_not_passed(tmp_path: Path) -> None:
    plain = tmp_path / "config.json"
    plain.write_text('{"model_type": "qwen3", "num_hidden_layers": 4}')
    done = run("check", str(plain), "--target", str(plain))
    assert done.exit_code == 11 and "unknown" in done.stdout


def test_options_count_before_the_command_as_after(stale: Path) -> None:
    after = run("diff", str(stale), "-p", "demo", "--set", "drafter.config.block_size=4", "--json")
    before = run("-p", "demo", "--set", "drafter.config.block_size=4", "--json", "diff", str(stale))
    assert before.exit_code == after.exit_code == 6
    assert json.loads(before.stdout) == json.loads(after.stdout)
    assert json.loads(run("--json", "show", str(stale)).stdout)["configs"]
    made = json.loads(run("--json", "set", str(stale), "block_size=4").stdout)
    assert made["configs"][0]["changed"] == [{"key": "block_size", "old": 8, "new": 4}]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("dflash_confg.mask_token_id=4", "did you mean dflash_config.mask_token_id?"),
        ("block_size=abc", 'block_size is "abc", it must be a whole number'),
        ("dflash_config.target_layer_ids=7", "a list of whole numbers"),
        ("block_size=null", "block_size is null"),
    ],
)
def test_set_refuses_what_cannot_be_meant(stale: Path, word: str, said: str) -> None:
    before = stale.read_bytes()
    error = run("set", str(stale), word).exception
    assert isinstance(error, DeployError)
    assert error.exit_code == 2 and said in error.why
    assert stale.read_bytes() == before


def test_set_adds_a_new_key_where_asked_to(stale: Path) -> None:
    assert run("set", str(stale), "house.colour=red").exit_code != 0
    assert run("set", "--new", str(stale), "house.colour=red").exit_code == 0
    assert json.loads(stale.read_text())["house"] == {"colour": "red"}
    assert run("set", "--new", str(stale), "block_size=abc").exit_code != 0


def test_check_finds_a_stale_config_where_the_profile_is_told(stale: Path) -> None:
    words = ("check", str(stale), "--target", TARGET)
    assert run(*words).exit_code == 0
    done = run(*words, "--profile", "demo")
    assert done.exit_code == 6
    assert "as_wanted: dflash_config.mask_token_id is 0, wanted 3" in done.stdout


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 100_000, b"", b"[]", b'"x"'])
def test_a_file_that_is_no_config_is_told_as_that(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    for words in (["show", str(path)], ["check", str(path), "--target", TARGET]):
        error = run(*words).exception
        assert isinstance(error, DeployError) and error.exit_code == 3


def test_set_never_writes_through_a_link(stale: Path, tmp_path: Path) -> None:
    link = tmp_path / "snapshot.json"
    link.symlink_to(stale)
    before = stale.read_bytes()
    assert run("set", str(link), "block_size=4").exit_code == 0
    assert stale.read_bytes() == before
    assert not link.is_symlink() and json.loads(link.read_text())["block_size"] == 4


@pytest.mark.parametrize(("tokens", "code"), [("7", 0), ("8", 6)])
def test_check_against_a_target(stale: Path, tokens: str, code: int) -> None:
    done = run("check", str(stale), "--target", TARGET, "--tokens", tokens)
    assert done.exit_code == code
    assert ("7 is the most" in done.stdout) is (code == 6)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["show"], 2, "nothing to look at"),
        (["show", "/nowhere/config.json"], 2, "cannot be read"),
        (["diff", TARGET], 2, "needs --profile"),
        (["check"], 2, "nothing to look at"),
        (["set", "a=1"], 2, "name a file"),
        (["set", TARGET, "nonsense"], 2, "not KEY=VALUE"),
        (["show", __file__], 3, "not JSON"),
        ([], 2, "no profile given"),
    ],
)
def test_wrong_uses_say_what_is_missing(words: list[str], code: int, said: str) -> None:
    error = run(*words).exception
    assert isinstance(error, DeployError)
    assert error.exit_code == code and said in str(error)


def test_set_keeps_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(b'{\r\n  "block_size": 16,\r\n  "dtype": "x"\r\n}\r\n')
    assert run("set", str(file), "block_size=8").exit_code == 0
    assert file.read_bytes() == b'{\r\n  "block_size": 8,\r\n  "dtype": "x"\r\n}\r\n'


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", '"\\ud800"', "[[1e999]]"])
def test_set_refuses_what_no_json_file_can_hold(stale: Path, value: str) -> None:
    before = stale.read_bytes()
    done = run("set", str(stale), f"rope_scaling.x={value}", "--new")
    assert isinstance(done.exception, UsageError)
    assert stale.read_bytes() == before


def test_set_takes_what_is_nested_beyond_reason_for_text(stale: Path) -> None:
    done = run("set", str(stale), f"block_size={'[' * 50_000}")
    assert isinstance(done.exception, UsageError)


def test_a_check_without_a_target_says_so(stale: Path) -> None:
    done = run("check", str(stale), "--json")
    (config,) = json.loads(done.stdout)["configs"]
    unknown = [one["message"] for one in config["checks"] if one["verdict"] == "unknown"]
    assert "hidden_size is not compared: no target was given (--target)" in unknown
    assert not [message for message in unknown if "target's config has no" in message]
