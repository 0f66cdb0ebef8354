"""Jobs in a real container whose PID 1 is systemd: what ends a login or a service spares them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from deployctl.config.host import HostSettings
from deployctl.errors import ConnectionLost, RemoteError
from deployctl.hosts.session import Session
from deployctl.hosts.transports import transport
from tests.hosts.builds.waiting import until
from tests.hosts.lab.machines import Container
from tests.hosts.lab.network import Lab

# They share a container, which boots.
pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("jobs systemd")]
LOGIN = "login.scope"
"""What the agent runs in, as in the scope of a login."""
PYTHON = "/usr/local/bin/python-in-a-login"
LAUNCHER = f"""#!/bin/sh
exec /usr/bin/systemd-run --scope --collect --quiet --unit={LOGIN} -- python3 "$@"
"""
SYSTEMD_RUN = "/usr/local/sbin/systemd-run"
"""Before the real one in PATH."""
ROOT = "/var/lib/deployctl-jobs"
FINISH = f"{ROOT}/finish"
WORK = f"""
setsid sleep 300 &
env -i /usr/bin/setsid /bin/sleep 300 &
mkfifo {FINISH}
read word <{FINISH}
"""
"""A child in a session of its own, one that dropped the job's mark as well, and one that stays."""


@pytest.fixture(scope="module")
def container(whole_lab: Lab) -> Iterator[Container]:
    container = whole_lab.make_systemd_container(whole_lab.h2, 132)
    container.start()
    write(container, PYTHON, LAUNCHER)
    yield container
    container.stop()


@pytest.fixture
def session(lab: Lab, container: Container) -> Iterator[Session]:
    """An agent apart from those that the tests end."""
    with reach(container, python="python3") as session:
        yield session
        for job in session.call("jobs.listing"):
            session.call("jobs.stop", id=job["id"], grace=0.5)
    container.run("rm", "-rf", ROOT)


def reach(container: Container, python: str = PYTHON) -> Session:
    host = HostSettings(**container.host_settings())
    return Session(transport(host), root=ROOT, python=python)


def write(container: Container, path: str, text: str) -> None:
    container.run("sh", "-c", f"printf %s {shlex.quote(text)} >{path} && chmod 755 {path}")


@contextmanager
def replaced(container: Container, text: str) -> Iterator[None]:
    write(container, SYSTEMD_RUN, text)
    try:
        yield
    finally:
        container.run("rm", SYSTEMD_RUN)


def start(session: Session, text: str = WORK, id: str = "build") -> dict[str, Any]:
    steps = [{"phase": "work", "argv": ["sh", "-c", text]}]
    found: dict[str, Any] = session.call("jobs.start", id=id, steps=steps)
    return found


def state(session: Session) -> dict[str, Any]:
    found: dict[str, Any] = session.call("jobs.state", id="build")
    return found


def members(session: Session) -> list[int]:
    """The supervisor, the shell and the two beside it, once they are there."""
    found: list[int] = until(lambda: m if len(m := state(session)["members"]) == 4 else None)
    return found


def groups(container: Container, pid: int) -> str:
    return container.run("cat", f"/proc/{pid}/cgroup", check=False).stdout


def loaded(container: Container, unit: str) -> bool:
    shown = container.run("systemctl", "show", unit, "--property=LoadState", check=False).stdout
    return "not-found" not in shown


def end_the_login(container: Container, session: Session) -> None:
    assert LOGIN in groups(container, session.agent["pid"])
    container.run("systemctl", "stop", LOGIN)
    with pytest.raises(ConnectionLost):
        session.call("jobs.listing")


