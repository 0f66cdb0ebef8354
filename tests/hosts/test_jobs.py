"""Detached jobs with real processes: they outlive everything, and end as a whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.processes.processes import read_stat
from deployctl.errors import ConnectionLost, RemoteError
from deployctl.hosts.session import Session
from deployctl.hosts.ways.local import LocalTransport
from tests.hosts.builds.host import BuildHost
from tests.hosts.builds.waiting import until
from tests.hosts.lab.files import contents


def gone(pid: int) -> bool:
    """Ended; a zombie holds nothing and waits for its parent alone."""
    stat = read_stat(pid)
    return stat is None or stat.state in "ZX"


def shell(text: str, phase: str = "work", **more: Any) -> dict[str, Any]:
    return {"phase": phase, "argv": ["sh", "-c", text], **more}


def test_steps_in_order_with_conditions(builder: BuildHost) -> None:
    call = builder.session.call
    steps = [
        shell("echo one; exit 3", "first", optional=True),
        shell("touch marker; echo $WHO $PWD", "second", env={"WHO": "@/x", "B": "c"}),
        shell("echo not run", "third", when={"glob": "@/mark*", "present": False}),
        {"phase": "fourth", "argv": ["ls", {"glob": "@/mark*"}]},
    ]
    begun = call("jobs.start", id="order", steps=steps, label={"a": 1})
    assert begun["started"] and begun["label"] == {"a": 1}
    events: list[dict[str, Any]] = []
    final = call("jobs.follow", events.append, id="order")
    assert (final["state"], final["rc"], final["members"]) == ("done", 0, [])
    assert [s["phase"] for s in final["steps"]] == ["first", "second", "fourth"]
    text = "".join(e.get("text", "") for e in events)
    assert (
        f"{builder.root}/x {builder.root}" in text and "not run" in text.split("$ ")[0] + "not run"
    )
    assert f"{builder.root}/marker" in text


def test_first_failure_ends_it_and_it_starts_anew(builder: BuildHost) -> None:
    call = builder.session.call
    steps = [shell("exit 7", "breaks"), shell("touch never", "after")]
    call("jobs.start", id="fails", steps=steps)
    final = call("jobs.follow", id="fails")
    assert (final["state"], final["rc"]) == ("failed", 7)
    assert final["why"] == "breaks ended with status 7"
    assert not (builder.root / "never").exists()
    again = call("jobs.start", id="fails", steps=[shell("true")])
    assert again["started"]
    assert call("jobs.follow", id="fails")["state"] == "done"
    assert (builder.root / "jobs/fails/log.1").exists()


def test_counters_become_fractions(builder: BuildHost) -> None:
    call = builder.session.call
    call("jobs.start", id="ninja", steps=[shell("echo '[412/980] Building x.o'; echo done")])
    events: list[dict[str, Any]] = []
    call("jobs.follow", events.append, id="ninja")
    (counter,) = [e for e in events if "fraction" in e]
    assert counter == {"fraction": 412 / 980, "detail": "412 of 980"}


def test_second_start_attaches_and_both_see_the_end(builder: BuildHost) -> None:
    flag = builder.root / "flag"
    flag.touch()
    steps = [shell(f"echo $$ >> runs; while [ -e {flag} ]; do sleep 0.05; done")]
    builder.session.call("jobs.start", id="one", steps=steps)
    ends: list[str] = []

    def another() -> None:
        with Session(LocalTransport("other"), root=str(builder.root)) as session:
            begun = session.call("jobs.start", id="one", steps=steps)
            ends.append(str(begun["started"]))
            ends.append(session.call("jobs.follow", id="one")["state"])

    thread = threading.Thread(target=another)
    thread.start()
    until(lambda: ends)
    flag.unlink()
    assert builder.session.call("jobs.follow", id="one")["state"] == "done"
    thread.join()
    assert ends == ["False", "done"]
    assert len((builder.root / "runs").read_text().split()) == 1


def test_many_starts_at_once_are_one_job(builder: BuildHost) -> None:
    steps = [shell("echo x >> runs; until [ -e all ]; do sleep 0.05; done")]
    sessions = [Session(LocalTransport(f"c{n}"), root=str(builder.root)) for n in range(4)]
    started: list[bool] = []

    def start(session: Session) -> None:
        started.append(session.call("jobs.start", id="race", steps=steps)["started"])

    threads = [threading.Thread(target=start, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (builder.root / "all").touch()
    assert sorted(started) == [False, False, False, True]
    assert builder.session.call("jobs.follow", id="race")["state"] == "done"
    assert (builder.root / "runs").read_text() == "x\n"
    for session in sessions:
        session.close()


def test_what_has_ended_is_not_attached_to(builder: BuildHost) -> None:
    # The outcome is told a moment before its supervisor is gone.
    for number in range(10):
        steps = [shell(f"echo {number} >> runs")]
        assert builder.session.call("jobs.start", id="again", steps=steps)["started"]
        assert builder.session.call("jobs.follow", id="again")["state"] == "done"
    assert (builder.root / "runs").read_text().split() == [str(n) for n in range(10)]


def test_agent_killed_job_goes_on(builder: BuildHost) -> None:
    flag = builder.root / "flag"
    flag.touch()
    session = Session(LocalTransport("lost"), root=str(builder.root))
    session.call("jobs.start", id="on", steps=[shell(f"while [ -e {flag} ]; do sleep 0.05; done")])
    os.kill(session.agent["pid"], signal.SIGKILL)
    with pytest.raises(ConnectionLost):
        session.call("jobs.follow", id="on")
    session.close()
    assert builder.session.call("jobs.state", id="on")["state"] == "running"
    flag.unlink()
    assert builder.session.call("jobs.follow", id="on")["state"] == "done"


def test_another_boot_is_lost(builder: BuildHost) -> None:
    call = builder.session.call
    begun = call("jobs.start", id="boot", steps=[shell("sleep 300")])
    path = builder.root / "jobs/boot/state.json"
    recorded = json.loads(path.read_text())
    call("jobs.stop", id="boot")
    # What a restarted machine finds: a state without outcome, of another boot, and pids that
    # belong to strangers now.
    path.write_text(json.dumps({**recorded, "boot_id": "before", "pid": os.getpid()}))
    state = call("jobs.state", id="boot")
    assert (state["state"], state["members"]) == ("lost", [])
    assert begun["state"] == "running"
    assert call("jobs.start", id="boot", steps=[shell("true")])["started"]


def test_stall_is_neither_output_nor_cpu(builder: BuildHost) -> None:
    call = builder.session.call
    call("jobs.start", id="still", steps=[shell("sleep 300")], stall=1.0)
    final = call("jobs.follow", id="still")
    assert (final["state"], final["rc"]) == ("stalled", None)
    assert "neither output nor CPU time for 1 s" in final["why"]
    # A compiler is silent and works; a download prints and uses no CPU to speak of.
    busy = "timeout 8 sh -c 'while :; do :; done'; true"
    call("jobs.start", id="busy", steps=[shell(busy)], stall=5.0)
    printing = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 1; done"
    call("jobs.start", id="printing", steps=[shell(printing)], stall=5.0)
    assert call("jobs.follow", id="busy")["state"] == "done"
    assert call("jobs.follow", id="printing")["state"] == "done"


def test_time_in_which_the_machine_stood_still_is_no_stall(builder: BuildHost) -> None:
    call, heartbeat = builder.session.call, builder.root / "jobs/paused/heartbeat"
    pipe, waits = builder.root / "pipe", shell("mkfifo pipe; read word <pipe")
    begun = call("jobs.start", id="paused", steps=[waits], stall=8.0)
    # By then it has seen what there is to move.
    until(lambda: float(heartbeat.read_text() or 0) > begun["started_at"] + 3)
    os.kill(begun["pid"], signal.SIGSTOP)
    time.sleep(9.0)
    os.kill(begun["pid"], signal.SIGCONT)
    # Two looks, between which nothing of the job has moved; or it has ended at the first.
    beats: set[str] = {heartbeat.read_text()}

    def seen() -> bool:
        beats.add(heartbeat.read_text())
        return len(beats - {""}) > 2 or call("jobs.state", id="paused")["state"] != "running"

    until(seen)
    assert call("jobs.state", id="paused")["state"] == "running"
    pipe.write_text("go\n")
    assert call("jobs.follow", id="paused")["state"] == "done"


def test_limit(builder: BuildHost) -> None:
    call = builder.session.call
    call("jobs.start", id="long", steps=[shell("while :; do echo; done")], limit=1.0)
    final = call("jobs.follow", id="long")
    assert final["state"] == "stalled" and "limit of 1 s" in final["why"]
    assert final["members"] == []


def test_a_job_has_nothing_of_whoever_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a local host that is the controller: its keys are no business of a build's code."""
    for name in ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "UV_PUBLISH_TOKEN", "MINE"):
        monkeypatch.setenv(name, "hush-4712")
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "77")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent-sock")
    host = BuildHost(tmp_path / "root")
    look = "env; tr '\\0' '\\n' < /proc/$PPID/environ"
    try:
        host.session.call("jobs.start", id="env", steps=[shell(look)])
        assert host.session.call("jobs.follow", id="env")["state"] == "done"
        log = host.session.call("jobs.log", id="env")["text"]
    finally:
        host.close()
    assert "UV_HTTP_TIMEOUT=77" in log
    assert "hush-4712" not in log
    assert "/agent-sock" not in log


