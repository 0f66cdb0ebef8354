"""The units that a profile has beside each other on one host. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deployctl.agent.wire.answers import UnitState
from deployctl.config.switch import SwitchSettings
from deployctl.hosts.operations import units
from deployctl.hosts.session import Call
from deployctl.steps import replicas
from deployctl.steps.facts import UNITS
from deployctl.steps.identity import FRONT, MAIN, SLOTS
from deployctl.steps.interface import Answers, Deployment, Question
from deployctl.steps.servers import sleeping
from deployctl.steps.servers.process import RUNNING

__all__ = ["UNITS"]

BESIDE = ("blue-green", "sleep")
"""Strategies with two units beside each other."""
BEHIND = "127.0.0.1"
"""Where a unit listens that clients reach through another one."""


def runs_here(wanted: Deployment, answers: Answers, unit: str) -> bool:
    """Whether one of the profile's units runs that is this replica's to end."""
    known = answers.get(UNITS) or {}
    return unit in replicas.own_units(wanted, known) and runs(known[unit])


def surplus(wanted: Deployment, known: Mapping[str, UnitState]) -> list[str]:
    """The replicas that run on a host and that the profile does not have any more; each host's
    first replica ends them."""
    return [unit for unit in replicas.surplus(wanted, known) if runs(known[unit])]


def of_unit(wanted: Deployment, unit: str) -> Deployment:
    """What is wanted of one unit of a profile: its port and GPUs are those of its slot."""
    profile = wanted.profile
    switch, sleeps = profile.switch, profile.switch.strategy == "sleep"
    given = switch.slots(profile.serve.port) if sleeps else (switch.blue, switch.green)
    settings = dict(zip(SLOTS, given, strict=True)).get(unit)
    if settings is None:
        return replace(wanted, unit=unit)
    gpus = profile.serve.gpus if settings.gpus is None else settings.gpus
    serve = profile.serve.model_copy(update={"host": BEHIND, "port": settings.port, "gpus": gpus})
    if sleeps:
        serve = sleeping.able(serve)
    update = {"serve": serve, "switch": SwitchSettings(warm=switch.warm)}
    return replace(wanted, unit=unit, profile=profile.model_copy(update=update))


def question(wanted: Deployment) -> Question[dict[str, UnitState]]:
    """What must be known: the state of every unit that the profile has here."""
    return Question(UNITS, Call(units.listing, profile=wanted.profile.name))


def runs(unit: UnitState) -> bool:
    """Whether anything of a unit runs."""
    return unit["state"] in RUNNING or bool(unit["members"])


def left(wanted: Deployment, answers: Answers) -> dict[str, UnitState]:
    """The units that run from when a profile was blue-green; nothing else would stop them."""
    alone = wanted.unit == MAIN and wanted.profile.switch.strategy not in BESIDE
    known = answers.get(UNITS) or {} if alone else {}
    return {unit: known[unit] for unit in (*SLOTS, FRONT) if runs(known.get(unit) or ABSENT)}


ABSENT: UnitState = {
    "state": "absent",
    "pid": None,
    "start": None,
    "release": None,
    "members": [],
}
