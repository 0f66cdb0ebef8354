"""Look at hosts again and again without touching: what runs there, how fast, how well it drafts.

No lock, no completion: only what servers count anyway. A thread for each host reads it, and
connects again to one that was lost.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deployctl import bugs, cancel
from deployctl.agent.wire.answers import Releases, UnitState
from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.connections.connect import Connected, ask, connect
from deployctl.engine.connections.fan_out import told
from deployctl.engine.inspect.status import gates, verdicts
from deployctl.errors import DeployError
from deployctl.hosts.operations import releases
from deployctl.hosts.session import Call
from deployctl.steps import replicas
from deployctl.steps.gpus import profile_gpus
from deployctl.steps.interface import Answers, Key, Question, Unanswered
from deployctl.steps.servers import figures, siblings
from deployctl.steps.servers.figures import Figures
from deployctl.steps.servers.process import RUNNING, identity

SCHEMA = "deployctl.watch/1"
LATELY = 60.0
"""Seconds over which the recent acceptance is taken."""
VERDICTS_AFTER = 30.0
"""Seconds after which the last verdicts are asked for again, although the process is the same."""
FIRST = 15.0
"""Seconds, beside two intervals, that hosts get for their first readings."""


@dataclass
class _Server:
    """What is kept of a unit's process between two readings."""

    process: object
    readings: deque[tuple[float, Figures]] = field(default_factory=deque)
    verdicts: dict[str, Any] = field(default_factory=dict)
    asked: float = float("-inf")
    """When its verdicts were asked for."""

    def add(self, at: float, now: Figures) -> dict[str, Any]:
        """Take one reading in; its figures."""
        self.readings.append((at, now))
        while len(self.readings) > 2 and at - self.readings[1][0] >= LATELY:
            self.readings.popleft()
        last = self._between(self.readings[-2]) if len(self.readings) > 1 else None
        lately = self._between(self.readings[0]) if last is not None else None
        return {
            "tokens_per_second": last and last["tokens_per_second"],
            "accepted": {"since_start": figures.since_start(now), "lately": lately},
        }

    def _between(self, before: tuple[float, Figures]) -> dict[str, Any] | None:
        at, now = self.readings[-1]
        return figures.between(before[1], now, at - before[0])


