"""clean on a host without GPUs: our server and what is left of one, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.processes.processes import read_stat
from deployctl.cli.running import playbook_of
from deployctl.engine.ledger.record import HostRecord
from deployctl.engine.run.coordinator import run, survey
from deployctl.engine.run.options import Options
from deployctl.steps.interface import Plan
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.processes import is_alive
from tests.hosts.served.host import ServedHost

PROGRAM = """\
import ctypes, signal, sys
ctypes.CDLL(None).prctl(15, b"VLLM::EngineCor", 0, 0, 0)
sys.stderr.write("ready")
sys.stderr.flush()
signal.pause()
"""


@contextmanager
def engine(output: Path | None) -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like an engine core; its output goes where a server's does."""
    with (output or Path(os.devnull)).open("ab") as log:
        process = subprocess.Popen(
            ["VLLM::EngineCore"],
            executable=sys.executable,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    assert process.stdin is not None and process.stderr is not None
    with process.stdin, process.stderr:
        process.stdin.write(PROGRAM.encode())
        process.stdin.close()
        assert process.stderr.read(5) == b"ready"
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def clean(served: ServedHost, **options: Any) -> HostRecord:
    steps = {"clean": {"stop_unit": True, **options}}
    return run(served.profile("clean.grace=60s"), playbook_of("clean"), Options(steps=steps)).hosts[
        0
    ]


def plan(served: ServedHost, **options: Any) -> Plan:
    (host,) = survey(served.profile(), playbook_of("clean"), Options(steps={"clean": options}))
    found: Plan = host["plan"].steps[0].plan
    return found


def state_of(pid: int) -> str:
    stat = read_stat(pid)
    return "" if stat is None else stat.state


def server_log(served: ServedHost) -> Path:
    log = served.root / "profiles" / "stand" / "units" / "server" / "server" / "server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return log


def test_what_is_left_of_our_server_ends_and_a_strangers_runs_on(served: ServedHost) -> None:
    with engine(server_log(served)) as ours, engine(None) as stranger:
        record = clean(served)
        assert record.error is None
        evidence = record.steps[0].evidence
        assert [(row["pid"], row["fate"]) for row in evidence["stopped"]] == [(ours.pid, "ended")]
        assert evidence["gpu"].startswith("absent: ")
        assert not is_alive(ours.pid) and is_alive(stranger.pid)
    verdicts = {holder["pid"]: holder["verdict"] for holder in evidence["holders"]}
    assert verdicts[stranger.pid] == "foreign"


def test_the_unit_ends_whole_and_its_port_is_free(served: ServedHost) -> None:
    served.up()
    members = [member["pid"] for member in served.unit()["members"]]
    assert members
    record = clean(served)
    assert record.error is None
    assert {row["pid"] for row in record.steps[0].evidence["stopped"]} >= set(members)
    assert not any(is_alive(pid) for pid in members)
    assert record.steps[0].evidence["port"]["listening"] is False
    assert clean(served).error is None, "a second time there is nothing to do"


def test_a_unit_that_runs_what_is_wanted_is_left_alone(served: ServedHost) -> None:
    served.up()
    pid = served.unit()["pid"]
    with engine(server_log(served)) as stale:
        again = served.up()
        assert again.outcome == "unchanged"
        assert served.unit()["pid"] == pid and is_alive(stale.pid)


def test_orphans_of_a_killed_server_make_way_for_the_next(served: ServedHost) -> None:
    served.up()
    with engine(server_log(served)) as orphan:
        changed = served.up("serve.env.WHICH=other")
        assert changed.outcome == "deployed"
        assert not is_alive(orphan.pid)


def test_a_port_that_a_stranger_holds_is_told_with_his_name(served: ServedHost) -> None:
    with socket.create_server(("127.0.0.1", served.port)):
        record = clean(served)
    assert record.error is not None
    assert f"port {served.port} is still held" in record.error.what
    assert f"PID {os.getpid()}" in record.error.why


def test_scope_container_needs_a_container(served: ServedHost) -> None:
    made = plan(served, stop_unit=True, scope="container")
    assert made.status == "blocked" and "needs a host that is a container" in made.reason


def test_no_such_scope(served: ServedHost) -> None:
    made = plan(served, stop_unit=True, scope="everything")
    assert made.status == "blocked" and "no such scope: everything" in made.reason


def test_one_that_is_stopped_ends_too(served: ServedHost) -> None:
    with engine(server_log(served)) as ours:
        os.kill(ours.pid, signal.SIGSTOP)
        wait_for("it stopped", lambda: state_of(ours.pid) == "T")
        assert clean(served).error is None
        assert not is_alive(ours.pid)


# -- the command line -----------------------------------------------------------------------------


def command(served: ServedHost, *argv: str) -> tuple[int, str]:
    with served.start(*argv) as process:
        output = process.output()
    return process.returncode, output


def test_clean_plan_shows_each_holder_and_touches_none(served: ServedHost) -> None:
    port = socket.create_server(("127.0.0.1", served.port))
    with engine(server_log(served)) as ours, engine(None) as stranger, port:
        code, shown = command(served, "clean", "--plan")
        assert code == 0 and is_alive(ours.pid)
    lines = shown.splitlines()
    assert any(f"  port {served.port}: held by {os.getpid()}  " in line for line in lines)
    assert not any(str(stranger.pid) in line.split() for line in lines)
    assert lines[0].startswith("here  GPU absent: ")
    assert any(f"ours     {ours.pid:>8}  " in line for line in lines)
    assert "      it uses @/profiles/stand (file)" in lines
    assert lines[-1] == "there are changes"


def test_clean_plan_of_what_cannot_be_done_leaves_with_its_code(served: ServedHost) -> None:
    code, shown = command(served, "clean", "--plan", "--scope", "everything")
    assert code == 7
    assert shown.splitlines()[-1].startswith("blocked: clean on here cannot be done")


def test_clean_json_is_one_document(served: ServedHost) -> None:
    code, shown = command(served, "clean", "--json")
    (step,) = json.loads(shown)["hosts"][0]["steps"]
    assert (code, step["step"], step["status"]) == (0, "clean", "passed")
    assert {"gpu", "holders", "stopped", "memory_before", "memory_after"} <= step["evidence"].keys()


ON_A_GPU = ("build.target=cuda", "serve.gpus=[0]")
HAS_GPU = Path("/proc/driver/nvidia").exists()


@pytest.mark.parametrize(("sets", "expected"), [((), 0), (ON_A_GPU, 0 if HAS_GPU else 6)])
def test_doctor_says_by_its_exit_code_whether_the_host_will_do(
    served: ServedHost, sets: tuple[str, ...], expected: int
) -> None:
    code, shown = command(served, "doctor", "--json", *(f"--set={one}" for one in sets))
    findings = json.loads(shown)["hosts"][0]["findings"]
    assert code == expected
    assert ("failed" in {finding["verdict"] for finding in findings}) == (expected == 6)
    code, lines = command(served, "doctor", *(f"--set={one}" for one in sets))
    assert code == expected and lines.startswith("here\n")
