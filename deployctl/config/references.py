"""Names in a profile or playbook that must stand for something that exists here."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from deployctl.config.document import Value
from deployctl.config.problems import Problem, dotted
from deployctl.config.search import Search, is_path
from deployctl.config.shipped import bundled_models
from deployctl.config.suggest import did_you_mean


def problems(tree: Value, search: Search) -> Iterator[Problem]:
    """A profile's names that stand for nothing: of a bundled model or a playbook."""
    for path in (("model", "bundled"), ("drafter", "model", "bundled")):
        yield from _unless_known(tree, path, bundled_models(), "bundled model")
    playbooks = [found.name for found in search.found("playbooks")]
    yield from _unless_known(tree, ("playbook",), playbooks, "playbook")


def unknown_steps(tree: Value, known: Collection[str]) -> Iterator[Problem]:
    """A playbook's steps that are none; `known` are the steps' names."""
    steps = tree.child("steps")
    for index, step in enumerate(steps.items if steps is not None else ()):
        bare = isinstance(step.content, str)
        path: tuple[str | int, ...] = ("steps", index) if bare else ("steps", index, "step")
        yield from _unless_known(tree, path, known, "step")


def _unless_known(
    tree: Value, path: tuple[str | int, ...], known: Collection[str], word: str
) -> Iterator[Problem]:
    value: Value | None = tree
    for token in path:
        value = value.child(token) if value is not None else None
    if value is None or not isinstance(value.content, str):
        return
    name = value.content
    if name in known or (word == "playbook" and is_path(name)):
        return
    suggestion = did_you_mean(name, known) or f"; there are {', '.join(sorted(known))}"
    yield Problem(value.origin, dotted(path), f"no {word} is named {name}{suggestion}")
