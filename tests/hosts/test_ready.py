"""Every outcome of a start, from real processes that behave like the servers of the field."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deployctl.errors import NotReady
from deployctl.steps.interface import Answers, Context, Deployment, Evidence
from deployctl.steps.launch import LaunchStep
from deployctl.steps.ready import ReadyStep
from tests.hosts.lab.ports import free_port
from tests.hosts.lab.processes import is_alive
from tests.hosts.step_bench import Bench, deployment
from tests.hosts.test_units import SERVER, until

STAND_IN = [sys.executable, str(Path(__file__).with_name("http_stand_in.py"))]
NAME = "toy"


class Start:
    """One unit started by hand, and the steps `launch` and `ready` looking at it."""

    def __init__(self, root: Path, **serve: Any) -> None:
        self.port = free_port()
        self.settings = {"port": self.port, **serve}
        self.bench = Bench.at(root, self.wanted(completion="60s", stall="60s"))
        self.session = self.bench.session
        self.answers: Answers | None = None
        """What was asked before the start, as in a run: a question is a completion of its own."""

    def wanted(self, **ready: str) -> Deployment:
        return deployment({"serve": {**self.settings, "ready": ready}, "drafter": None})

    def hurry(self, **ready: str) -> None:
        """From now on it is given up soon."""
        self.bench.wanted = self.wanted(**ready)

    def unit(self, *argv: str, release: str = "") -> dict[str, Any]:
        self.answers = self.bench.ask(ReadyStep(), LaunchStep())
        started: dict[str, Any] = self.session.call(
            "units.start",
            profile=NAME,
            unit="server",
            argv=list(argv),
            release=release or self.context().release.release,
            supervisor="agent",
            grace=1,
        )
        return started

    def serve(self, *words: str, **more: Any) -> dict[str, Any]:
        return self.unit(*STAND_IN, str(self.port), *words, **more)

    def context(self) -> Context:
        answers = self.answers or self.bench.ask(ReadyStep(), LaunchStep())
        return self.bench.context(answers, f"http://127.0.0.1:{self.port}")

    def prove(self) -> Evidence:
        return ReadyStep().prove(self.context())

    def refused(self) -> NotReady:
        with pytest.raises(NotReady) as found:
            self.prove()
        return found.value

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self.session.call("units.state", profile=NAME, unit="server")
        return found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    start = Start(tmp_path)
    with start.session:
        yield start
        start.session.call("units.stop", profile=NAME, unit="server", grace=1)


@pytest.fixture
def old_server(start: Start) -> Iterator[subprocess.Popen[bytes]]:
    """A server from before that answers everything, on the same port and under the same name."""
    server = subprocess.Popen([*STAND_IN, str(start.port), "generate"], stdout=subprocess.DEVNULL)

    def listens() -> bool:
        return bool(start.session.call("network.listener", port=start.port)["listening"])

    until("the old server", listens)
    yield server
    server.kill()
    server.wait()


def test_ready_means_a_completion_from_what_was_started(start: Start) -> None:
    unit = start.serve("generate")
    evidence = start.prove()
    assert evidence["pid"] == unit["pid"] and evidence["started"] == unit["started"]
    assert evidence["completion"]["tokens"] == 4
    assert "serving" in evidence["phases"]
    assert start.state()["kept"]
    plan = ReadyStep().plan(start.bench.wanted, start.bench.ask(ReadyStep()))
    assert plan.status == "unchanged" and plan.evidence["pid"] == unit["pid"]


def test_the_old_server_answers_in_its_place(
    start: Start, old_server: subprocess.Popen[bytes]
) -> None:
    """Case 11: the new one says that it started, then fails to bind, and the old one answers."""
    start.serve("late-bind")
    failure = start.refused()
    assert f"port {start.port} is held by pid {old_server.pid}" in failure.thing
    assert "started 20" in failure.thing
    assert old_server.poll() is None
    assert start.state()["members"] == []


def test_the_old_server_answers_after_the_new_one_died(
    start: Start, old_server: subprocess.Popen[bytes]
) -> None:
    start.serve("generate")
    until("its end", lambda: start.state()["state"] == "failed")
    failure = start.refused()
    assert f"held by pid {old_server.pid}" in failure.thing
    assert "Errno 98" in failure.why


def test_a_process_that_dies(start: Start) -> None:
    start.unit(*SERVER, "seconds=0.5", "exit=3")
    failure = start.refused()
    assert "the server ended: failed, status 3" in failure.thing


def test_status_0_before_anybody_asked(start: Start) -> None:
    start.unit(*SERVER, "seconds=0.5", "exit=0")
    assert "status 0 before any request" in start.refused().thing


def test_a_start_that_hangs(start: Start) -> None:
    unit = start.unit(*SERVER, "seconds=600", "leave-orphan")
    start.hurry(stall="3s")
    failure = start.refused()
    assert "it hangs in phase starting: 3 s without a new phase or work of its own" in failure.thing
    assert not is_alive(unit["pid"]) and start.state()["members"] == []


@pytest.mark.parametrize("status", [500, 404, 401])
def test_answers_to_our_own_questions_are_no_progress(start: Start, status: int) -> None:
    """Found: with the access log on, `stall: 8s` did not fire in 199 s."""
    start.serve("generate", f"sick-{status}")
    start.hurry(stall="2s")
    failure = start.refused()
    assert f"(/health answers {status}): 2 s without a new phase or work" in failure.thing


def test_a_machine_that_stood_still_looks_again_before_it_is_a_hang(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    server = shlex.join([*STAND_IN, str(start.port), "generate"])
    start.unit("sh", "-c", f"until [ -e {go} ]; do sleep 0.2; done; exec {server}")
    stood_still = 0.0

    def overslept(seconds: float) -> None:
        nonlocal stood_still
        stood_still = 600.0
        time.sleep(seconds)
        go.touch()

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + stood_still)
    monkeypatch.setattr("deployctl.steps.servers.readiness.time", clock)
    monkeypatch.setattr("deployctl.steps.servers.readiness.cancel.sleep", overslept)
    assert start.prove()["completion"]["tokens"] == 4


def test_an_answer_ends_the_pause_between_two_looks(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployctl.steps.servers.readiness.POLL", 3600.0)
    server = shlex.join([*STAND_IN, str(start.port), "generate"])
    start.unit("sh", "-c", f"sleep 0.5; exec {server}")
    assert start.prove()["completion"]["tokens"] == 4


def test_silence_is_no_hang_while_it_works(tmp_path: Path) -> None:
    start = Start(tmp_path)
    with start.session:
        start.unit(sys.executable, "-c", "while True: pass")
        start.hurry(stall="4s", limit="8s")
        assert "not ready within 8 s" in start.refused().thing


def test_200_everywhere_and_nothing_generated(start: Start) -> None:
    start.serve("silent")
    start.hurry(completion="2s", stall="60s")
    failure = start.refused()
    assert "it listens and generates nothing" in failure.thing
    assert start.state()["state"] == "stopped"


def test_an_answer_without_tokens(start: Start) -> None:
    start.serve("empty")
    assert "generates nothing: no tokens came back" in start.refused().thing


def test_an_answer_that_counts_no_tokens_is_judged_by_its_text(start: Start) -> None:
    start.serve("generate", "no-usage")
    assert start.prove()["completion"]["tokens"] is None


def test_a_server_that_ends_with_our_request_was_asked(start: Start) -> None:
    start.serve("ends")
    assert "status 0 after a request of ours" in start.refused().thing


def test_an_engine_that_dies_with_the_first_request(start: Start) -> None:
    start.serve("broken")
    failure = start.refused()
    assert failure.evidence["cause"] == "layer-ids"
    assert "the drafter reads layers that the target does not have" in failure.thing
    assert "target_layer_ids" in failure.next


def test_an_engine_that_is_dead_behind_a_live_server(start: Start) -> None:
    start.serve("engine-dead")
    assert "the engine died behind a live API server" in start.refused().thing


def test_another_model_is_served(start: Start) -> None:
    start.serve("generate", "other-name")
    assert "it serves another, not tiny" in start.refused().thing


def test_an_api_key_is_missing(start: Start) -> None:
    start.serve("generate", "key")
    failure = start.refused()
    assert "wants an API key" in failure.thing and "serve.api_key" in failure.next


def test_an_api_key_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_KEY", "open")
    start = Start(tmp_path, api_key={"env": "TOY_KEY"})
    with start.session:
        start.serve("generate", "key")
        assert start.prove()["completion"]["tokens"] == 4
        plan = ReadyStep().plan(start.bench.wanted, start.bench.ask(ReadyStep()))
        assert plan.status == "unchanged"
        start.session.call("units.stop", profile=NAME, unit="server")


def test_another_release_runs(start: Start) -> None:
    start.serve("generate", release="other")
    assert "the unit runs another release, other" in start.refused().thing


def test_a_server_that_was_proven_is_not_stopped_for_one_slow_answer(start: Start) -> None:
    unit = start.serve("generate")
    start.prove()
    start.hurry(stall="3s")
    os.kill(unit["pid"], signal.SIGSTOP)
    try:
        failure = start.refused()
        assert failure.evidence["stopped"] is None
        assert is_alive(unit["pid"])
    finally:
        os.kill(unit["pid"], signal.SIGCONT)
