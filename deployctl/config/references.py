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
    yield from _unknown_patches(tree)
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
    """A profile whose files of prompts and patches are absolute: a path counts from the file that
    gives it."""
    acceptance, prompts = tree.at(("acceptance",)), tree.at(("acceptance", "prompts"))
    named = prompts is not None and isinstance(prompts.content, str)
    if acceptance is not None and prompts is not None and named:
        kept = prompts if _is_no_file(str(prompts.content)) else _absolute(prompts)
        tree = tree.with_entry("acceptance", acceptance.with_entry("prompts", kept))
    build, patches = tree.at(("build",)), tree.at(("build", "patches"))
    if build is not None and patches is not None and patches.items:
        found = replace(patches, content=tuple(map(_absolute, patches.items)))
        tree = tree.with_entry("build", build.with_entry("patches", found))
    return tree


def _absolute(value: Value) -> Value:
    if not isinstance(value.content, str) or value.origin.layer != "file":
        return value
    path = Path(value.origin.source).absolute().parent / expanded(value.content)
    return replace(value, content=os.path.normpath(path))


def _unknown_patches(tree: Value) -> Iterator[Problem]:
    for index in range(_length(tree, ("build", "patches"))):
        value = tree.at(("build", "patches", index))
        if value is None or not isinstance(value.content, str) or is_file(Path(value.content)):
            continue
        message = f"there is no file {value.content}"
        yield Problem(value.origin, dotted(("build", "patches", index)), message)


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