def test_secrets_never_lie_on_disk(builder: BuildHost) -> None:
    secret = "hush-4711"
    step = shell('test "$TOKEN" = hush-4711 && echo given', secrets={"TOKEN": secret})
    builder.session.call("jobs.start", id="secret", steps=[step])
    assert builder.session.call("jobs.follow", id="secret")["state"] == "done"
    for path, data in contents(builder.root):
        if path.suffix != ".pyz" and path.name != "log":
            assert secret.encode() not in data.replace(b'\\"$TOKEN\\" = hush-4711', b""), path


def test_bad_ids_and_unknown_jobs(builder: BuildHost) -> None:
    call = builder.session.call
    assert call("jobs.state", id="never")["state"] == "none"
    assert call("jobs.stop", id="never")["state"] == "none"
    for bad in ("../x", "", "a/b", ".hidden"):
        with pytest.raises(RemoteError) as caught:
            call("jobs.start", id=bad, steps=[])
        assert caught.value.kind == "bad-id"


def test_a_program_that_is_not_there(builder: BuildHost) -> None:
    call = builder.session.call
    call("jobs.start", id="none", steps=[{"phase": "x", "argv": ["/no/such/program"]}])
    final = call("jobs.follow", id="none")
    assert final["state"] == "failed" and "/no/such/program" in final["why"]


