"""The ledger has every run that began, with what it changed, and survives what others do to it."""

from __future__ import annotations

import pytest

from deployctl.engine.inspect.history import ledger
from deployctl.report.serving import history_lines
from deployctl.steps.preflight import PreflightStep
from tests.hosts.served.host import ServedHost

OTHER = "serve.env.STAND_IN_START=0.7"


def test_a_run_that_was_refused_is_there(
    served: ServedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = "build.source={ref: main, url: 'file:///nowhere/at/all'}"
    refused = served.up(nowhere)
    assert refused.exit_code == 6

    def broken(*_: object) -> None:
        raise TypeError("a bug")

    monkeypatch.setattr(PreflightStep, "plan", broken)
    broken_run = served.up()
    assert (broken_run.outcome, broken_run.exit_code) == ("failed", 1)
    first, second = served.ledger()
    error = refused.hosts[0].error
    assert error is not None
    assert (first["run"], first["outcome"], first["error"]) == (refused.run, "failed", error.what)
    assert (second["outcome"], second["error"]) == ("failed", "TypeError: a bug")
    (host,) = ledger(served.profile(), 20)["hosts"]
    assert [run["outcome"] for run in host["runs"]] == ["failed", "failed"]


def test_a_run_without_an_end_tells_what_it_changed(served: ServedHost) -> None:
    served.up()
    with served.start("up", "--set", OTHER, stops_at="ready: started") as run:
        run.told("ready: started")
        run.kill()
    served.up(lock_wait=300.0)
    died = next(entry for entry in served.ledger() if entry["outcome"] == "died")
    assert died["changed"] == ["fetch", "drafter", "clean", "launch", "ready"]
    told = "\n".join(history_lines(ledger(served.profile(), 20)))
    assert "changed fetch, drafter, clean, launch, ready" in told


def test_a_damaged_line_hides_no_other(served: ServedHost) -> None:
    served.up()
    path = served.root / "profiles/stand/ledger.jsonl"
    with path.open("ab") as file:
        file.write(b"\xff\xfe\x00garbage\n[1]\n")
    served.ask("units.stop", profile="stand", unit="server", grace=0.1)
    assert served.up().outcome == "deployed"
    (host,) = ledger(served.profile(), 20)["hosts"]
    assert len(host["runs"]) == 2
    assert host["damaged"] == ["\\xff\\xfe\x00garbage", "[1]"]
    assert "  damaged line: '[1]'" in list(history_lines({"hosts": [host]}))
