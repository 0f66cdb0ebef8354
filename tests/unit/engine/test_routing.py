"""A router's list over a run, with a router of which only the answers are there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from deployctl.agent.wire.answers import HttpAnswer, UnitState
from deployctl.config.profile import Profile
from deployctl.engine.run.routing import Routing, Spot
from deployctl.errors import HostError
from deployctl.steps.routers.interface import Request
from tests.unit.config.test_routed import profile

A, B, C = "http://127.0.0.1:8123", "http://b.example:8123", "http://10.0.0.3:8123"


class InMemory(Routing):
    """A stand-in for the router behind its requests: a list, whose replicas answer or do not."""

    def __init__(self, wanted: Profile, listed: dict[str, bool], open: Iterable[str] = ()) -> None:
        super().__init__(wanted)
        self.list, self.open, self.kept = dict(listed), {*open}, {*listed}
        self.answers = True

    def _ask(self, request: Request, timeout: float = 5.0) -> HttpAnswer:
        where = urlsplit(request.path)
        url = parse_qs(where.query).get("url", [""])[0]
        body, status = "", 200
        if where.path == "/workers":
            workers = [{"url": one, "is_healthy": well} for one, well in self.list.items()]
            body = json.dumps({"workers": workers})
        elif where.path == "/remove_worker":
            self.list.pop(url, None)
            self.open.discard(url)
        elif not self.answers:
            status, body = 503, "timed out"
        else:
            self.list[url] = True
        return {"status": status, "body": body, "error": None, "seconds": 0.0}

    def _is_cut_off(self, url: str) -> bool:
        return url in self.open

    def _kept(self) -> set[str]:
        return self.kept

    def _keep(self, replicas: Iterable[str]) -> None:
        self.kept = {*replicas}


def unit(port: int = 8123) -> UnitState:
    found: Any = {"state": "running", "argv": ["vllm", "--host", "0.0.0.0", "--port", str(port)]}
    return found  # type: ignore[no-any-return]


WANTED = profile(router={"port": 9000})
HOSTS = {host.name: Spot(host) for host in WANTED.hosts}


def test_who_leaves_is_not_started_with_again() -> None:
    router = InMemory(WANTED, {A: True, B: True, C: False})
    assert router.leave(HOSTS["a"]) == [A]
    assert router.list == {B: True, C: False} and router.kept == {B, C}
    assert router.leave(HOSTS["a"]) == []


@pytest.mark.parametrize("others", [{}, {B: False}, {B: False, C: False}])
def test_the_last_that_answers_does_not_leave(others: dict[str, bool]) -> None:
    router = InMemory(WANTED, {A: True, **others})
    with pytest.raises(HostError, match="no other replica answers"):
        router.leave(HOSTS["a"])
    assert router.list == {A: True, **others}
    # What is to end altogether may.
    assert router.leave(HOSTS["a"], last=True) == [A]


def test_an_only_replica_leaves() -> None:
    alone = profile(router={"port": 9000}, hosts=[{"name": "a", "local": True}])
    assert InMemory(alone, {A: True}).leave(Spot(alone.hosts[0])) == [A]


def test_what_serves_joins_once() -> None:
    router = InMemory(WANTED, {A: True})
    assert router.join(HOSTS["b"], unit()) == {"replica": B, "removed": [], "healthy": 0.0}
    assert router.kept == {A, B}
    assert router.join(HOSTS["b"], unit()) is None


def test_another_port_takes_the_place_of_the_one_before() -> None:
    router, moved = InMemory(WANTED, {A: True, B: True}), "http://b.example:9123"
    joined = router.join(HOSTS["b"], unit(9123))
    assert joined is not None and (joined["replica"], joined["removed"]) == (moved, [B])
    assert {*router.list} == router.kept == {A, moved}


def test_one_that_gets_no_requests_after_errors_is_added_again() -> None:
    router = InMemory(WANTED, {A: True, B: True}, open=[B])
    joined = router.join(HOSTS["b"], unit())
    assert joined is not None and joined["removed"] == [B]
    assert router.list == {A: True, B: True} and not router.open


def test_a_list_to_start_with_that_lacks_one_is_completed() -> None:
    router = InMemory(WANTED, {A: True, B: True})
    router.kept = {A}
    assert router.join(HOSTS["b"], unit()) is None
    assert router.kept == {A, B}


def test_a_replica_that_is_not_taken_is_its_hosts_failure() -> None:
    router = InMemory(WANTED, {A: True})
    router.answers = False
    with pytest.raises(HostError, match="did not take the replica") as caught:
        router.join(HOSTS["b"], unit())
    assert caught.value.host == "b" and "503" in caught.value.why
    assert router.kept == {A}


def test_what_does_not_serve_is_taken_out() -> None:
    router = InMemory(WANTED, {A: True, B: False})
    assert router.drop(HOSTS["b"]) == [B] and router.kept == {A}
    assert router.drop(HOSTS["b"]) == []


SEVERAL = profile(router={"port": 9000}, replicas={"per_host": 2}).spread()
B2 = "http://b.example:8124"


def test_a_replica_has_its_ports_on_its_host_and_the_first_what_is_left() -> None:
    first, second = (host for host in SEVERAL.hosts if host.machine == "b")
    of_second = Spot(second, frozenset({8124, 8200}), frozenset({8123}))
    router = InMemory(SEVERAL, {B: True, B2: True, "http://b.example:8200": True})
    assert router.leave(of_second) == [B2, "http://b.example:8200"] and {*router.list} == {B}
    joined = router.join(of_second, unit(8124))
    assert joined is not None and joined["replica"] == B2
    of_first = Spot(first, frozenset({8123}), frozenset({8124}))
    router = InMemory(SEVERAL, {B: True, B2: True, "http://b.example:7000": False})
    assert router.leave(of_first) == [B, "http://b.example:7000"]
    assert router.kept == {B2}
