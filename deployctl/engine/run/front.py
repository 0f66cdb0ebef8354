"""The front of a profile with several units: a relay on its port that leads clients to one of them.

A file names that unit, and where to listen; the front reads it for every connection.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

from deployctl import cancel
from deployctl.agent.wire.answers import FileContent
from deployctl.engine.strategies.registry import strategy
from deployctl.errors import HostError
from deployctl.hosts.operations import files, network, releases, units
from deployctl.hosts.session import Call, Session
from deployctl.steps.identity import FRONT, MAIN, SLOTS
from deployctl.steps.interface import Answers, Deployment, Key, Question
from deployctl.steps.servers import agent_programs, siblings
from deployctl.steps.servers.process import RUNNING, strangers
from deployctl.steps.servers.stopping import REQUESTS, stop_unit, together

POLL = 0.5
LIMIT = 15.0
"""Seconds for the front to listen."""
HOLD = 900.0
"""Seconds for which a connection waits at most, whatever became of the run that began it."""
FILE = Key[FileContent]("front.file")
LEDGER = Key[list[dict[str, Any]]]("front.ledger")


def front_file(profile: str) -> str:
    """Where the front reads which unit serves."""
    return f"@/profiles/{profile}/front.json"


def question(wanted: Deployment) -> Question[FileContent]:
    """What tells which unit serves."""
    return Question(FILE, Call(files.read, path=front_file(wanted.profile.name)))


def questions(wanted: Deployment) -> dict[str, Question[Any]]:
    """What must be known of a profile with several units before any of them is worked on."""
    ledger = Question(LEDGER, Call(releases.ledger, profile=wanted.profile.name, last=50))
    return {str(one.key): one for one in (question(wanted), siblings.question(wanted), ledger)}


def settings(answer: FileContent | None) -> dict[str, Any]:
    """The front's settings, from the answer; empty where it has none yet."""
    if answer is None or not answer["exists"]:
        return {}
    found: dict[str, Any] = json.loads(answer["text"] or "")
    return found


def live(answer: FileContent | None) -> str | None:
    """The unit that serves, from the answer; None where clients were never led to any."""
    found = settings(answer).get("slot")
    return str(found) if found in SLOTS else None


def serving(session: Session, wanted: Deployment) -> Deployment:
    """What is wanted of the unit that serves; of the profile's own where it has no others."""
    if not strategy(wanted.profile).beside:
        return wanted
    unit = live(session.call(files.read, path=front_file(wanted.profile.name)))
    return siblings.of_unit(wanted, unit or MAIN)


@dataclass
class Front:
    """The front of one profile on one host. `wanted` is what is wanted of the whole profile."""

    wanted: Deployment
    session: Session
    live: str | None
    listens: tuple[str, int] | None
    """Where it was configured to listen."""
    runs: str | None
    """What holds the profile's port: the front, a release of its own unit, or nothing."""
    target: str | None = None
    """The unit to which clients are led: another one than `live` while that sleeps."""
    held: bool = False
    """Whether new connections wait."""
    gaps: list[float] = field(default_factory=list)
    """Seconds in which nothing listened, because the front took the port from a release."""

    @classmethod
    def of(cls, wanted: Deployment, session: Session, answers: Answers) -> Front:
        """The front as these answers show it."""
        told, found = settings(answers.get(FILE)), answers[siblings.UNITS]
        listens = (str(told.get("host")), int(told.get("port") or 0)) if told else None
        holds = (found.get(unit) or siblings.ABSENT for unit in (FRONT, MAIN))
        runs = next((str(one["release"]) for one in holds if one["state"] in RUNNING), None)
        serves = live(answers.get(FILE))
        leads = str(told.get("leads") or serves) if serves else None
        return cls(wanted, session, serves, listens, runs, leads, bool(told.get("hold")))

    @property
    def stands(self) -> bool:
        """Whether it runs, and listens where it is wanted."""
        return self.runs == FRONT and self.listens == self._address

    @property
    def _address(self) -> tuple[str, int]:
        serve = self.wanted.profile.serve
        return serve.host, serve.port

    def check_port(self) -> None:
        """Raise where somebody else holds the port, before anything makes way for it."""
        port = self.wanted.profile.serve.port
        found = self.session.call(units.listing, profile=self.wanted.profile.name)
        ours = [found.get(unit) or siblings.ABSENT for unit in (FRONT, MAIN)]
        members = [member for unit in ours for member in unit["members"]]
        holds = self.session.call(network.listener, port=port)
        others = strangers(holds, {**siblings.ABSENT, "members": members})
        if others:
            raise HostError(
                self.wanted.host.name,
                f"port {port}, the front's, is held by pid {others[0]['pid']}",
                str(others[0]["command"] or others[0]["comm"]),
                "stop that program, or choose another serve.port",
            )

    def add(self, unit: str) -> None:
        """Lead clients to the unit that serves from now on: new connections go there."""
        self.live = unit
        self.lead(unit)

    def lead(self, unit: str) -> None:
        """Lead clients to a unit, whichever is the one that serves."""
        self._write(unit, {})
        self.held = False

    def hold(self, cut: bool = False) -> None:
        """Let new connections wait; with `cut` those that are open are closed."""
        self._write(self.target or self.live, {"hold": HOLD, "cut": cut})
        self.held = True

    def _write(self, leads: str | None, more: dict[str, Any]) -> None:
        assert leads is not None
        host, port = self._address
        target = siblings.of_unit(self.wanted, leads).profile.serve.port
        content = {"host": host, "port": port, "slot": self.live, "target": target, "leads": leads}
        text = json.dumps({**content, **more}) + "\n"
        self.session.call(files.write, path=front_file(self.wanted.profile.name), text=text)
        self.target = leads

    def stand(self) -> dict[str, Any]:
        """Start it, in place of one that listens elsewhere, or of a release that held the port
        itself; what was there before."""
        self.check_port()
        began, before, port = time.monotonic(), self.runs, self.wanted.profile.serve.port
        if self.live is not None and self.listens != self._address:
            self.add(self.live)
        about = [siblings.of_unit(self.wanted, unit) for unit in (FRONT, MAIN)]
        stops = [stop_unit(self.session, one) for one in about]
        start_front(self.session, self.wanted)
        while not self.session.call(network.listener, port=port)["listening"]:
            if time.monotonic() - began > LIMIT:
                raise self._silent(port)
            cancel.sleep(POLL / 5)
        self.runs, self.listens = FRONT, self._address
        if before is not None:
            self.gaps = [time.monotonic() - began]
        return {"before": before or "absent", "port": port, REQUESTS: together(stops)}

    def _silent(self, port: int) -> HostError:
        unit = siblings.of_unit(self.wanted, FRONT).unit_id
        return HostError(
            self.wanted.host.name,
            f"the front does not listen on port {port}",
            self.session.call(units.log, **unit, offset=-2000)["text"].strip(),
            "free the port, or choose another serve.port",
        )


def start_front(session: Session, wanted: Deployment) -> None:
    """Start the front as a unit of its own; raises RemoteError where it does not come up."""
    agent_programs.start(session, wanted, FRONT, front_file(wanted.profile.name), FRONT)
    session.call(units.keep, **siblings.of_unit(wanted, FRONT).unit_id)
