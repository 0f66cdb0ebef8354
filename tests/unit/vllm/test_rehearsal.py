"""What a rehearsed start has shown, from the launcher's answer and the job's end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deployctl.vllm.serving import launcher, rehearsal
from deployctl.vllm.serving.launcher import ANSWER

DONE = {"state": "done", "rc": 0}
# Words of vLLM 0.32.0, some of them cut.
PYDANTIC = """1 validation error for VllmConfig
  Value error, Total number of attention heads (4) must be divisible by tensor parallel size (3). \
[type=value_error, input_value=ArgsKwargs(()), input_type=ArgsKwargs]
    For further information visit https://errors.pydantic.dev/2.14/v/value_error"""
FIELD = """1 validation error for SpeculativeConfig
nonkey
  Unexpected keyword argument [type=unexpected_keyword_argument, input_value=1, input_type=int]
    For further information visit https://errors.pydantic.dev/2.14/v/unexpected_keyword_argument"""


def refused(words: str, error: str = "ValueError") -> dict[str, Any]:
    return {"outcome": "refused", "error": error, "words": words}


@pytest.mark.parametrize(
    ("words", "error", "sentence"),
    [
        (
            PYDANTIC,
            "ValidationError",
            "Total number of attention heads (4) must be divisible by tensor parallel size (3).",
        ),
        (FIELD, "ValidationError", "nonkey: Unexpected keyword argument"),
        ("unrecognized arguments: --x", "ArgumentError", "unrecognized arguments: --x"),
        ("'invalid tool call parser: nope'", "KeyError", "invalid tool call parser: nope"),
        ("", "AssertionError", "AssertionError"),
    ],
)
def test_vllms_reason_on_one_line(words: str, error: str, sentence: str) -> None:
    assert rehearsal.sentence(refused(words, error)) == sentence


def test_a_long_reason_is_cut() -> None:
    assert len(rehearsal.sentence(refused("x" * 5000))) == rehearsal.SENTENCE


def test_the_last_answer_of_a_log_counts() -> None:
    lines = ["INFO something", ANSWER + json.dumps(refused("a")), ANSWER + json.dumps(refused("b"))]
    assert rehearsal.read(DONE, "\n".join([*lines, "trailing"]))["words"] == "b"


@pytest.mark.parametrize(
    ("state", "log", "words"),
    [
        ({"state": "failed", "rc": -9}, "INFO", "it was killed by signal 9"),
        ({"state": "failed", "rc": 1}, "", "it ended with status 1"),
        ({"state": "stalled", "rc": None, "why": "no output for 180 s"}, "", "no output for 180 s"),
        (DONE, ANSWER + "{broken", "done"),
        (DONE, ANSWER + "[]", "done"),
    ],
)
def test_without_an_answer_the_outcome_is_unknown(
    state: dict[str, Any], log: str, words: str
) -> None:
    answer = rehearsal.read(state, log)
    assert (answer["outcome"], answer["words"]) == ("unknown", words)
    assert not rehearsal.refused(answer) and not rehearsal.lasts(answer)


def test_what_a_network_refused_may_be_accepted_the_next_time() -> None:
    assert rehearsal.lasts(refused("x", "ValidationError"))
    assert not rehearsal.lasts(refused("x", "ConnectionError"))
    assert rehearsal.lasts({"outcome": "accepted"})
    kinds = ["VLLMValidationError", "ValueError", "Exception"]
    assert rehearsal.lasts({**refused("x", kinds[0]), "kinds": kinds})
    kinds = ["LocalEntryNotFoundError", "FileNotFoundError", "OSError", "ValueError"]
    assert not rehearsal.lasts({**refused("x", kinds[0]), "kinds": kinds})


def test_a_rehearsal_binds_no_port_and_no_socket_of_the_servers() -> None:
    argv = ["/env/bin/vllm", "serve", "/m", "--port", "8123", "--uds", "/run/x.sock", "--eager"]
    assert rehearsal.rehearsed_argv(argv) == ["serve", "/m", "--port", "0", "--eager"]


# -- the launcher, with a stand-in for vLLM's own command line ------------------------------------

MAIN = """
import sys
from vllm.engine.arg_utils import EngineArgs
def main():
    %s
    EngineArgs().create_engine_config(1, headless=True)
    print("never reached")
"""
ARGUMENTS = """
import enum, types
class Mode(enum.Enum):
    NONE = 0
class Dtype:
    def __str__(self):
        return "torch.bfloat16"
class EngineArgs:
    def create_engine_config(self, usage, headless=False):
        %s
        model = types.SimpleNamespace(max_model_len=1024, dtype=Dtype(), architectures=("A", "B"))
        return types.SimpleNamespace(
            model_config=model,
            compilation_config=types.SimpleNamespace(level=3, cudagraph_mode=Mode.NONE),
            speculative_config=None,
            use_v2_model_runner=False,
        )
"""


