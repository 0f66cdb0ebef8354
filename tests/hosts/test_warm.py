"""A server that waits beside what serves: real processes under the agent's own supervisors."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployctl.errors import RemoteError
from deployctl.hosts.session import Session
from tests.hosts.lab.processes import is_alive, send
from tests.hosts.test_units import SERVER, UNIT, local, start, state, until

LAUNCHER = Path(__file__).with_name("warm_stand_in.py").read_text("utf-8")
SECRET = {"SECRET": "a secret of the server"}
NEXT = "profiles/toy/units/server/next"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local(tmp_path) as session:
        yield session
        session.call("units.stop", **UNIT, grace=1)


def warm(session: Session, *words: str, **more: Any) -> dict[str, Any]:
    given = {"argv": [*SERVER, *words], "release": "r2", "supervisor": "agent", "grace": 2}
    given |= {"secrets": SECRET, "launcher": LAUNCHER, "python": sys.executable, **more}
    found: dict[str, Any] = session.call("units.warm", **UNIT, **given)
    return found


def second(session: Session, *words: str, **more: Any) -> dict[str, Any]:
    return start(session, *words, **{"release": "r2", "secrets": SECRET, **more})


def supervisor(root: Path) -> int:
    record = json.loads((root / NEXT / "record.json").read_text())
    pid: int = record["supervisor"]["pid"]
    return pid


def test_what_waits_serves_once_the_word_comes(session: Session, tmp_path: Path) -> None:
    first = start(session, secrets=SECRET)
    warmed = warm(session, "say=1")
    now = state(session)
    # What serves is as it was, and nothing counts as a second server.
    assert (now["pid"], now["release"], now["state"]) == (first["pid"], "r1", "running")
    assert warmed["pid"] not in [m["pid"] for m in now["members"]]
    assert now["waits"] == {"pid": warmed["pid"], "start": warmed["start"], "release": "r2"}
    assert list(session.call("units.listing", profile="toy")) == ["server"]
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / NEXT).iterdir()}
    assert modes["word"] == modes["secrets.json"] == modes["spec.json"] == 0o600

    session.call("units.stop", **UNIT, grace=1, spare=True)
    second(session, "say=1")
    served = state(session)
    assert (served["pid"], served["start"]) == (warmed["pid"], warmed["start"])
    assert (served["state"], served["release"], served["supervised"]) == ("running", "r2", True)
    assert served["argv"] == [*SERVER, "say=1"] and served["waits"] is None
    assert served["warm"]["method"] == "spawn" and served["warm"]["seconds"] == 0.1
    log = until(
        "its log",
        lambda: t if "serving" in (t := session.call("units.log", **UNIT)["text"]) else "",
    )
    assert "warming" in log and SECRET["SECRET"] not in log
    assert not {"spec.json", "secrets.json", "word"} & {p.name for p in (tmp_path / NEXT).iterdir()}


def test_a_restart_by_the_supervisor_is_a_plain_start(session: Session) -> None:
    warmed = warm(session)
    second(session)
    session.call("units.keep", **UNIT, pid=warmed["pid"], start=warmed["start"])
    send(warmed["pid"], signal.SIGKILL)
    again = until(
        "its restart",
        lambda: s if (s := state(session))["restarts"] and s["state"] == "running" else None,
    )
    assert again["pid"] != warmed["pid"] and again["warm"] is None
    until("its words", lambda: "secret True" in session.call("units.log", **UNIT)["text"])


def test_the_next_one_is_warmed_while_a_warm_one_serves(session: Session) -> None:
    warm(session)
    first = second(session)
    warmed = warm(session, release="r3")
    assert state(session)["pid"] == first["pid"]
    session.call("units.stop", **UNIT, grace=1, spare=True)
    assert second(session, release="r3")["pid"] == warmed["pid"]


@pytest.mark.parametrize(
    ("words", "more", "why"),
    [
        ((), {"release": "r3"}, "it waits for another start: release"),
        (("say=1",), {}, "it waits for another start: argv"),
        ((), {"secrets": {"SECRET": "another one"}}, "it waits for another start: secrets"),
    ],
)
def test_what_waits_for_another_start_ends(
    session: Session, words: tuple[str, ...], more: dict[str, Any], why: str
) -> None:
    warmed = warm(session)
    begun = second(session, *words, **more)
    assert begun["plain"] == why and begun["pid"] != warmed["pid"]
    assert begun["state"] == "running" and begun["warm"] is None
    assert not is_alive(warmed["pid"])


@pytest.mark.parametrize("word", ["deaf", "dies"])
def test_what_does_not_serve_at_the_word_is_replaced(
    session: Session, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed = warm(session, word)
    begun = second(session, word)
    assert begun["state"] == "running" and begun["pid"] != warmed["pid"]
    assert begun["plain"] in ("it did not hear the word", "it ended at the word")
    assert not is_alive(warmed["pid"])


def test_what_cannot_be_warmed_says_why_and_leaves_nothing(
    session: Session, tmp_path: Path
) -> None:
    first = start(session)
    with pytest.raises(RemoteError, match="it ended while it was warmed") as caught:
        warm(session, "warm-fails")
    assert "no module named torch" in caught.value.detail
    assert SECRET["SECRET"] not in caught.value.detail
    with pytest.raises(RemoteError, match="it waited for too long"):
        warm(session, "warm-hangs", patience=0.5)
    with pytest.raises(RemoteError, match="MiB of memory are available") as caught:
        warm(session, need=1 << 60)
    assert caught.value.kind == "little-memory"
    assert state(session)["pid"] == first["pid"] and state(session)["waits"] is None
    assert not (tmp_path / NEXT / "secrets.json").exists()


def test_it_ends_when_its_time_is_over_whoever_began_it(tmp_path: Path) -> None:
    with local(tmp_path) as first:
        warmed = warm(first, limit=0.5)
    until("its end", lambda: not is_alive(warmed["pid"]))
    with local(tmp_path) as session:
        assert second(session)["plain"] == "it waited for too long"
        session.call("units.stop", **UNIT, grace=1)


def test_it_ends_with_its_supervisor_with_its_folder_and_with_a_stop(
    session: Session, tmp_path: Path
) -> None:
    pid = warm(session)["pid"]
    send(supervisor(tmp_path), signal.SIGKILL)
    until("its end", lambda: not is_alive(pid))
    pid = warm(session)["pid"]
    (tmp_path / NEXT / "spec.json").unlink()
    until("its end", lambda: not is_alive(pid))
    pid = warm(session)["pid"]
    session.call("units.stop", **UNIT, grace=1)
    assert not is_alive(pid)
