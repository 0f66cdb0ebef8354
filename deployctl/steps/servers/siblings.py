"""The units that a profile has beside each other on one host. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from deployctl.agent.wire.answers import UnitState
from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.config.switch import SwitchSettings
from deployctl.hosts.operations import units
from deployctl.hosts.session import Call
from deployctl.steps.identity import FRONT, MAIN, SLOTS, replica_number, replica_unit
from deployctl.steps.interface import Answers, Deployment, Key, Question
from deployctl.steps.servers.process import RUNNING

UNITS = Key[dict[str, UnitState]]("units")
BEHIND = "127.0.0.1"
"""Where a unit listens that clients reach through another one."""


def placed(profile: Profile, host: HostSettings, **more: Any) -> Deployment:
    """What is wanted of one host, or of one of several replicas on it: with its port, GPUs and
    unit."""
    own = profile.of_replica(host)
    return Deployment(own, host, unit=replica_unit(host.replica), **more)


def own_units(wanted: Deployment, known: Iterable[str]) -> list[str]:
    """Of the profile's units on a host those that are this replica's: the first has, beside its
    server, all that is no replica's."""
    placed_here = range(1, wanted.profile.replicas.per_host + 1)

    def number(unit: str) -> int:
        found = replica_number(unit)
        return found if found in placed_here and found is not None else 1

    return [unit for unit in known if number(unit) == wanted.host.replica]


def runs_here(wanted: Deployment, answers: Answers, unit: str) -> bool:
    """Whether one of the profile's units runs that is this replica's to end."""
    known = answers.get(UNITS) or {}
    return unit in own_units(wanted, known) and runs(known[unit])


def surplus(wanted: Deployment, known: Mapping[str, UnitState]) -> list[str]:
    """The replicas that run on a host and that the profile does not have any more; each host's
    first replica ends them."""
    if wanted.host.replica != 1:
        return []
    numbers = {unit: replica_number(unit) or 1 for unit, state in known.items() if runs(state)}
    most = wanted.profile.replicas.per_host
    return [unit for unit, number in numbers.items() if number > most]


def of_unit(wanted: Deployment, unit: str) -> Deployment:
    """What is wanted of one unit of a profile: its port and GPUs are those of its slot."""
    profile, settings = wanted.profile, getattr(wanted.profile.switch, unit, None)
    if unit not in SLOTS or settings is None:
        return replace(wanted, unit=unit)
    gpus = profile.serve.gpus if settings.gpus is None else settings.gpus
    serve = profile.serve.model_copy(update={"host": BEHIND, "port": settings.port, "gpus": gpus})
    update = {"serve": serve, "switch": SwitchSettings()}
    return replace(wanted, unit=unit, profile=profile.model_copy(update=update))


def question(wanted: Deployment) -> Question[dict[str, UnitState]]:
    """What must be known: the state of every unit that the profile has here."""
    return Question(UNITS, Call(units.listing, profile=wanted.profile.name))


def runs(unit: UnitState) -> bool:
    """Whether anything of a unit runs."""
    return unit["state"] in RUNNING or bool(unit["members"])


def left(wanted: Deployment, answers: Answers) -> dict[str, UnitState]:
    """The units that run from when a profile was blue-green; nothing else would stop them."""
    alone = wanted.unit == MAIN and wanted.profile.switch.strategy != "blue-green"
    known = answers.get(UNITS) or {} if alone else {}
    return {unit: known[unit] for unit in (*SLOTS, FRONT) if runs(known.get(unit) or ABSENT)}


ABSENT: UnitState = {
    "state": "absent",
    "pid": None,
    "start": None,
    "release": None,
    "members": [],
}
