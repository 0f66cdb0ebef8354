"""A proof belongs to the process that was proven: after a restart it is asked again."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from deployctl.engine.inspect import history, status
from deployctl.report import document, summary
from deployctl.report.serving import history_lines, status_lines
from tests.hosts.served.host import ServedHost


def config(served: ServedHost) -> Path:
    return served.root / "profiles/stand/units/server/current/drafter/config.json"


def rewrite(path: Path, mask: int) -> None:
    """The drafter's config with another mask token, as an editor leaves it."""
    content = json.loads(path.read_text("utf-8"))
    content["dflash_config"]["mask_token_id"] = mask
    path.write_text(json.dumps(content), encoding="utf-8")


def crash(served: ServedHost) -> dict[str, Any]:
    """Kill the server; the unit once its supervisor has started it again and it listens."""
    before = served.unit()
    os.kill(before["pid"], signal.SIGKILL)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        unit = served.unit()
        port = served.ask("network.listener", port=served.port)
        if unit["state"] == "running" and unit["pid"] != before["pid"] and port["listening"]:
            return unit
        time.sleep(0.1)
    raise AssertionError(f"its supervisor did not start it again: {unit}")


def ran(record: Any) -> dict[str, str]:
    return {step.step: step.status for step in record.hosts[0].steps}


def told(served: ServedHost) -> str:
    return "\n".join(status_lines(status.survey(served.profile())))


def test_a_process_that_loaded_another_config_is_replaced(served: ServedHost) -> None:
    served.up()
    good = config(served).read_bytes()
    rewrite(config(served), 0)
    wrong = crash(served)
    config(served).write_bytes(good)
    text = told(served)
    assert "the running process loaded another one" in text
    assert "not the process that was proven" in text
    assert "restarted 1 time by its supervisor" in text and "killed by signal 9" in text
    mended = served.up()
    assert (mended.outcome, mended.exit_code) == ("deployed", 0)
    steps = ran(mended)
    assert (steps["launch"], steps["ready"]) == ("changed", "passed")
    assert (steps["smoke"], steps["acceptance"]) == ("passed", "passed")
    launch = next(s for s in mended.hosts[0].steps if s.step == "launch")
    assert launch.changes[0].why == "the running process loaded another config.json"
    assert served.unit()["pid"] != wrong["pid"]
    again = served.up()
    assert (again.outcome, again.hosts[0].round_trips) == ("unchanged", 1)


def test_a_restarted_process_is_asked_again(served: ServedHost) -> None:
    served.up()
    pid = crash(served)["pid"]
    assert "measured, on an earlier process" in told(served)
    asked = served.up()
    assert served.unit()["pid"] == pid, "it loaded what is wanted and goes on serving"
    steps = ran(asked)
    assert (steps["launch"], steps["ready"]) == ("unchanged", "passed")
    assert (steps["smoke"], steps["acceptance"]) == ("passed", "passed")
    again = served.up()
    assert (again.outcome, again.hosts[0].round_trips) == ("unchanged", 1)
    assert "earlier process" not in told(served)


def test_gates_that_were_not_reached_are_asked_by_the_next_run(served: ServedHost) -> None:
    served.up()
    rewrite(config(served), 0)
    with served.start("up", "--check-gates", "--json", stops_at="ready: started") as run:
        run.told("ready: started")
        run.go_on(signal.SIGINT)
        output = run.output()
    (host,) = json.loads(output)["hosts"]
    assert run.returncode == 130
    assert "not proven ready" in host["error"]["why"]
    assert "deployctl up --profile stand" in host["error"]["next"]
    assert host["still_without_service"] is True
    (mended,) = [step for step in host["steps"] if step["step"] == "drafter"]
    assert [(c["old"], c["new"]) for c in mended["changes"]] == [(0, 3)]
    cut = served.ledger()[-1]
    assert (cut["outcome"], cut["figures"], cut["verdicts"]) == ("interrupted", {}, {})
    steps = ran(served.up())
    assert (steps["ready"], steps["smoke"], steps["acceptance"]) == ("passed",) * 3
    assert served.up().outcome == "unchanged"


def test_only_a_run_that_measured_has_figures_and_times(served: ServedHost) -> None:
    served.up()
    first = status.survey(served.profile())["hosts"][0]["verdicts"]
    served.ask("units.stop", profile="stand", unit="server", grace=0.1)
    config(served).unlink()
    assert "  stopped" in told(served)
    for absent in ("NOT healthy", "process", "accepted"):
        assert absent not in told(served)
    strict = "acceptance.min_length=9"
    assert served.up().outcome == "deployed"
    assert served.up(strict).exit_code == 9
    (host,) = status.survey(served.profile())["hosts"]
    assert host["acceptance"]["verdict"] == host["verdicts"]["acceptance"]["verdict"] == "fail"
    smoke = host["verdicts"]["smoke"]["time"]
    assert first["smoke"]["time"] < smoke < host["verdicts"]["acceptance"]["time"]
    lines = list(history_lines(history.ledger(served.profile(), 20)))
    assert len([line for line in lines if "mean acceptance length" in line]) == 3
    evidence = served.ledger()[-1]
    assert list(evidence["verdicts"]) == ["acceptance"], "smoke was left as it was"


def test_a_gate_tells_of_a_config_that_drifted_under_the_server(served: ServedHost) -> None:
    served.up()
    rewrite(config(served), 0)
    again = served.up(playbook="smoke", check_gates=True)
    (smoke,) = (step for step in again.hosts[0].steps if step.step == "smoke")
    assert smoke.status == "passed", "the process that answers has read the right one"
    assert smoke.evidence["drafter_config"]["drifted"] is True
    assert "DRIFTED" in "\n".join(summary.lines(document.report(again)))
    served.up()
    mended = served.up(check_gates=True).hosts[0].steps
    assert all(
        step.evidence["drafter_config"]["drifted"] is False
        for step in mended
        if step.step in ("smoke", "acceptance")
    )
