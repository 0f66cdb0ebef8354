"""Prompt sets: the shipped ones, and files in the forms that published sets have."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from deployctl.errors import ConfigError
from deployctl.vllm import json_text

HUB = "hub:"
SHIPPED = ("code", "math", "chat", "long-context")
LONGEST_FILLER = 2_000_000
"""Tokens; more than any context holds."""


@dataclass(frozen=True)
class Prompt:
    """One question; `filler_tokens` is how much unrelated text shall stand before it.

    `part` names the kind of question in a set of several kinds. `expects` is what stands in any
    answer of a target that can do with such prompts at all.
    """

    text: str
    filler_tokens: int = 0
    part: str = field(default="", compare=False)
    expects: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        """What tells it from other prompts, also in a later version of its set."""
        asked = json.dumps([self.text, self.filler_tokens])
        return hashlib.sha256(asked.encode()).hexdigest()[:12]


def drawn(prompts: Sequence[Prompt], seed: int) -> list[Prompt]:
    """All prompts in an order drawn by a seed, of which every beginning has each part's share."""
    draw = random.Random(seed)
    parts: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        parts.setdefault(prompt.part, []).append(prompt)
    placed = [
        ((place + draw.random()) / len(part), prompt)
        for part in parts.values()
        for place, prompt in enumerate(draw.sample(part, len(part)))
    ]
    return [prompt for _, prompt in sorted(placed, key=lambda one: one[0])]


@dataclass(frozen=True)
class PromptSet:
    """Prompts in their order, under the name by which a profile asked for them."""

    name: str
    prompts: tuple[Prompt, ...]


def load(name: str) -> PromptSet:
    """A shipped set by name, a file by path, or a dataset's file on a hub; raises `ConfigError`.

    A file holds JSON lines (.jsonl, also .gz): ours (`prompt`, optionally `filler_tokens`, `part`
    and `expects`), HumanEval's (`task_id`, `prompt`), GSM8K's (`question`) or MT-Bench's (`turns`,
    of which the first is asked, and `category`). Any other file is text with one prompt a line.
    `hub:OWNER/NAME[@REVISION]/PATH` is such a file in a dataset repository, downloaded once by
    huggingface_hub (which reads HF_TOKEN and HF_ENDPOINT).
    """
    if name in SHIPPED:
        text = files("deployctl.vllm.client.prompts").joinpath(f"{name}.jsonl").read_text("utf-8")
        return PromptSet(name, _json_lines(name, text))
    path = _from_hub(name) if name.startswith(HUB) else Path(name)
    if not path.is_file():
        known = ", ".join(SHIPPED)
        raise ConfigError(
            f"prompt set {name} is neither a shipped one nor a file",
            next=f"name one of {known}, a file of prompts, or {HUB}OWNER/NAME/FILE.jsonl",
        )
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigError(f"prompt set {name} cannot be read", str(error)) from error
    if ".jsonl" in path.suffixes:
        prompts = _json_lines(name, text)
    else:
        prompts = tuple(Prompt(line.strip()) for line in text.split("\n") if line.strip())
    if not prompts:
        raise ConfigError(f"prompt set {name} is empty")
    return PromptSet(name, prompts)


def _from_hub(name: str) -> Path:
    """Download a dataset's file; a revision that is a commit is downloaded only once."""
    parts = name.removeprefix(HUB).split("/", 2)
    if len(parts) != 3 or not all(parts):
        raise ConfigError(f"prompt set {name} names no file", next=f"write {HUB}OWNER/NAME/FILE")
    owner, repository, path = parts
    repository, _, revision = repository.partition("@")
    if ".jsonl" not in Path(path).suffixes:
        raise ConfigError(
            f"prompt set {name} is not JSON lines", next="name a .jsonl or .jsonl.gz file"
        )
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(
            hf_hub_download(
                f"{owner}/{repository}",
                path,
                repo_type="dataset",
                revision=revision or None,
                endpoint=os.environ.get("HF_ENDPOINT"),
            )
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise ConfigError(f"prompt set {name} cannot be downloaded", str(error)) from error


def _json_lines(name: str, text: str) -> tuple[Prompt, ...]:
    prompts = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            prompts.append(_prompt(json_text.parsed(line)))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ConfigError(
                f"{name}:{number}: not a prompt",
                f"{type(error).__name__}: {error}",
                "each line is an object with prompt, question or turns",
            ) from error
    return tuple(prompts)


def _prompt(row: Any) -> Prompt:
    if not isinstance(row, Mapping):
        raise TypeError("not an object")
    part = str(row.get("part") or row.get("category") or "")
    if "turns" in row:
        turns = row["turns"]
        return Prompt(_text(turns[0] if isinstance(turns, list) else turns), part=part)
    if "question" in row:
        return Prompt(_text(row["question"]), part=part)
    prompt = _text(row["prompt"])
    if "task_id" in row:
        return Prompt(f"Complete this Python function.\n\n```python\n{prompt}```")
    filler = row.get("filler_tokens", 0)
    if type(filler) is not int or not 0 <= filler <= LONGEST_FILLER:
        raise ValueError(f"filler_tokens is {filler}, not a whole number up to {LONGEST_FILLER}")
    return Prompt(prompt, filler, part, _text(row.get("expects") or ""))


def _text(value: Any) -> str:
    """A question as it can be sent; ValueError for what is not text or has half a character."""
    if not isinstance(value, str):
        raise ValueError(f"{json.dumps(value)[:60]} is not text")
    value.encode()
    return value
