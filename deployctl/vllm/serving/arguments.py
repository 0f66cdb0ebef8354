"""A command line of `vllm serve` taken apart: the opposite of `command`.

vLLM's parser takes `_` for `-` in names, `--name=value`, and a config file with `--config`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

SHORT = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-q": "quantization",
    "-ac": "attention-config",
    "-cc": "compilation-config",
    "-sc": "speculative-config",
    "-dcp": "decode-context-parallel-size",
    "-n": "nnodes",
    "-r": "node-rank",
}
SWITCHES = re.compile(r"(enable|disable|no|use|allow|skip|return|log|calculate|async)-.*")
"""Names that take no value, as vLLM names its switches."""
SWITCH_NAMES = {"enforce-eager", "trust-remote-code", "headless", "fully-sharded-loras"}
WITH_VALUE = {
    "use-tqdm-on-load",
    "disable-log-stats-interval",
    "log-config-file",
    "allow-credentials-origins",
}
ONE_VALUE = {
    *("api-server-count", "attention-backend", "block-size", "chat-template", "data-parallel-size"),
    *("download-dir", "dtype", "gpu-memory-utilization", "host", "kv-cache-dtype", "load-format"),
    *("max-model-len", "max-num-batched-tokens", "max-num-seqs", "pipeline-parallel-size", "port"),
    *("quantization", "reasoning-parser", "revision", "runner", "seed", "speculative-config"),
    *("tensor-parallel-size", "tokenizer", "tool-call-parser", "uvicorn-log-level"),
}
"""Names after whose value the model may stand."""
NUMBERED = re.compile(r"-O(\d)")


class NotUnderstood(ValueError):
    """A part of a command line in none of vLLM's forms."""


@dataclass(frozen=True)
class Arguments:
    """The model, and every option in its order: True for a switch, else its values as written."""

    model: str | None
    options: dict[str, bool | list[str]] = field(default_factory=dict)

    def one(self, name: str) -> str | None:
        """An option's single value; None where it is not given."""
        found = self.options.get(name)
        return found[0] if isinstance(found, list) and found else None


def parse(words: Sequence[str]) -> Arguments:
    """Take apart what follows `vllm serve`; raises `NotUnderstood` with the word."""
    options: dict[str, bool | list[str]] = {}
    model: str | None = None
    last: str | None = None
    for word in words:
        if _is_option(word):
            last, value = _named(word)
            options[last] = [value] if value is not None else True
            if value is not None:
                last = None
        elif last is not None:
            given = options[last]
            if last in ONE_VALUE and given is not True and model is None:
                model, last = word, None
                continue
            options[last] = [word] if given is True else [*_values(given), word]
        elif model is None:
            model = word
        else:
            raise NotUnderstood(f"{word!r} is neither an option nor an option's value")
        if last is not None and _is_switch(last):
            last = None
    model = model or Arguments(None, options).one("model")
    options.pop("model", None)
    return Arguments(model, options)


def _is_option(word: str) -> bool:
    return word.startswith("-") and not re.fullmatch(r"-\d+(\.\d+)?", word) and word != "-"


def _named(word: str) -> tuple[str, str | None]:
    name, equals, value = word.partition("=")
    level = NUMBERED.fullmatch(name)
    if level:
        return "optimization-level", level[1]
    if name in SHORT:
        return SHORT[name], value if equals else None
    if not name.startswith("--") or not re.fullmatch(r"--[A-Za-z0-9][^\s]*", name):
        raise NotUnderstood(f"{word!r} is not a known option of vllm serve")
    head, dot, below = name[2:].partition(".")
    return head.replace("_", "-") + dot + below, value if equals else None


def _values(given: bool | list[str]) -> list[str]:
    return given if isinstance(given, list) else []


def _is_switch(name: str) -> bool:
    return name not in WITH_VALUE and (name in SWITCH_NAMES or bool(SWITCHES.fullmatch(name)))