def stand_in(folder: Path, main: str = "pass", config: str = "pass") -> dict[str, Any]:
    """Rehearse with a package `vllm` whose main and configuration do this first."""
    for name, text in (
        ("vllm/entrypoints/cli/main.py", MAIN % main),
        ("vllm/engine/arg_utils.py", ARGUMENTS % config),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return rehearsed(folder)


def rehearsed(folder: Path) -> dict[str, Any]:
    argv = [sys.executable, launcher.__file__, "rehearse", "serve", "/m", "--port", "0"]
    env = {"PYTHONPATH": str(folder)}
    done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=60)
    return {
        "rc": done.returncode,
        "out": done.stdout,
        **rehearsal.read({"state": "failed", "rc": done.returncode}, done.stdout),
    }


def test_the_resolved_configuration_is_told_and_nothing_runs(tmp_path: Path) -> None:
    answer = stand_in(tmp_path)
    assert (answer["outcome"], answer["stage"], answer["rc"]) == ("accepted", "preparing", 0)
    assert answer["resolved"] == {
        "architectures": ["A", "B"],
        "max_model_len": 1024,
        "dtype": "bfloat16",
        "compilation": 3,
        "graphs": "NONE",
        "v2_model_runner": False,
    }
    assert answer["cuda"] is False and "never reached" not in answer["out"]


@pytest.mark.parametrize(
    ("main", "config", "expected"),
    [
        (
            "import argparse; argparse.ArgumentParser('vllm').error('unrecognized: --x')",
            "pass",
            ("refused", "parsing", "unrecognized: --x"),
        ),
        ("raise OSError(98, 'in use')", "pass", ("refused", "parsing", "[Errno 98] in use")),
        ("pass", "raise ValueError('too long')", ("refused", "configuring", "too long")),
        ("sys.exit(3)", "pass", ("ended", "parsing", "it ended with status 3")),
        (
            "return",
            "pass",
            ("ended", "parsing", "it returned before it made a configuration"),
        ),
        ("import os; os.kill(os.getpid(), 9)", "pass", ("unknown", None, "killed by signal 9")),
    ],
)
def test_every_end_of_a_rehearsal(
    tmp_path: Path, main: str, config: str, expected: tuple[str, str, str]
) -> None:
    answer = stand_in(tmp_path, main, config)
    assert (answer["outcome"], answer["stage"]) == expected[:2]
    assert expected[2] in answer["words"] and answer["rc"] != 0


def test_a_vllm_that_makes_its_configuration_elsewhere_is_not_rehearsed(tmp_path: Path) -> None:
    assert stand_in(tmp_path)["outcome"] == "accepted"
    (tmp_path / "vllm/engine/arg_utils.py").write_text("class EngineArgs: pass\n")
    assert rehearsed(tmp_path)["outcome"] == "unsupported"
    (tmp_path / "vllm/engine/arg_utils.py").unlink()
    answer = rehearsed(tmp_path)
    assert (answer["outcome"], answer["stage"]) == ("unsupported", "importing")


def test_an_import_that_fails_is_a_refusal(tmp_path: Path) -> None:
    stand_in(tmp_path)
    (tmp_path / "vllm/engine/arg_utils.py").write_text("import a_library_that_is_missing\n")
    answer = rehearsed(tmp_path)
    assert (answer["outcome"], answer["error"]) == ("refused", "ModuleNotFoundError")


@pytest.mark.parametrize(
    "opened",
    [
        # By cuInit, which takes no memory of a GPU.
        ["/dev/nvidia-uvm", "/dev/nvidiactl", "/dev/null"],
        # As NVML opens them.
        ["/dev/nvidia0", "/dev/nvidiactl"],
        [],
    ],
)
@pytest.mark.parametrize("cuda", [True, False])
def test_device_files_that_are_open_and_whether_pytorch_initialised_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str], cuda: bool
) -> None:
    for number, path in enumerate(opened):
        (tmp_path / str(number)).symlink_to(path)
    found = launcher.open_devices(str(tmp_path))
    assert found == [path for path in opened if "nvidia" in path]
    monkeypatch.setattr(launcher, "open_devices", lambda: found)
    monkeypatch.setattr(launcher, "torch_initialised", lambda: cuda)
    answers: list[dict[str, Any]] = []
    launcher.Rehearsal(answers.append)._tell("accepted")
    assert (answers[0]["cuda"], answers[0]["devices"]) == (cuda, found)


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("raise ValueError('Load format `x` is not supported')", "refused"),
        ("raise OSError('no tokenizer')", "refused"),
        # Called otherwise than this vLLM calls it: that says nothing about the start.
        ("raise TypeError('missing an argument')", "accepted"),
        ("return None", "accepted"),
    ],
)
def test_what_is_made_before_weights_are_read(tmp_path: Path, body: str, outcome: str) -> None:
    stand_in(tmp_path)
    loader = tmp_path / "vllm/model_executor/model_loader/__init__.py"
    loader.parent.mkdir(parents=True)
    loader.write_text(f"def get_model_loader(load_config):\n    {body}\n")
    text = (tmp_path / "vllm/engine/arg_utils.py").read_text()
    config = "speculative_config=None, load_config=1"
    changed = text.replace("speculative_config=None", config)
    (tmp_path / "vllm/engine/arg_utils.py").write_text(changed)
    answer = rehearsed(tmp_path)
    assert answer["outcome"] == outcome
    assert outcome == "accepted" or answer["stage"] == "preparing"
