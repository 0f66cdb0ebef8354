"""Hooks of a playbook, here and on the host, with the report so far on their standard input."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import yaml

from deployctl.config.loader import load_playbook
from deployctl.engine.ledger.record import RunRecord
from deployctl.engine.run.coordinator import run
from deployctl.engine.run.options import Options
from deployctl.report.document import report
from deployctl.steps import registry
from tests.hosts.lab.processes import is_alive, send
from tests.hosts.served.host import ServedHost

STEPS_OF_UP = ["fetch", "drafter", "clean", "launch", "ready", "smoke"]


def up(served: ServedHost, directory: Path, hooks: dict[str, Any], *sets: str) -> RunRecord:
    """Run a playbook with hooks; those of `run` stand at its end."""
    steps = [{"step": name, **hooks.get(name, {})} for name in STEPS_OF_UP]
    content = {"name": "hooked", "steps": steps, "after": hooks.get("run", [])}
    path = directory / "hooked.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    playbook = load_playbook(str(path), registry.options())
    return run(served.profile(*sets), playbook, Options(render=report))


def saves(path: Path, **more: Any) -> dict[str, Any]:
    script = f'cat > {path}; echo "$DEPLOYCTL_HOOK_STEP $DEPLOYCTL_HOOK_WHEN"'
    return {"run": ["sh", "-c", script], **more}


def test_they_run_around_what_is_done_and_get_the_report(
    served: ServedHost, tmp_path: Path
) -> None:
    here, there, last = tmp_path / "here", tmp_path / "there", tmp_path / "last"
    hooks = {
        "launch": {"before": [saves(here)], "after": [saves(there, where="host")]},
        "run": [saves(last)],
    }
    record = up(served, tmp_path, hooks)
    assert record.outcome == "deployed"
    told = {s.step: s.evidence["output"] for s in record.hosts[0].steps if "output" in s.evidence}
    assert told == {
        "launch-before": "launch before\n",
        "launch-after": "launch after\n",
        "run-after": "run after\n",
    }
    before, after = (json.loads(path.read_text("utf-8")) for path in (here, there))
    assert before["run"] == after["run"] == record.run
    assert before["outcome"] == "running"
    assert json.loads(last.read_text("utf-8"))["outcome"] == "deployed"
    here.unlink()
    assert up(served, tmp_path, hooks).outcome == "unchanged"
    assert not here.exists(), "nothing was launched"


def test_a_required_one_that_fails_fails_its_step_and_leads_back(
    served: ServedHost, tmp_path: Path
) -> None:
    good = up(served, tmp_path, {}).hosts[0].release
    says_no = {"run": ["sh", "-c", "echo not today >&2; exit 3"]}
    for name, when in (("ready", "after"), ("launch", "before")):
        failed = up(served, tmp_path, {name: {when: [says_no]}}, "serve.env.WHICH=other")
        error = failed.hosts[0].error
        assert (failed.outcome, failed.exit_code) == ("rolled-back", 10)
        assert error is not None and "not today" in error.why
        assert served.unit()["release"] == good
    optional = {"launch": {"before": [{**says_no, "required": False}]}}
    assert up(served, tmp_path, optional, "serve.env.WHICH=other").outcome == "deployed"


def test_one_that_hangs_is_ended(served: ServedHost, tmp_path: Path) -> None:
    hangs = {"run": ["sleep", "600"], "timeout": "300ms", "required": False}
    there = {**hangs, "where": "host"}
    missing = {"run": ["no-such-program"], "required": False}
    record = up(served, tmp_path, {"fetch": {"before": [hangs, there, missing]}})
    ended = [s for s in record.hosts[0].steps if s.step == "fetch-before"]
    assert [s.evidence["rc"] for s in ended] == [None, None, 127]
    assert sum(s.seconds for s in ended) < 600
    assert record.outcome == "deployed"


def test_what_it_leaves_in_the_background_is_not_waited_for(
    served: ServedHost, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    script = f"setsid sleep 600 & echo $! >>{left}; yes | head -c 9000000"
    leaves = {"run": ["sh", "-c", script], "timeout": "600s"}
    record = up(served, tmp_path, {"launch": {"before": [leaves, {**leaves, "where": "host"}]}})
    pids = [int(pid) for pid in left.read_text("ascii").split()]
    assert [is_alive(pid) for pid in pids] == [True, True]
    for pid in pids:
        send(pid, signal.SIGKILL)
    ended = [s for s in record.hosts[0].steps if s.step == "launch-before"]
    assert [s.evidence["rc"] for s in ended] == [0, 0]
    assert all(0 < len(s.evidence["output"]) <= 4000 for s in ended)


def test_one_that_is_no_program_leads_back(served: ServedHost, tmp_path: Path) -> None:
    good = up(served, tmp_path, {}).hosts[0].release
    script = tmp_path / "hook"
    script.write_bytes(b"\0no program")
    script.chmod(0o755)
    for where in ("here", "host"):
        hook = {"run": [str(script)], "where": where}
        failed = up(served, tmp_path, {"launch": {"before": [hook]}}, "serve.env.WHICH=other")
        error = failed.hosts[0].error
        assert failed.outcome == "rolled-back" and error is not None
        assert "cannot be started" in error.why
        assert (served.unit()["release"], served.unit()["state"]) == (good, "running")
