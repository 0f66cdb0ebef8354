"""The router of a run, as its replicas use it: each leaves it before it stops, and joins it once it
serves.

What serves and is not in the router's list joins, whatever left it out: an interrupted run, a
router that was started again, a replica that another run could not add.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from deployctl import cancel
from deployctl.agent.wire.answers import HttpAnswer, UnitState
from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.connections.connect import Connected, connect
from deployctl.errors import HostError
from deployctl.hosts.operations import files, network
from deployctl.hosts.session import Call, Session
from deployctl.steps.routers.interface import Request
from deployctl.steps.routers.registry import engine, replica_url, router_file, router_url
from deployctl.steps.servers.stopping import listens_at

PATIENCE = 30.0
"""Seconds for a router that does not answer: its supervisor starts it again."""
ADDING = 30.0
"""Seconds for the router to find a replica healthy that has just passed its gates."""
POLL = 0.2


@dataclass(frozen=True)
class Spot:
    """Where a replica is: its host, the ports at which it listens or did, and those of the other
    replicas on the same machine. What is left there of a machine's list is its first one's."""

    host: HostSettings
    ports: frozenset[int] = frozenset()
    others: frozenset[int] = frozenset()

    def has(self, port: int | None) -> bool:
        """Whether what listens at a port of the machine is this replica."""
        return port in self.ports or (self.host.replica == 1 and port not in self.others)


class Routing:
    """A profile's router and its list of replicas, shared by the workers of a run."""

    def __init__(self, profile: Profile) -> None:
        program = engine(profile)
        assert program is not None and profile.router is not None
        self._profile, self._program, self._settings = profile, program, profile.router
        self._host = profile.router_host
        self._connected: Connected | None = None
        self._opening, self._changing = threading.Lock(), threading.Lock()

    @classmethod
    def of(cls, profile: Profile) -> Routing | None:
        """The router that deployctl manages; None where there is none."""
        return cls(profile) if engine(profile) is not None else None

    def close(self) -> None:
        """End the connection to the router's host."""
        with self._opening:
            if self._connected is not None:
                self._connected.close()
                self._connected = None

    def leave(self, spot: Spot, last: bool = False) -> list[str]:
        """Send this replica no further requests; the URLs that were taken out. Raises `HostError`
        where no other replica would be left to answer, unless it may be the `last`."""
        with self._changing:
            found, host = self._replicas(), spot.host
            own = [url for url in found if self._is_of(url, spot)]
            others = {url: healthy for url, healthy in found.items() if url not in own}
            alone = len(self._profile.heads) == 1 or last
            if own and not alone and not any(others.values()):
                raise HostError(
                    host.name,
                    "no other replica answers: without this one nothing would serve",
                    f"the router on {self._host.name} lists "
                    + (", ".join(f"{url} as unhealthy" for url in others) or "no other"),
                    "bring another replica up first: deployctl up --host NAME",
                )
            self._keep(others)
            for url in own:
                self._ask(self._program.remove(url))
            return own

    def drop(self, spot: Spot) -> list[str]:
        """Take out a replica that does not serve; the URLs that were taken out."""
        with self._changing:
            found = self._replicas()
            own = [url for url in found if self._is_of(url, spot)]
            if own:
                self._keep([url for url in found if url not in own])
            for url in own:
                self._ask(self._program.remove(url))
            return own

    def join(self, spot: Spot, unit: UnitState) -> dict[str, Any] | None:
        """Send requests to what serves as this replica, and wait until the router finds it healthy:
        its URL, and what was wrong before. None where all was well."""
        at, host = urlsplit(listens_at(unit) or ""), spot.host
        port = at.port or self._profile.of_replica(host).serve.port
        url = replica_url(self._profile, host, port)
        with self._changing:
            found = self._replicas()
            stale = [one for one in found if self._is_of(one, spot) and one != url]
            if url in found and self._is_cut_off(url):
                stale.append(url)
            for one in stale:
                self._ask(self._program.remove(one))
            known = {one for one in found if one not in stale}
            if url not in known:
                self._add(host, url)
            if self._kept() != {*known, url}:
                self._keep((*known, url))
        healthy = self._until_healthy(host, url)
        if url in known and not stale:
            return None
        return {"replica": url, "removed": stale, "healthy": healthy}

    # -- inside ------------------------------------------------------------------------------

    @property
    def _session(self) -> Session:
        with self._opening:
            if self._connected is None:
                self._connected = cancel.abandonable(lambda: connect(self._host), Connected.close)
            return self._connected.session

    def _is_of(self, url: str, spot: Spot) -> bool:
        """Whether a URL is this replica's: each host has an address of its own."""
        own = urlsplit(replica_url(self._profile, spot.host, self._profile.serve.port))
        asked = urlsplit(url)
        return asked.hostname == own.hostname and spot.has(asked.port)

    def _add(self, host: HostSettings, url: str) -> None:
        answer = self._ask(self._program.add(url), timeout=ADDING)
        if answer["status"] is None or not self._program.added(answer["status"], answer["body"]):
            raise HostError(
                host.name,
                f"the router on {self._host.name} did not take the replica {url}",
                answer["error"] or f"HTTP {answer['status']}: {answer['body'][:500]}",
                "check that the router's host reaches this address and port, then: deployctl up",
            )

    def _until_healthy(self, host: HostSettings, url: str) -> float:
        """Wait until the router sends it requests; seconds."""
        began = time.monotonic()
        while not self._replicas().get(url):
            if time.monotonic() - began > ADDING:
                raise HostError(
                    host.name,
                    f"the router on {self._host.name} finds the replica {url} unhealthy",
                    f"for {ADDING:g} s; it serves, and has passed its gates",
                    f"check that {self._host.name} reaches this address and port: deployctl up",
                )
            cancel.sleep(POLL)
        return round(time.monotonic() - began, 2)

    def _replicas(self) -> Mapping[str, bool]:
        answer = self._ask(self._program.listing)
        try:
            if answer["status"] != 200:
                raise ValueError(answer["error"] or f"HTTP {answer['status']}")
            return self._program.replicas(answer["body"])
        except ValueError as error:
            raise HostError(
                self._host.name,
                f"the router does not tell its replicas at {router_url(self._settings)}",
                str(error),
                f"see why: deployctl logs --profile {self._profile.name} --host {self._host.name}"
                " --unit router; deployctl up starts it again",
            ) from None

    def _is_cut_off(self, url: str) -> bool:
        """Whether it gets no requests because of earlier errors; false where that is unknown."""
        metrics = f"http://127.0.0.1:{self._settings.metrics_port}/metrics"
        answer = self._session.call(network.http, method="GET", url=metrics)
        return answer["status"] == 200 and self._program.cut_off(answer["body"], url)

    def _kept(self) -> set[str]:
        """The replicas with which it would start."""
        return {*self._file().get("replicas", ())}

    def _file(self) -> dict[str, Any]:
        answer = self._session.call(files.read, path=router_file(self._profile.name))
        found: dict[str, Any] = json.loads(answer["text"] or "{}") if answer["exists"] else {}
        return found

    def _keep(self, replicas: Iterable[str]) -> None:
        """Have it start with these replicas the next time."""
        found = self._file()
        if not found:
            return  # another one than ours answers
        text = json.dumps({**found, "replicas": sorted(replicas)}) + "\n"
        self._session.call(files.write, path=router_file(self._profile.name), text=text)

    def _ask(self, request: Request, timeout: float = 5.0) -> HttpAnswer:
        """An answer of the router; one that is being started again is waited for."""
        url = f"{router_url(self._settings)}{request.path}"
        call = Call(network.http, method=request.method, url=url, timeout=timeout)
        end = time.monotonic() + PATIENCE
        while True:
            answer = self._session.follow(call, None)
            if answer["status"] is not None or time.monotonic() > end:
                return answer
            cancel.sleep(POLL)