def test_it_outlives_the_end_of_the_login_that_started_it(
    container: Container, session: Session
) -> None:
    with reach(container) as login:
        begun = start(login)
        scope = begun["scope"]
        assert scope.startswith("deployctl-job-build-") and begun["unscoped"] == ""
        pids = members(login)
        for pid in pids:
            assert f"/{scope}\n" in groups(container, pid) and LOGIN not in groups(container, pid)
        end_the_login(container, login)
    after = state(session)
    assert (after["state"], after["pid"], after["scope"]) == ("running", begun["pid"], scope)
    assert begun["pid"] in pids and sorted(after["members"]) == sorted(pids)
    container.run("sh", "-c", f"echo >{FINISH}")
    assert session.call("jobs.follow", id="build")["state"] == "done"
    until(lambda: not state(session)["members"] and not loaded(container, scope))


def test_stop_ends_all_of_it_and_its_scope(container: Container, session: Session) -> None:
    scope = start(session)["scope"]
    pids = members(session)
    assert loaded(container, scope)
    stopped = session.call("jobs.stop", id="build", grace=0.5)
    assert (stopped["state"], stopped["members"]) == ("stopped", [])
    for pid in pids:
        assert scope not in groups(container, pid)
    until(lambda: not loaded(container, scope))


def test_a_killed_supervisor_leaves_nothing_to_the_next_run(
    container: Container, session: Session
) -> None:
    begun = start(session)
    pids = members(session)
    container.run("kill", "-KILL", str(begun["pid"]))
    until(lambda: state(session)["state"] == "lost" and len(state(session)["members"]) == 3)
    assert loaded(container, begun["scope"])
    again = start(session, "true")
    assert session.call("jobs.follow", id="build")["state"] == "done"
    assert not any(begun["scope"] in groups(container, pid) for pid in pids)
    assert again["scope"] not in (None, begun["scope"])
    until(lambda: not loaded(container, begun["scope"]))


def test_every_run_in_quick_succession_has_a_scope(session: Session) -> None:
    scopes = []
    for _ in range(5):
        scopes.append(start(session, "true")["scope"])
        assert session.call("jobs.follow", id="build")["state"] == "done"
    assert len(set(scopes)) == 5 and None not in scopes


def test_the_longest_id_has_a_scope(session: Session) -> None:
    longest = "a" + "._-Zz9" * 20
    assert longest in start(session, "true", longest)["scope"]
    assert session.call("jobs.follow", id=longest)["state"] == "done"


def test_where_systemd_run_refuses_it_starts_as_elsewhere(
    container: Container, session: Session
) -> None:
    refusal = "Failed to start transient scope unit: no bus"
    with (
        replaced(container, f"#!/bin/sh\necho '{refusal}' >&2\nexit 1\n"),
        reach(container) as login,
    ):
        begun = start(login)
        assert (begun["state"], begun["scope"]) == ("running", None)
        assert begun["unscoped"] == f"systemd-run: {refusal}"
        # It says so because it matters: this one is in the login's group and ends with it.
        assert LOGIN in groups(container, begun["pid"])
        end_the_login(container, login)
    # Asked to stop, or failed by what became of its step: everyone was signalled at once.
    until(lambda: state(session)["state"] in ("stopped", "failed"))


def test_a_supervisor_that_had_begun_is_not_started_twice(
    container: Container, session: Session
) -> None:
    # It records that it runs and then fails to say so: nobody can tell how far it came.
    deaf = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@" >&-\n'
    with replaced(container, deaf), pytest.raises(RemoteError) as refused:
        start(session, "touch ran")
    assert refused.value.kind == "not-started"
    assert state(session)["state"] == "lost"
    assert container.run("test", "-e", f"{ROOT}/ran", check=False).returncode == 1


def test_without_systemd_run_it_starts_as_elsewhere(container: Container, session: Session) -> None:
    container.run("mv", "/usr/bin/systemd-run", "/usr/bin/systemd-run.away")
    try:
        begun = start(session, "true")
    finally:
        container.run("mv", "/usr/bin/systemd-run.away", "/usr/bin/systemd-run")
    assert (begun["scope"], begun["unscoped"]) == (None, "there is no systemd-run")
    assert session.call("jobs.follow", id="build")["state"] == "done"
