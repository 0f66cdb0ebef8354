"""Servers that a profile left in its slots when it went back from blue-green. Pure."""

from __future__ import annotations

from typing import Any

from deployctl.steps.interface import Answers, Deployment, Question
from deployctl.steps.servers.process import RUNNING

SLOTS = ("blue", "green")


def questions(wanted: Deployment) -> list[Question]:
    """What must be known; nothing for a profile whose slots are in use."""
    if wanted.profile.switch.strategy == "blue-green":
        return []
    names = {slot: f"{wanted.profile.name}.{slot}" for slot in SLOTS}
    return [Question(f"slot.{s}", "units.state", {"name": name}) for s, name in names.items()]


def left(wanted: Deployment, answers: Answers) -> dict[str, dict[str, Any]]:
    """The units that run in slots, by name; which nothing else would ever stop."""
    asked = {q.args["name"]: answers.get(q.key) or {} for q in questions(wanted)}
    return {
        name: unit
        for name, unit in asked.items()
        if unit.get("state") in RUNNING or unit.get("members")
    }
