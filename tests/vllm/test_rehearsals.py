"""Starts that vLLM itself refuses before it reads weights, each in its own words; one import for
all of them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deployctl.vllm.serving import launcher, rehearsal

pytestmark = pytest.mark.vllm

MODELS = Path(__file__).parents[2] / "models"
CONTEXT = ["--max-model-len", "1024"]
LIMIT = 900
"""Seconds; a process that takes longer hangs."""


def speculation(**config: Any) -> list[str]:
    return [*CONTEXT, "--speculative-config", json.dumps(config)]


NGRAM = {"method": "ngram", "num_speculative_tokens": 3}
REFUSED: dict[str, tuple[list[str], str, str]] = {
    "unknown option": (
        [*CONTEXT, "--enable-prefix-cacheing"],
        "parsing",
        "unrecognized arguments: --enable-prefix-cacheing",
    ),
    "wrong choice": (
        [*CONTEXT, "--dtype", "float17"],
        "parsing",
        "argument --dtype: invalid choice: 'float17' (choose from",
    ),
    "no number": (["--max-model-len", "many"], "parsing", "invalid human_readable_int"),
    "heads that do not divide": (
        [*CONTEXT, "--tensor-parallel-size", "3"],
        "configuring",
        "Total number of attention heads (4) must be divisible by tensor parallel size (3).",
    ),
    "context longer than the model's": (
        ["--max-model-len", "999999"],
        "configuring",
        "User-specified max_model_len (999999) is greater than the derived max_model_len",
    ),
    "unknown method": (
        speculation(**{**NGRAM, "method": "dflsh"}),
        "configuring",
        "method: Input should be 'ngram'",
    ),
    "unknown key": (
        speculation(**NGRAM, nonkey=1),
        "configuring",
        "nonkey: Unexpected keyword argument",
    ),
    "no drafter there": (
        speculation(method="dflash", num_speculative_tokens=3, model="/nowhere/drafter"),
        "configuring",
        "Invalid repository ID or local directory specified: '/nowhere/drafter'.",
    ),
    "unknown tool parser": (
        [*CONTEXT, "--enable-auto-tool-choice", "--tool-call-parser", "nope"],
        "parsing",
        "invalid tool call parser: nope",
    ),
    "unknown reasoning parser": (
        [*CONTEXT, "--reasoning-parser", "nope"],
        "configuring",
        "Reasoning parser 'nope' not found.",
    ),
    "unknown attention backend": (
        [*CONTEXT, "--attention-backend", "NOPE"],
        "configuring",
        "Unknown attention backend: 'NOPE'.",
    ),
    "unknown quantization": (
        [*CONTEXT, "--quantization", "nope"],
        "configuring",
        "Unknown quantization method: nope.",
    ),
    "unknown load format": (
        [*CONTEXT, "--load-format", "nope"],
        "preparing",
        "Load format `nope` is not supported",
    ),
    "no tokenizer there": (
        [*CONTEXT, "--tokenizer", "/nowhere/tokenizer"],
        "parsing",
        "Repo id must be in the form",
    ),
    "unknown tokenizer mode": (
        [*CONTEXT, "--tokenizer-mode", "nope"],
        "preparing",
        "No tokenizer registered for tokenizer_mode='nope'.",
    ),
}
DFLASH = speculation(
    method="dflash", num_speculative_tokens=7, model=str(MODELS / "tiny-dflash-stale")
)
ACCEPTED = {"with a drafter": DFLASH}


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    """The launcher's answer to each start, by the start's name."""
    given = os.environ.get("DEPLOYCTL_TEST_ENVIRONMENT")
    place = Path(given) if given else request.getfixturevalue("vllm_environment")
    served = ("serve", str(MODELS / "tiny-target"), "--served-model-name", "tiny")
    common = [*served, "--host", "127.0.0.1", "--port", "0", "--enforce-eager"]
    starts = {**{name: start[0] for name, start in REFUSED.items()}, **ACCEPTED}
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    program = Path(__file__).with_name("rehearse_many.py")
    done = subprocess.run(
        [str(place / "bin" / "python"), str(program), launcher.__file__],
        input="".join(f"{json.dumps([*common, *more])}\n" for more in starts.values()),
        capture_output=True,
        text=True,
        env=env,
        timeout=LIMIT,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(starts), done.stderr[-4000:]
    return dict(zip(starts, lines, strict=True))


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_vllms_own_words(answers: dict[str, dict[str, Any]], name: str) -> None:
    _, stage, words = REFUSED[name]
    answer = answers[name]
    assert (answer["outcome"], answer["stage"]) == ("refused", stage), answer
    assert words in rehearsal.sentence(answer)
    assert not answer["cuda"]


def test_what_it_accepts_is_resolved(answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["with a drafter"]
    assert answer["outcome"] == "accepted", answer
    made = answer["resolved"]
    assert (made["max_model_len"], made["device"]) == (1024, "cpu")
    assert (made["draft_method"], made["draft_tokens"]) == ("dflash", 7)
    assert (answer["cuda"], answer["devices"]) == (False, [])


def test_a_plan_knows_of_each_refusal(answers: dict[str, dict[str, Any]]) -> None:
    """None of them goes by itself: the same start is not rehearsed again."""
    assert all(rehearsal.lasts(answer) for answer in answers.values())
