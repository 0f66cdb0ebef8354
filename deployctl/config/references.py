"""Names in a profile or playbook that must stand for something that exists here."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from deployctl.config.document import Value
from deployctl.config.problems import KeyPath, Problem, dotted
from deployctl.config.search import Search, expanded, is_file, is_path
from deployctl.config.shipped import bundled_models
from deployctl.config.suggest import did_you_mean
from deployctl.vllm.client.prompt_sets import HUB, SHIPPED
from deployctl.vllm.fixes.registry import by_name


def problems(tree: Value, search: Search) -> Iterator[Problem]:
    """A profile's names that stand for nothing: of a model, fix, prompt set or playbook."""
    for path in (("model", "bundled"), ("drafter", "model", "bundled")):
        yield from _unless_known(tree, path, bundled_models(), "bundled model")
    for word in ("require", "prefer"):
        for index in range(_length(tree, ("fixes", word))):
            yield from _unless_known(tree, ("fixes", word, index), by_name(), "fix")
    yield from _unknown_prompts(tree)
    playbooks = [found.name for found in search.found("playbooks")]
    yield from _unless_known(tree, ("playbook",), playbooks, "playbook")


def endless_numbers(value: Value, path: KeyPath = ()) -> Iterator[Problem]:
    """Numbers that no JSON can carry, wherever they stand: infinities and NaN."""
    for name, child in value.entries.items():
        yield from endless_numbers(child, (*path, name))
    for index, child in enumerate(value.items):
        yield from endless_numbers(child, (*path, index))
    if isinstance(value.content, float) and not math.isfinite(value.content):
        yield Problem(value.origin, dotted(path), f"should be a finite number, not {value.content}")


def with_files(tree: Value) -> Value:
    """A profile whose file of prompts is absolute: a path counts from the file that gives it."""
    acceptance, prompts = tree.at(("acceptance",)), tree.at(("acceptance", "prompts"))
    if acceptance is None or prompts is None or not isinstance(prompts.content, str):
        return tree
    if _is_no_file(prompts.content) or prompts.origin.layer != "file":
        return tree
    path = Path(prompts.origin.source).absolute().parent / expanded(prompts.content)
    resolved = replace(prompts, content=os.path.normpath(path))
    return tree.with_entry("acceptance", acceptance.with_entry("prompts", resolved))


def _unknown_prompts(tree: Value) -> Iterator[Problem]:
    prompts = tree.at(("acceptance", "prompts"))
    if prompts is None or not isinstance(prompts.content, str) or _is_no_file(prompts.content):
        return
    if not is_file(Path(prompts.content)):
        name = Path(prompts.content).name
        hint = did_you_mean(name, SHIPPED) or f"; shipped are {', '.join(SHIPPED)}"
        message = f"no prompt set is named {name}{hint}, and there is no file {prompts.content}"
        yield Problem(prompts.origin, "acceptance.prompts", message)


def _is_no_file(prompts: str) -> bool:
    """A set that is shipped, or one of a hub, which is looked for where it is asked."""
    return prompts in SHIPPED or prompts.startswith(HUB)


def unknown_steps(tree: Value, known: Collection[str]) -> Iterator[Problem]:
    """A playbook's steps that are none; `known` are the steps' names."""
    steps = tree.child("steps")
    for index, step in enumerate(steps.items if steps is not None else ()):
        bare = isinstance(step.content, str)
        path: KeyPath = ("steps", index) if bare else ("steps", index, "step")
        yield from _unless_known(tree, path, known, "step")


def _length(tree: Value, path: KeyPath) -> int:
    value = tree.at(path)
    return len(value.items) if value is not None else 0


def _unless_known(
    tree: Value, path: KeyPath, known: Collection[str], word: str
) -> Iterator[Problem]:
    value = tree.at(path)
    if value is None or not isinstance(value.content, str):
        return
    name = value.content
    if name in known or (word == "playbook" and is_path(name)):
        return
    suggestion = did_you_mean(name, known) or f"; there are {', '.join(sorted(known))}"
    yield Problem(value.origin, dotted(path), f"no {word} is named {name}{suggestion}")
