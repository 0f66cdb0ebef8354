"""Which config.json of this machine is meant, and what its checks say without a target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from deployctl.errors import UsageError
from deployctl.vllm.drafters import several
from deployctl.vllm.drafters.drafter import parse
from deployctl.vllm.drafters.drafter_verdicts import Check


def without_target(made: Check) -> Check:
    """A check that could not compare, with its cause: no target was given."""
    key = made.message.removeprefix("the target's config has no ")
    if made.verdict != "unknown" or key == made.message:
        return made
    return replace(made, message=f"{key} is not compared: no target was given (--target)")


def one_of(path: Path, method: str | None) -> tuple[Path, tuple[Check, ...]]:
    """The config.json that is judged of a folder, and why where the folder holds more."""
    found = dict(_configs(path)) if path.is_dir() else {}
    if not found:
        return config_json(path), ()
    chosen = several.choice(found, method)
    why = () if chosen.why is None else (chosen.why,)
    if chosen.name is None:
        raise UsageError(
            f"{path}: several drafters match",
            "; ".join(one.message for one in why),
            next=f"name one of them: deployctl drafter check {path / min(filter(None, found))}",
        )
    return path / chosen.name / "config.json", why


def _configs(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The folder's own config under "", and those one level below that can be read."""
    if (folder / "config.json").exists():
        yield "", {}
    for path in sorted(folder.glob("[!.]*/config.json")):
        try:
            yield path.parent.name, parse(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            yield path.parent.name, {}


def config_json(path: Path) -> Path:
    """A config.json, or that of a folder."""
    return path / "config.json" if path.is_dir() else path