class HostWatch:
    """One host as it was seen last. `state` is replaced as a whole with each reading."""

    def __init__(self, profile: Profile, host: HostSettings, interval: float) -> None:
        self._wanted = replicas.placed(profile, host)
        self._interval = interval
        self._servers: dict[str, _Server] = {}
        self._urls: dict[str, str] = {}
        self.readings = 0
        self.state: dict[str, Any] = {"host": host.name, "time": None, "error": None, "units": {}}

    def follow(self, over: threading.Event, changed: threading.Condition) -> None:
        """Read until it is over; a host that cannot be read is tried again after each interval."""
        while not over.is_set():
            try:
                with connect(self._wanted.host) as connected:
                    while not over.is_set():
                        self._take({**self._read(connected), "error": None}, changed)
                        over.wait(self._interval)
            except DeployError as error:
                self._take({"error": told(error)}, changed)
            except Exception as error:
                found = bugs.internal(self._wanted.host.name, error)
                self._take({"error": told(found)}, changed)
                return
            over.wait(self._interval)

    def _take(self, found: Mapping[str, Any], changed: threading.Condition) -> None:
        with changed:
            self.state = {**self.state, **found}
            self.readings += 1
            changed.notify_all()

    def _read(self, connected: Connected) -> dict[str, Any]:
        """One round trip; another one where a server has come to be, or has not been asked for its
        verdicts lately."""
        wanted = self._wanted
        asked: dict[str, Question[Any]] = {siblings.UNITS: siblings.question(wanted)}
        if profile_gpus.uses_gpus(wanted):
            asked |= {one.key: one for one in profile_gpus.questions(wanted)}
        asked |= {_counts(unit): _reading(unit, url) for unit, url in self._urls.items()}
        answers, _ = ask(connected, asked)
        at, every = time.monotonic(), answers.get(siblings.UNITS) or {}
        known = {unit: every[unit] for unit in replicas.own_units(wanted, every)}
        urls = {unit: url for unit, state in known.items() if (url := figures.server_at(state))}
        late = {unit: url for unit, url in urls.items() if self._urls.get(unit) != url}
        more: dict[str, Question[Any]] = {
            _counts(unit): _reading(unit, url) for unit, url in late.items()
        }
        more |= {_kept(unit): self._releases(unit) for unit in urls if self._due(unit, known, at)}
        if more:
            further, _ = ask(connected, more)
            answers, at = answers.renewed(further), time.monotonic()
        self._urls = urls
        return {
            "time": time.time(),
            "units": {unit: self._unit(unit, state, answers, at) for unit, state in known.items()},
            "gpus": self._memory(answers),
        }

    def _due(self, unit: str, known: Mapping[str, UnitState], at: float) -> bool:
        """Whether a server's verdicts are to be asked for."""
        server = self._servers.get(unit)
        if server is None or server.process != identity(known[unit]):
            server = self._servers[unit] = _Server(identity(known[unit]))
        if at - server.asked < VERDICTS_AFTER:
            return False
        server.asked = at
        return True

    def _releases(self, unit: str) -> Question[Releases]:
        call = Call(releases.state, profile=self._wanted.profile.name, unit=unit, last=20)
        return Question(_kept(unit), call)

    def _unit(self, unit: str, state: UnitState, answers: Answers, at: float) -> dict[str, Any]:
        runs = state["state"] in RUNNING
        found = {
            "state": state["state"],
            "release": state["release"] if runs else None,
            "since": state.get("started") if runs else None,
            "restarts": state.get("restarts", 0),
            "liveness": state.get("liveness") if runs else None,
        }
        server = self._servers.get(unit)
        if server is None or unit not in self._urls:
            return found
        kept = answers.get(_kept(unit))
        if kept is not None:
            sealed = (kept["releases"].get(state["release"] or "") or {}).get("evidence", {})
            judged = gates(kept["ledger"], state["release"], sealed)
            server.verdicts = verdicts(judged, state)
        now = figures.figures(answers.get(_counts(unit)))
        read = (
            {"requests": None} if now is None else {"requests": now.requests, **server.add(at, now)}
        )
        return {**found, **read, "verdicts": server.verdicts}

    def _memory(self, answers: Answers) -> list[dict[str, Any]] | None:
        try:
            return figures.memory(profile_gpus.profile_gpus(self._wanted, answers))
        except Unanswered:
            return None


def _counts(unit: str) -> Key[Any]:
    return Key(f"counts.{unit}")


def _kept(unit: str) -> Key[Releases]:
    return Key(f"releases.{unit}")


def _reading(unit: str, url: str) -> Question[Any]:
    return Question(_counts(unit), figures.question(url))


class Watch:
    """All hosts of a profile, watched while it is entered."""

    def __init__(self, profile: Profile, interval: float) -> None:
        self._profile, self._interval = profile, interval
        self._hosts = [HostWatch(profile, host, interval) for host in profile.hosts]
        self._over, self._changed = threading.Event(), threading.Condition()

    def __enter__(self) -> Watch:
        for host in self._hosts:
            work = (self._over, self._changed)
            threading.Thread(target=host.follow, args=work, name="watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def settle(self, readings: int) -> None:
        """Wait until each host was read this often, or does not answer; a while at most."""
        end = time.monotonic() + FIRST + 2 * self._interval

        def ready() -> bool:
            seen = all(one.readings >= readings or one.state["error"] for one in self._hosts)
            return seen or time.monotonic() > end

        while not ready():
            with self._changed:
                self._changed.wait(0.2)
            cancel.check()

    def document(self) -> dict[str, Any]:
        """What was seen last. A host whose last reading is old has its age in seconds as `late`."""
        now = time.time()
        hosts = [one.state for one in self._hosts]
        return {
            "schema": SCHEMA,
            "profile": self._profile.name,
            "time": now,
            "hosts": [{**host, "late": self._late(host, now)} for host in hosts],
        }

    def _late(self, host: Mapping[str, Any], now: float) -> float | None:
        at = host["time"]
        if at is None or now - at < 3 * self._interval + figures.PATIENCE:
            return None
        return float(now - at)
