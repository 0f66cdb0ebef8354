"""What several steps must know of a host, by key, and the questions that bring it."""

from __future__ import annotations

from deployctl.agent.wire.answers import Disk, Listener, Releases, UnitState
from deployctl.agent.wire.builds import BuildUser, ResolvedSource, Tools
from deployctl.agent.wire.gpus import GpuState
from deployctl.agent.wire.ranks import Place
from deployctl.agent.wire.stored import Model, View
from deployctl.hosts.operations import (
    environment,
    files,
    models,
    network,
    ranks,
    releases,
    units,
)
from deployctl.hosts.session import Call
from deployctl.steps.interface import Answers, Deployment, Key, Question

BUILD_USER = Key[BuildUser]("build_user")
DRAFTER = Key[Model]("drafter")
GPUS = Key[GpuState]("gpus")
MODEL = Key[Model]("model")
PLACE = Key[Place]("place")
PORT = Key[Listener]("port")
RELEASES = Key[Releases]("releases")
SHM = Key[Disk]("launch.shm")
SOURCE = Key[ResolvedSource]("source")
TOOLS = Key[Tools]("tools")
UNIT = Key[UnitState]("unit")
UNITS = Key[dict[str, UnitState]]("units")
VIEWS = Key[dict[str, View]]("drafter.views")


def drafter_views(wanted: Deployment) -> Question[dict[str, View]]:
    """The views of their drafters that the unit's releases have."""
    return Question(VIEWS, Call(models.views, **wanted.unit_id))


def place(wanted: Deployment) -> list[Question[Place]]:
    """Whether the host has the address at which the other ranks reach it; of a group alone."""
    member = wanted.member
    if member is None:
        return []
    card = member.interfaces[member.rank] or ""
    return [Question(PLACE, Call(ranks.place, address=member.address, interface=card))]


def port(wanted: Deployment) -> Question[Listener]:
    """Who listens on the profile's port."""
    return Question(PORT, Call(network.listener, port=wanted.profile.serve.port))


def release_state(wanted: Deployment) -> Question[Releases]:
    """The unit's releases and its part of the ledger."""
    return Question(RELEASES, Call(releases.state, **wanted.unit_id))


def shared_memory() -> Question[Disk]:
    """What the host has for memory that processes share."""
    return Question(SHM, Call(files.disk, path="/dev/shm"))


def tools() -> Question[Tools]:
    """What the host offers for building."""
    return Question(TOOLS, Call(environment.tools))


def unit(wanted: Deployment) -> Question[UnitState]:
    """The unit's server."""
    return Question(UNIT, Call(units.state, **wanted.unit_id))


NO_RELEASES: Releases = {
    "current": None,
    "previous": None,
    "releases": {},
    "environments": {},
    "broken": {},
    "elsewhere": [],
    "ledger": [],
}
NO_UNIT: UnitState = {
    "state": "unknown",
    "pid": None,
    "start": None,
    "release": None,
    "members": [],
}


def known_releases(answers: Answers) -> Releases:
    """The profile's releases; none where that is unknown."""
    return answers.get(RELEASES) or NO_RELEASES


def known_unit(answers: Answers) -> UnitState:
    """The profile's server; one in the state `unknown` where that is so."""
    return answers.get(UNIT) or NO_UNIT