def test_a_stranger_with_the_supervisors_number_is_left_alone(builder: BuildHost) -> None:
    call = builder.session.call
    call("jobs.start", id="old", steps=[shell("true")])
    call("jobs.follow", id="old")
    record = builder.root / "jobs" / "old" / "state.json"
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        given_anew = {"pid": stranger.pid, "session": stranger.pid}
        record.write_text(json.dumps({**json.loads(record.read_text()), **given_anew}))
        assert call("jobs.stop", id="old")["members"] == []
        call("jobs.start", id="old", steps=[shell("true")])
        assert stranger.poll() is None
        stranger.kill()


def test_a_follower_of_a_flood_is_heard_when_it_gives_up(builder: BuildHost) -> None:
    call = builder.session.call
    call("jobs.start", id="flood", steps=[shell("yes | head -c 400000000; exec sleep 300")])
    until(lambda: call("jobs.state", id="flood")["log_size"] > 50_000_000)
    stream = builder.session.stream("jobs.follow", id="flood")
    stream.cancel()
    read = 0
    while (event := stream.next()) is not None:
        read = event.get("offset", read)
    # One that does not hear it carries all that there is, however long that takes.
    assert stream.value is not None and read < stream.value["log_size"]
    assert call("jobs.stop", id="flood", grace=1)["state"] == "stopped"
    (builder.root / "jobs" / "flood" / "log").unlink()


@pytest.mark.parametrize("name", ["sp ace", "per%cent", "dol$lar", "quo'te\"s", "ünï", "[a]*?b"])
def test_a_root_of_any_name(tmp_path: Path, name: str) -> None:
    site = tmp_path / name / "environments" / "e" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (tmp_path / name).chmod(0o700)
    with Session(LocalTransport("local"), root=str(tmp_path / name)) as session:
        steps = [
            shell("echo made > there", "first"),
            shell("exit 1", "never", when={"glob": "@/the*", "present": False}),
            {"phase": "last", "argv": ["cat", {"glob": "@/the*"}]},
        ]
        session.call("jobs.start", id="odd", steps=steps)
        final = session.call("jobs.follow", id="odd")
        assert final["state"] == "done", final["why"]
        found = session.call("environment.complete", environment="@/environments/e")
        assert found["site_packages"] == str(site)
        chore = {"phase": "keep", "argv": ["@agent", "chore", "keep", "@/w", "@/wheels/k", "{}"]}
        (tmp_path / name / "w").mkdir()
        (tmp_path / name / "w" / "a.whl").write_text("x")
        session.call("jobs.start", id="keep", steps=[chore])
        assert session.call("jobs.follow", id="keep")["state"] == "done"
        assert [wheel["key"] for wheel in session.call("environment.wheels")] == ["k"]
