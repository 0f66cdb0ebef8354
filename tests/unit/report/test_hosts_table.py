"""The status and the history of many hosts: a table first, then what differs."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.report.serving import history_lines, status_lines

NOON = 1796126400.0
ERROR = {"what": "gpu3: no answer from 10.0.0.3 port 22 within 10 s", "why": "", "next": "ping it"}


def host(name: str, **more: Any) -> dict[str, Any]:
    """A host as `status` has it."""
    unit = {
        "state": "running",
        "release": "3f5be4e74275",
        "pid": 10,
        "since": NOON,
        "restarts": 0,
        "liveness": None,
        "requests": {"running": 3, "waiting": 0},
    }
    return {
        "host": name,
        "unit": "demo",
        "units": {"server": unit},
        "gpus": [{"index": 0, "used": 21504, "total": 24576}],
        "state": "running",
        "health": {"status": 200, "error": None},
        "generates": True,
        "healthy": True,
        "proven": True,
        "unproven_release": False,
        "loaded_other": False,
        "serving": "3f5be4e74275",
        "current": "3f5be4e74275",
        "previous": None,
        "pid": 10,
        "since": NOON,
        "restarts": 0,
        "last_exit": None,
        "liveness": None,
        "drift": False,
        "environment_damage": [],
        "acceptance": None,
        "last_run": {"run": "r1", "playbook": "up", "outcome": "deployed"},
        "open_run": None,
        "verdicts": {"smoke": {"verdict": "pass", "time": NOON, "this_process": True}},
        **more,
    }


def lines(*hosts: dict[str, Any], width: int | None = None) -> list[str]:
    return list(status_lines({"profile": "demo", "hosts": list(hosts)}, width))


def test_hosts_that_are_alike_are_a_table_and_no_more() -> None:
    head, first, second, empty, last = lines(host("gpu1"), host("gpu2"))
    assert head.split() == ["HOST", "STATE", "RELEASE", "SINCE", "RUN/WAIT", "MEMORY", "GATES"]
    assert first.split() == [
        *("gpu1", "healthy", "3f5be4e74275", "12-01", "12:00Z", "3/0", "21.0/24.0G", "pass"),
    ]
    assert second.startswith("gpu2") and not empty
    assert last == "all of one host: deployctl status -p demo --host NAME"


def test_what_differs_comes_next_and_then_what_is_not_healthy() -> None:
    failed = {"smoke": {"verdict": "fail", "time": NOON, "this_process": True}}
    ill = host("gpu2", healthy=False, generates=False, serving="8b1d0c5a7f21", verdicts=failed)
    found = lines(host("gpu1"), ill, {"host": "gpu3", "error": ERROR, "state": "unknown"})
    assert [line.split()[:2] for line in found[1:4]] == [
        ["gpu1", "healthy"],
        ["gpu2", "NOT"],
        ["gpu3", "unknown"],
    ]
    assert found[2].endswith("smoke fail")
    assert found[5] == "release differs: 3f5be4e74275 on gpu1; 8b1d0c5a7f21 on gpu2"
    assert "gpu2  NOT healthy" in found and "gpu3  unknown" in found
    assert not any(line.startswith("gpu1  healthy ") for line in found[5:])


def test_several_units_have_a_row_each() -> None:
    two = host("gpu1")
    front = {**two["units"]["server"], "release": "front", "requests": None, "since": None}
    two |= {"unit": "demo.blue", "units": {"blue": two["units"]["server"], "front": front}}
    head, blue, shown, *_ = lines(two, host("gpu2"))
    assert head.split()[1] == "UNIT"
    assert blue.split()[:3] == ["gpu1", "blue", "healthy"]
    assert shown.split() == ["gpu1", "front", "running", "front"]


def test_it_fits_a_narrow_terminal() -> None:
    long = host("a-host-with-a-long-name-in-rack-12", verdicts={})
    wide, narrow = lines(long, host("gpu2")), lines(long, host("gpu2"), width=60)
    assert "MEMORY" in wide[0] and "MEMORY" not in narrow[0]
    assert max(map(len, narrow[:3])) <= 60
    assert narrow[0].split()[:3] == ["HOST", "STATE", "RELEASE"]
    (cut,) = {line[-1] for line in lines(long, host("gpu2"), width=30)[1:2]}
    assert cut == "…"


def test_a_history_of_several_hosts_is_one_table() -> None:
    def run(name: str, outcome: str) -> dict[str, Any]:
        return {"run": name, "time": NOON, "outcome": outcome, "release": None, "playbook": "up"}

    hosts = [
        {"host": "gpu1", "runs": [run("r1", "deployed"), run("r2", "failed")], "damaged": []},
        {"host": "gpu2", "runs": [run("r1", "deployed")], "damaged": ["{"]},
        {"host": "gpu3", "runs": [], "damaged": [], "error": ERROR},
    ]
    head, *rest = history_lines({"hosts": hosts})
    assert head.split()[:4] == ["RUN", "HOST", "PLAYBOOK", "OUTCOME"]
    assert [line.split()[:2] for line in rest[:3]] == [
        ["r1", "gpu1"],
        ["r1", "gpu2"],
        ["r2", "gpu1"],
    ]
    assert rest[3] == "gpu3  unknown" and rest[-1] == "gpu2  damaged line: '{'"


@pytest.mark.parametrize(
    ("wanted", "watched", "shown"),
    [
        (False, None, "off: a server that hangs is not restarted"),
        (
            True,
            None,
            "off: a server that hangs is not restarted; the profile wants it on, from the next"
            " start (deployctl run redeploy -p demo)",
        ),
        (
            True,
            {"failures": 1, "restarts": 2, "last": {"verdict": "silent", "why": "w", "time": NOON}},
            "on, every 30 s; silent (w) 2026-12-01T12:00:00Z; failure 1 of 2; restarted 2 times"
            " because it hung",
        ),
        (
            False,
            {"failures": 0, "restarts": 0, "last": None},
            "on, every 30 s; the profile wants it off, from the next start",
        ),
    ],
)
def test_liveness_in_a_line(wanted: bool, watched: dict[str, Any] | None, shown: str) -> None:
    liveness = watched and {"on": True, "interval": 30.0, "allowed": 2, **watched}
    one = host("gpu1", liveness=liveness, liveness_wanted=wanted)
    assert f"  liveness  {shown}" in lines(one)


@pytest.mark.parametrize(
    ("state", "status", "shown"),
    [
        ("stopped", -9, False),
        ("stopped", -15, False),
        ("stopped", 1, True),
        ("failed", -9, True),
    ],
)
def test_our_own_signal_is_not_shown_as_how_a_server_ended(
    state: str, status: int, shown: bool
) -> None:
    one = host("gpu1", healthy=False, pid=None, state=state) | {
        "last_exit": {"status": status, "time": NOON}
    }
    words = "\n".join(status_lines({"profile": "demo", "hosts": [one]}))
    assert (f"signal {-status}" in words or f"status {status}" in words) is shown
    assert "ended" in words
