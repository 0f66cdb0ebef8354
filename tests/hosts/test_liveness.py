"""A host that goes away in the middle, in every way a network and a machine can."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from deployctl.config.host import HostSettings
from deployctl.errors import (
    AccessRefused,
    ChangedHostKey,
    ConnectionLost,
    HostError,
    UnknownHostKey,
    Unreachable,
)
from deployctl.hosts.session import Limits, Session
from deployctl.hosts.transports import transport
from tests.hosts.lab import processes
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.network import Lab
from tests.hosts.lab.stand_in import PATIENT

pytestmark = pytest.mark.lab
QUICK = Limits(start=60, ping=0.3, dead=6, silence=60)
TIMELY = 50.0
"""Seconds, however busy this machine is: TCP itself gives nobody up for minutes."""


def reach(settings: dict[str, object], limits: Limits = QUICK) -> Session:
    host = HostSettings.model_validate(settings)
    return Session(transport(host), root=host.root, limits=limits)


@pytest.fixture
def session(lab: Lab) -> Iterator[Session]:
    session = reach(lab.h2.host_settings())
    yield session
    session.close()


def loss(session: Session, harm: Callable[[], None]) -> tuple[ConnectionLost, float]:
    """What a request in flight ends with, and how long after a moment that is not later than the
    last sign of life."""
    waiting = session.stream("files.put", path="@/x", size=1, sha256="0")
    began = time.monotonic()
    session.call("network.listener", port=1)
    harm()
    with pytest.raises(ConnectionLost) as caught:
        waiting.result()
    return caught.value, time.monotonic() - began


@pytest.mark.parametrize("how", ["drop", "link"])
def test_a_link_that_is_cut(lab: Lab, session: Session, how: Literal["drop", "link"]) -> None:
    error, seconds = loss(session, lambda: lab.h2.cut(how))
    assert QUICK.dead <= seconds < TIMELY
    assert "stopped answering" in error.what and "same command again" in error.next


def test_a_connection_that_is_reset(lab: Lab, session: Session) -> None:
    error, seconds = loss(session, lambda: lab.h2.cut("reset"))
    assert seconds < TIMELY
    assert error.host == "h2"


def test_a_host_that_hangs(lab: Lab, session: Session) -> None:
    error, seconds = loss(session, lab.h2.freeze)
    assert QUICK.dead <= seconds < TIMELY
    assert "stopped answering" in error.what


def test_a_session_that_is_killed(lab: Lab) -> None:
    with reach(lab.h2.host_settings(), PATIENT) as session:
        error, seconds = loss(session, lab.h2.kill_sessions)
        assert seconds < TIMELY < PATIENT.dead
        assert "connection to the agent ended" in error.what


def test_a_container_that_is_frozen(lab: Lab) -> None:
    with reach(lab.container.host_settings()) as session:
        error, seconds = loss(session, lab.container.freeze)
        assert QUICK.dead <= seconds < TIMELY
        assert error.host == "ct129"


def test_a_container_that_is_stopped(lab: Lab) -> None:
    with reach(lab.container.host_settings(), PATIENT) as session:
        error, seconds = loss(session, lab.container.stop)
        assert seconds < TIMELY < PATIENT.dead
        assert "connection to the agent ended" in error.what


def test_closing_over_a_dead_link_does_not_hang(lab: Lab) -> None:
    session = reach(lab.h2.host_settings(), Limits(start=60, ping=60, dead=60))
    # Fill the link, so that even a polite word would have to wait behind the rest.
    lab.h2.cut("drop")
    filling = threading.Thread(target=_ignore_loss, args=(session,))
    filling.start()
    began = time.monotonic()
    session.close()
    filling.join(timeout=TIMELY)
    assert not filling.is_alive()
    assert time.monotonic() - began < TIMELY


def _ignore_loss(session: Session) -> None:
    with pytest.raises(ConnectionLost):
        session.call("files.write", path="@/x", text="x" * 20_000_000)


def test_an_orphaned_agent_ends_and_its_lock_falls(lab: Lab) -> None:
    orphan = reach(lab.h2.host_settings(), Limits(start=60, ping=0.3, dead=60, silence=5))
    assert orphan.call("releases.lock", profile="demo", holder={"run": "1"})
    agent = _seen_from_here(lab, orphan.agent["pid"])
    assert processes.is_alive(agent)
    lab.h2.cut("drop")
    wait_for("the end of the orphan", lambda: not processes.is_alive(agent), TIMELY)
    orphan.close()
    lab.h2.heal()
    with reach(lab.h2.host_settings()) as session:
        assert session.call("releases.lock", profile="demo", holder={"run": "2"}, wait=2)


def _seen_from_here(lab: Lab, number: int) -> int:
    """A process of h2, whose number there is another than here. Agents of earlier tests, whose
    link was cut, may still be there as well."""
    below = processes.descendants(lab.h2.pid)
    (found,) = [pid for pid in below if processes.inner_number(pid) == number]
    return found


def test_a_cut_link_cannot_be_connected(lab: Lab) -> None:
    lab.h2.cut("drop")
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"no answer from 10\.99\.0\.2 port 22 within 1 s"):
        reach(lab.h2.host_settings(connect_timeout=1))
    assert time.monotonic() - began < TIMELY


def test_a_jump_host_into_a_black_hole(lab: Lab, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host h2\n  ProxyJump h1\n" + lab.config_file.read_text())
    with reach(lab.h2.host_settings(config_file=str(config))) as session:
        assert session.agent["hostname"] == "h2"
    lab.h2.cut("drop")
    began = time.monotonic()
    what = r"no connection to 10\.99\.0\.2 port 22 through 10\.99\.0\.1"
    with pytest.raises(Unreachable, match=what):
        # The jump host has as long to answer as the black hole.
        reach(lab.h2.host_settings(config_file=str(config), connect_timeout=5))
    assert time.monotonic() - began < 2 * TIMELY


def test_a_hung_host_cannot_be_connected(lab: Lab) -> None:
    lab.h2.freeze()
    began = time.monotonic()
    with pytest.raises(Unreachable, match="does not speak SSH"):
        reach(lab.h2.host_settings(connect_timeout=1))
    assert time.monotonic() - began < TIMELY


def test_three_failures_are_three_messages(lab: Lab, tmp_path: Path) -> None:
    def failure(**changes: object) -> HostError:
        with pytest.raises(HostError) as caught:
            reach(lab.h2.host_settings(**changes))
        return caught.value

    refused = failure(user="nobody")
    unknown = failure(known_hosts=str(tmp_path / "none"))
    lab.h2.stop_sshd()
    down = failure()
    errors = [refused, unknown, down]
    assert [type(error) for error in errors] == [AccessRefused, UnknownHostKey, Unreachable]
    assert {error.exit_code for error in errors} == {4}
    assert len({error.what for error in errors}) == len({error.next for error in errors}) == 3


def test_a_machine_made_anew(lab: Lab) -> None:
    lab.h2.rekey()
    with pytest.raises(ChangedHostKey, match=r"ssh-keygen -R '10\.99\.0\.2'"):
        reach(lab.h2.host_settings(accept_new=True))


def test_after_the_link_is_healed_all_is_well(lab: Lab, session: Session) -> None:
    loss(session, lambda: lab.h2.cut("drop"))
    lab.h2.heal()
    with reach(lab.h2.host_settings()) as again:
        assert again.call("network.listener", port=22)["listening"]
