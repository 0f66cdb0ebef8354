"""What a rehearsed start has shown: the launcher's answer and the job's end, as a verdict. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from deployctl.vllm.serving.launcher import ANSWER

LASTING = frozenset(
    {
        "ArgumentError",
        "AssertionError",
        "AttributeError",
        "ImportError",
        "KeyError",
        "ModuleNotFoundError",
        "NotImplementedError",
        "TypeError",
        "ValidationError",
        "ValueError",
    }
)
"""Exceptions that come back as long as nothing about the start changes, as do those derived from
them; a network's or a disk's (OSError) may not."""
SENTENCE = 300


def launcher_source() -> str:
    """The launcher, to be laid beside a release."""
    here = resources.files("deployctl.vllm.serving")
    return here.joinpath("launcher.py").read_text("utf-8")


def rehearsed_argv(argv: Sequence[str]) -> list[str]:
    """The arguments of a server's command line for its rehearsal: no program, on a port that the
    kernel chooses, since vLLM binds it before it makes its configuration."""
    server = argv[argv.index("--") + 1 :] if "--" in argv else argv
    made = list(server[1:])
    made[made.index("--port") + 1] = "0"
    if "--uds" in made:
        at = made.index("--uds")
        del made[at : at + 2]
    return made


def read(state: Mapping[str, Any], log: str) -> dict[str, Any]:
    """The answer in a rehearsal's log. Where it left none, the outcome is `unknown` and `words`
    say how it ended."""
    for line in reversed(log.splitlines()):
        if line.startswith(ANSWER):
            try:
                answer = json.loads(line[len(ANSWER) :])
            except ValueError:
                break
            if isinstance(answer, dict) and "outcome" in answer:
                return answer
    return {"outcome": "unknown", "stage": None, "words": _how(state)}


def _how(state: Mapping[str, Any]) -> str:
    rc = state.get("rc")
    if state["state"] == "failed" and rc is not None:
        return f"it was killed by signal {-rc}" if rc < 0 else f"it ended with status {rc}"
    return str(state.get("why") or state["state"])


def refused(answer: Mapping[str, Any]) -> bool:
    """Whether vLLM itself refused this start."""
    return bool(answer["outcome"] == "refused")


def lasts(answer: Mapping[str, Any]) -> bool:
    """Whether the same start would be answered in the same way again."""
    if answer["outcome"] == "accepted":
        return True
    kinds = {answer.get("error"), *(answer.get("kinds") or ())}
    return refused(answer) and bool(kinds & LASTING) and "OSError" not in kinds


def sentence(answer: Mapping[str, Any]) -> str:
    """vLLM's reason on one line: of pydantic's several lines the first error, with its field."""
    lines = [line.strip() for line in str(answer.get("words") or "").splitlines() if line.strip()]
    if not lines:
        return str(answer.get("error") or "no reason was given")
    text = lines[0]
    if re.match(r"\d+ validation errors? for ", text) and len(lines) > 1:
        text = lines[1].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        if len(lines) > 2 and re.fullmatch(r"[\w.]+", lines[1]):
            text = f"{lines[1]}: {lines[2]}"
        text = re.sub(r"\s*\[type=.*$", "", text)
    if answer.get("error") == "KeyError":
        text = text.strip("'\"")
    return text if len(text) <= SENTENCE else f"{text[: SENTENCE - 2]} …"
