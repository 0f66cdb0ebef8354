"""What `watch` shows of hosts, as a table and in one line."""

from __future__ import annotations

from typing import Any

from deployctl.report import watched


def server(**more: Any) -> dict[str, Any]:
    lengths = {"since_start": 3.2, "lately": 2.9}
    found = {
        "state": "running",
        "release": "3f5be4e74275",
        "since": 1.0,
        "restarts": 0,
        "liveness": None,
        "requests": {"running": 2, "waiting": 1},
        "tokens_per_second": 410.25,
        "accepted": {of: {"mean_acceptance_length": length} for of, length in lengths.items()},
        "verdicts": {"smoke": {"verdict": "pass"}, "acceptance": {"verdict": "undecided"}},
    }
    return {**found, **more}


def host(name: str, *, error: str = "", late: float | None = None, **units: Any) -> dict[str, Any]:
    return {
        "host": name,
        "time": 1.0,
        "late": late,
        "error": {"what": error} if error else None,
        "units": units,
        "gpus": [{"index": 0, "used": 10240, "total": 24576}],
    }


DOCUMENT: dict[str, Any] = {
    "profile": "demo",
    "hosts": [
        host("gpu1", server=server()),
        host("gpu2", server=server(liveness={"last": {"verdict": "silent"}}, requests=None)),
        host("gpu3", error="gpu3: no answer from 10.0.0.3"),
        host("gpu4", late=12.4, server=server()),
        {**host("gpu5"), "time": None},
    ],
}


def test_a_row_for_each_unit_and_why_a_host_is_not_read() -> None:
    head, one, two, three, four, five, why = watched.table(DOCUMENT)
    assert head.split() == [head.upper() for head in watched.HEADS]
    shown = ["gpu1", "server", "running", "3f5be4e74275", "410.2", "2/1", "3.20", "2.90"]
    assert one.split() == [*shown, "10.0/24.0G", "acceptance", "undecided"]
    assert "running, silent" in two
    assert three.split() == ["gpu3", "unreachable"] and "no answer for 12 s" in four
    assert five.split() == ["gpu5", "connecting"] and why == "gpu3: no answer from 10.0.0.3"


def test_a_narrow_terminal_keeps_what_moves() -> None:
    narrow = list(watched.table(DOCUMENT, 80))
    assert max(map(len, narrow)) <= 80
    for head in ("HOST", "STATE", "TOK/S", "RUN/WAIT", "LATELY"):
        assert head in narrow[0]
    assert "MEMORY" not in narrow[0]


def test_one_line_has_the_sums_of_the_hosts_that_are_read() -> None:
    assert watched.line(DOCUMENT) == (
        "demo  3/5 hosts  820.5 tok/s  2 running 1 waiting  accepted 2.90  30.0/72.0G  "
        "unreachable: gpu3, gpu4"
    )
    assert watched.line({"profile": "demo", "hosts": []}) == "demo  0/0 hosts"
