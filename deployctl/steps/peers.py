"""peers: the ranks of a group have the same bytes and reach each other, before any is started.

vLLM compares nothing of this: ranks of two versions serve, and wrongly; ranks that do not reach
each other wait and log nothing.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deployctl.agent.wire.ranks import Answered, Reached
from deployctl.errors import StagingFailed
from deployctl.hosts.operations import files, models, network, ranks
from deployctl.hosts.stream import Stream
from deployctl.steps import facts
from deployctl.steps.builds.environments import sealed
from deployctl.steps.drafter import DrafterStep
from deployctl.steps.facts import DRAFTER, GPUS, MODEL, PLACE, UNIT
from deployctl.steps.interface import (
    RELEASE_PARTS,
    Answers,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
    Unanswered,
)
from deployctl.steps.launch import LaunchStep
from deployctl.steps.member import PeerFailed, differing
from deployctl.steps.models import sources
from deployctl.steps.servers import ray
from deployctl.steps.servers.process import strangers
from deployctl.steps.servers.ranks import group_of
from deployctl.steps.servers.rendering import place
from deployctl.steps.verify import VerifyStep

RANDOM = 2
"""Ports of the kernel's choice that are tried on each host, beside the head's own."""


class PeersStep(Step):
    """Versions, models, drafter, clocks and connections of all ranks, compared."""

    name = "peers"
    phase = "stage"
    failure = StagingFailed
    roles = frozenset({"head", "worker"})
    uses = RELEASE_PARTS

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        return facts.place(wanted)

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        found = answers[PLACE]
        if found["interface"] is None:
            said = f"no interface of this host has {found['address']}"
            return Plan("blocked", reason=f"{said}: {', '.join(found['interfaces']) or 'none'}")
        try:
            starts = LaunchStep().plan(wanted, answers).status != "unchanged"
        except Unanswered:
            starts = True
        if not starts:
            return Plan("unchanged", reason="the group serves")
        return Plan("check", reason="before the ranks start")

    def prove(self, context: Context) -> Evidence:
        try:
            same = self._same(context)
            clocks = self._clocks(context)
            reached = self._reach(context)
        except PeerFailed as error:
            raise self.fail(context, "another rank is not ready to start", str(error)) from error
        return {**same, **clocks, **reached, "interface": context.answers[PLACE]["interface"]}

    def sentence(self, ended: Mapping[str, Any]) -> str:
        found = ended["evidence"].get("reached") or ()
        if not found:
            return ""
        slowest = max(row["seconds"] for row in found)
        said = f"{len(found)} connections to the other ranks, {slowest * 1e3:.1f} ms at most"
        rates = [row["rate"] for row in found if row.get("rate")]
        return f"{said}, {min(rates) / 1e6:.0f} MB/s at least" if rates else said

    # -- the same everywhere -----------------------------------------------------------------

    def _same(self, context: Context) -> Evidence:
        own = parts(context)
        told = context.peers.meet("parts", own)
        for what in own:
            found = differing(told, lambda said, what=what: said.get(what))  # type: ignore[misc]
            if found is None:
                continue
            first, here, other, there = found
            raise self.fail(
                context,
                f"{first} and {other} would not start the same {what}",
                f"{first}: {_short(here, there)}\n{other}: {_short(there, here)}",
                "make them the same on both: vLLM would serve, and wrongly",
                {"parts": dict(told)},
            )
        return {"parts": own}

    def _clocks(self, context: Context) -> Evidence:
        """How far the clocks were apart when the hosts were asked, all at about the same time."""
        told = context.peers.meet("clock", context.answers[PLACE]["time"])
        skew = max(told.values()) - min(told.values())
        limit = group_of(context.wanted).clock_skew
        if skew > limit:
            context.log(
                f"the clocks of the hosts are {skew:.0f} s apart: their logs do not compare"
            )
        return {"clock_skew": round(skew, 1)}

    # -- connections -------------------------------------------------------------------------

    def _reach(self, context: Context) -> Evidence:
        member = context.wanted.member
        assert member is not None, "this step is of groups alone"
        place(self, context)
        token = secrets.token_hex(8)
        group = group_of(context.wanted)
        ports = [*group.tried_ports, *[0] * RANDOM]
        if member.rank == 0:
            ports = [*group.own_ports.values(), *ports]
        address = member.address
        stream = context.session.stream(ranks.answer, address=address, ports=ports, token=token)
        try:
            listening = self._listening(context, stream, ports, token)
            told = context.peers.meet("listening", listening)
            targets = [
                [member.addresses[rank], port, said, index == 0]
                for rank in member.others()
                # The last is of the kernel's choice: free, whoever serves.
                for index, (port, said) in enumerate(reversed(told[member.hosts[rank]]))
            ]
            rows = context.session.call(ranks.reach, targets=targets, source=address)
            everyone = context.peers.meet("reached", rows)
        finally:
            stream.feed("end")
            while stream.next() is not None:
                pass
        named = dict(zip(member.addresses, member.hosts, strict=True))
        refused = list(_refused(named, everyone))
        evidence: Evidence = {"reached": rows}
        if refused:
            raise self.fail(
                context,
                "the ranks do not reach each other",
                "\n".join(refused),
                "let the hosts speak freely with each other on every port, on a private network",
                evidence,
            )
        return evidence

    def _listening(
        self, context: Context, stream: Stream[Answered], ports: Sequence[int], token: str
    ) -> list[tuple[int, str]]:
        """The ports on which this host can be reached, each with what it says to whoever comes."""
        while (event := stream.next()) is not None:
            if "ports" in event:
                bound = zip(ports, event["ports"], strict=True)
                return [
                    (made, token) if made is not None else (self._held(context, port), "")
                    for port, made in bound
                ]
        said = stream.failure
        raise self.fail(context, "this host cannot listen for the other ranks", str(said))

    def _held(self, context: Context, port: int) -> int:
        """A port of the head that is in use: by the group that serves, or by another program."""
        session, unit = context.session, context.answers[UNIT]
        watches = port == group_of(context.wanted).watch_port and unit.get("supervised")
        holders = session.call(network.listener, port=port)
        others = strangers(holders, unit)
        if watches or (holders["holders"] and not others):
            return port
        group = group_of(context.wanted)
        named = [*group.own_ports, *(["ray.ports"] if group.tried_ports else [])]
        who = ", ".join(f"PID {one['pid']} ({one['command'] or one['comm']})" for one in others)
        raise self.fail(
            context,
            f"port {port}, at which the ranks meet, is in use",
            f"by {who or 'no visible process'}",
            f"stop it, or choose other ports: {', '.join(f'group.{name}' for name in named)}",
        )


def parts(context: Context) -> dict[str, Any]:
    """All that must be the same on every rank, by what people call it."""
    wanted, answers = context.wanted, context.answers
    release = context.release
    found: dict[str, Any] = {
        "environment": release.environment_key,
        "Python": _python(context),
        "packages": _packages(context),
        "release": release.release,
        "drafter's source": sources.drafter_identity(wanted, answers),
        "drafter config": (context.evidence.get(DrafterStep.name) or {}).get("sha256"),
        "driver": _driver(answers),
    }
    if ray.cluster(wanted) is not None:
        # The head's paths are those of Ray's workers on every node.
        found["root folder"] = context.session.root
    fresh = sources.survey(context)
    for role, what in ((MODEL, "model's files"), (DRAFTER, "drafter's files")):
        if sources.source(wanted, role) is not None:
            found[what] = _files(context, fresh, role)
    return found


def _packages(context: Context) -> dict[str, str]:
    """Each distribution of the environment and its version; empty where that is not known."""
    seal = sealed(context.answers, context.release.environment_key) or {}
    before = (seal.get("evidence") or {}).get(VerifyStep.name) or {}
    evidence = context.evidence.get(VerifyStep.name) or before
    return dict(evidence.get("packages") or before.get("packages") or {})


def _python(context: Context) -> str:
    """The environment's Python to its patch version, which Ray compares as well; empty where the
    environment does not state it."""
    path = f"{context.release.environment}/pyvenv.cfg"
    text = context.session.call(files.read, path=path)["text"] or ""
    found = re.search(r"^version(?:_info)? *= *(\d+\.\d+\.\d+)", text, re.MULTILINE)
    return found[1] if found else ""


def _driver(answers: Answers) -> list[str]:
    state = answers.get(GPUS)
    rows = state["gpus"] if state else ()
    return sorted({driver for row in rows if (driver := row["driver"])})


def _files(context: Context, answers: Answers, role: Any) -> dict[str, Any]:
    """Sizes of a model's files, and their checksums where no hub or bundle has published them."""
    found = answers[role]
    source = sources.source(context.wanted, role)
    if source is None or source.path is None:
        return dict(found["files"])
    context.progress("checksums", found["place"])
    names = list(found["files"])
    return dict(context.session.call(models.checksums, path=found["place"], names=names))


def _refused(named: Mapping[str, str], told: Mapping[str, Sequence[Reached]]) -> Iterator[str]:
    for host, rows in told.items():
        for row in rows:
            if row["error"] is not None:
                there = f"{named[row['address']]}, {row['address']}:{row['port']}"
                yield f"{host} to {there}: {row['error']}"


def _short(own: Any, other: Any) -> str:
    """What one host has that the other does not."""
    if not (isinstance(own, Mapping) and isinstance(other, Mapping)):
        return f"{own or 'none'}"
    names = [name for name in own if own[name] != other.get(name)]
    told = ", ".join(f"{name} {own[name]}" for name in names[:5])
    return f"{told}{' …' if len(names) > 5 else ''}" or "lacks what the other has"
