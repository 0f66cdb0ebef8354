"""Servers that a profile left in its slots when it went back from blue-green. Pure."""

from __future__ import annotations

from deployctl.agent.wire.answers import UnitState
from deployctl.hosts.operations import units
from deployctl.hosts.session import Call
from deployctl.steps.interface import Answers, Deployment, Key, Question
from deployctl.steps.servers.process import RUNNING

SLOTS = ("blue", "green")


def questions(wanted: Deployment) -> list[Question[UnitState]]:
    """What must be known; nothing for a profile whose slots are in use."""
    if wanted.profile.switch.strategy == "blue-green":
        return []
    names = {slot: f"{wanted.profile.name}.{slot}" for slot in SLOTS}
    return [Question(Key(f"slot.{s}"), Call(units.state, name=name)) for s, name in names.items()]


def left(wanted: Deployment, answers: Answers) -> dict[str, UnitState]:
    """The units that run in slots, by name; which nothing else would ever stop."""
    asked = {q.call.args["name"]: answers.get(q.key) for q in questions(wanted)}
    return {
        name: unit
        for name, unit in asked.items()
        if unit is not None and (unit["state"] in RUNNING or unit["members"])
    }
