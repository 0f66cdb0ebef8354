"""The way back is found whatever else is broken: the ledger, a manifest, a user's own command."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
import yaml

from deployctl.config.loader import load_playbook
from deployctl.engine.run.coordinator import run
from deployctl.engine.run.options import Options
from deployctl.steps import registry
from tests.hosts.engine.test_hooks import up
from tests.hosts.served.host import STALE, ServedHost
from tests.slow import some


def manifest(served: ServedHost, release: str | None) -> Path:
    return served.root / f"profiles/stand/units/server/releases/{release}/manifest.json"


def test_a_ledger_that_cannot_be_written_does_not_prevent_it(
    served: ServedHost, tmp_path: Path
) -> None:
    good = up(served, tmp_path, {}).hosts[0].release
    ledger = served.root / "profiles/stand/ledger.jsonl"
    spoils = {"run": ["sh", "-c", f"rm {ledger}; mkdir {ledger}"]}
    failed = up(served, tmp_path, {"clean": {"after": [spoils]}}, "serve.env.WHICH=other")
    error = failed.hosts[0].error
    assert (failed.outcome, failed.exit_code) == ("rolled-back", 10)
    assert error is not None and "ledger.jsonl" in error.what
    assert (served.unit()["release"], served.unit()["state"]) == (good, "running")


def test_a_manifest_of_another_version_leads_back(served: ServedHost) -> None:
    good = served.up().hosts[0].release
    content = json.loads(manifest(served, good).read_text("utf-8"))
    content["wanted"]["serve"]["of_another_version"] = 1
    content["wanted"]["also_unknown"] = {"a": 1}
    manifest(served, good).write_text(json.dumps(content), encoding="utf-8")
    failed = served.up(STALE)
    assert failed.outcome == "rolled-back", failed.hosts[0].rollback_error
    assert served.unit()["release"] == good


def test_what_cannot_be_read_from_a_manifest_is_told(served: ServedHost) -> None:
    good = served.up().hosts[0].release
    content = json.loads(manifest(served, good).read_text("utf-8"))
    content["wanted"]["serve"]["port"] = "none"
    manifest(served, good).write_text(json.dumps(content), encoding="utf-8")
    failed = served.up(STALE)
    error = failed.hosts[0].rollback_error
    assert failed.exit_code == 9 and error is not None
    assert "cannot be read from its manifest" in error.what and "serve.port" in error.why
    refused = served.up(playbook="rollback", release=good).hosts[0].error
    assert refused is not None and "cannot be read from its manifest" in refused.what


@pytest.mark.parametrize("text", some(["{", "[]", ""], ["{"]))
def test_a_damaged_manifest_is_written_anew(served: ServedHost, text: str) -> None:
    good = served.up().hosts[0].release
    pid = served.unit()["pid"]
    manifest(served, good).write_text(text, encoding="utf-8")
    assert served.up(playbook="smoke").exit_code == 0
    assert served.up().exit_code == 0
    assert served.unit()["pid"] == pid
    assert json.loads(manifest(served, good).read_text("utf-8"))["release"] == good
    assert served.up().outcome == "unchanged"


def test_a_damaged_seal_is_no_proof(served: ServedHost) -> None:
    served.up()
    (environment,) = (served.root / "environments").iterdir()
    (environment / "seal.json").write_text("{", encoding="utf-8")
    assert served.releases()["broken"] == {environment.name: ["seal.json is damaged"]}


def test_what_the_host_cannot_tell_is_no_internal_error(served: ServedHost) -> None:
    served.up()
    links = served.root / "profiles/stand/units/server/current"
    links.unlink()
    links.mkdir()
    for playbook in ("down", "smoke", "rollback"):
        error = served.up(playbook=playbook).hosts[0].error
        assert error is not None and error.exit_code == 4, playbook
        assert error.next


def test_an_interrupt_at_the_very_end_says_what_serves(served: ServedHost, tmp_path: Path) -> None:
    playbook = {
        "name": "slow-end",
        "steps": ["fetch", "drafter", "clean", "launch", "ready"],
        "after": [{"run": ["sh", "-c", f"touch {tmp_path}/at-the-end; sleep 600"]}],
    }
    path = tmp_path / "slow-end.yaml"
    path.write_text(yaml.safe_dump(playbook), encoding="utf-8")
    argv = ["run", "-p", str(served.profile_file), str(path), "--json"]
    with served.start(*argv) as process:
        while not (tmp_path / "at-the-end").exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output = process.output()
    (host,) = json.loads(output)["hosts"]
    assert process.returncode == 130
    assert "nothing was touched" not in host["error"]["why"]


def test_the_last_hooks_run_where_the_host_is_not_reached(
    served: ServedHost, tmp_path: Path
) -> None:
    playbook = {
        "name": "told",
        "steps": ["fetch"],
        "after": [{"run": ["touch", str(tmp_path / "told")]}, {"run": ["true"], "where": "host"}],
    }
    path = tmp_path / "told.yaml"
    path.write_text(yaml.safe_dump(playbook), encoding="utf-8")
    gone = "hosts=[{name: gone, ssh: {address: 127.0.0.1, port: 1}}]"
    record = run(served.profile(gone), load_playbook(str(path), registry.options()), Options())
    assert record.exit_code == 4
    assert (tmp_path / "told").exists()


def test_a_gate_alone_takes_nothing_away(served: ServedHost) -> None:
    """Although what serves fails it, and a proven release is there to go back to."""
    served.up()
    kept = served.up(STALE, keep_failed=True).hosts[0].release
    pid = served.unit()["pid"]
    asked = served.up(STALE, playbook="smoke", check_gates=True)
    assert (asked.outcome, asked.exit_code) == ("failed", 9)
    assert not asked.hosts[0].restored and asked.hosts[0].without_service is None
    assert (served.unit()["release"], served.unit()["pid"]) == (kept, pid)


def test_gates_are_asked_of_what_runs_and_credited_to_it(served: ServedHost) -> None:
    good = served.up().hosts[0].release
    bad = served.up(STALE, keep_failed=True).hosts[0].release
    assert served.unit()["release"] == bad != good
    asked = served.up(STALE, playbook="smoke").hosts[0]
    (found,) = [s.evidence["drafter_config"]["path"] for s in asked.steps if s.step == "smoke"]
    assert f"/releases/{bad}/" in found
    assert served.ledger()[-1]["release"] == bad
    assert served.releases()["releases"][bad] is None, "a gate alone makes no release complete"
    assert served.releases()["releases"][good]["sealed_by"] != served.ledger()[-1]["run"]
