"""A step is one file: who else must know of it asks the file, and nobody spells its name."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import deployctl
import deployctl.steps
from deployctl.config.loader import load_playbook
from deployctl.config.playbook import Playbook
from deployctl.config.profile import Profile
from deployctl.config.schema import json_schema
from deployctl.engine.ledger import entries
from deployctl.engine.ledger.record import HostRecord, RunRecord, StepRecord, outcome
from deployctl.engine.run import plan
from deployctl.errors import ConfigError
from deployctl.report.document import report
from deployctl.report.summary import lines
from deployctl.steps import registry
from deployctl.steps.interface import Answers, Deployment

PACKAGE = Path(deployctl.__file__).parent
ROOMS = ("config", "engine", "hosts", "report", "steps")
"""Packages that could name a step; `vllm` knows of none, and commands are named after theirs."""
ANOTHER_MEANING = {
    "acceptance": {
        "config/profile.py": "a profile's section",
        "config/references.py": "a profile's section",
    },
    "build": {
        "config/marks.py": "a profile's section",
        "config/profile.py": "a profile's section",
        "config/ray.py": "a profile's section",
        "config/references.py": "a profile's section",
        "engine/inspect/explain.py": "a kind of log",
        "steps/builds/environments.py": "its own name, beside it",
    },
    "peers": {"steps/gpus/gpu_reset.py": "GPUs that are linked to one"},
    "clean": {"steps/gpus/clean_options.py": "its own name, beside it"},
    "drafter": {
        "config/marks.py": "a profile's section",
        "config/profile.py": "a profile's section",
        "config/references.py": "a profile's section",
        "config/serve.py": "a profile's section",
        "engine/init/by_hand.py": "a model's role",
        "steps/facts.py": "a model's role",
        "steps/models/sources.py": "a model's role",
        "steps/rehearse.py": "a model's role",
        "steps/servers/serving.py": "a model's role",
        "steps/release.py": "a part of a release's identity",
        "steps/servers/readiness.py": "a name in its evidence",
    },
    "launch": {"engine/init/adopted.py": "a key of a manifest"},
    "fetch": {"steps/builds/building.py": "a strategy of making a wheel"},
    "ready": {
        "hosts/link.py": "a word of the wire",
        "hosts/session.py": "a word of the wire",
        "steps/release.py": "a setting of the server",
    },
    "router": {
        "config/profile.py": "a profile's section",
        "config/routed.py": "a profile's section",
        "engine/inspect/exposure.py": "a profile's section",
        "engine/ledger/rollback.py": "a profile's section",
        "steps/identity.py": "a unit",
        "steps/member.py": "a role",
    },
    "proxy": {
        "steps/identity.py": "a unit",
        "engine/inspect/checks/network.py": "one between a host and what it fetches",
    },
}
"""Where a word that is also a step's name stands for something else."""

WARMUP = '''
"""warmup: some requests before anybody else's."""

from deployctl.config.base import Settings
from deployctl.errors import SmokeFailed
from deployctl.steps.interface import SERVER, Plan, Step


class WarmupOptions(Settings):
    """warmup: how much."""

    requests: int = 3
    """Requests that are made."""


class WarmupStep(Step):
    """The first requests are ours."""

    name = "warmup"
    phase = "gate"
    failure = SmokeFailed
    options = WarmupOptions
    needs_release = False
    uses = (SERVER,)
    figures = ("first_token",)
    idle = "it was warm"

    def plan(self, wanted, answers):
        return Plan("check", reason="asked for")

    def prove(self, context):
        return {"verdict": "pass", "requests": 3, "first_token": 0.5}

    def manifest(self, evidence):
        return {"warmed_up": evidence.get("requests")}

    def sentence(self, ended):
        return f"{ended['evidence']['requests']} requests"
'''


@pytest.fixture
def warmup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with one more step beside ours."""
    (tmp_path / "warmup.py").write_text(WARMUP, encoding="utf-8")
    monkeypatch.setattr(deployctl.steps, "__path__", [*deployctl.steps.__path__, str(tmp_path)])
    registry.steps.cache_clear()
    yield
    registry.steps.cache_clear()


@pytest.mark.usefixtures("warmup")
def test_one_file_is_a_step(tmp_path: Path) -> None:
    written = tmp_path / "mine.yaml"
    written.write_text("name: mine\nsteps: [{step: warmup, with: {requests: 5}}]", "utf-8")
    playbook = load_playbook(str(written), registry.options())
    written.write_text("name: mine\nsteps: [{step: warmup, with: {request: 5}}]", "utf-8")
    with pytest.raises(ConfigError, match="is invalid") as refused:
        load_playbook(str(written), registry.options())
    assert "did you mean requests?" in refused.value.why
    assert "WarmupOptions" in json.dumps(json_schema("playbook", registry.options()))
    _planned(playbook)


def _planned(playbook: Playbook) -> None:
    profile = Profile.model_validate(
        {
            "name": "toy",
            "hosts": [{"name": "here", "local": True}],
            "model": {"path": "/models/target", "served_name": "toy"},
            "build": {"source": {"release": "0.32.0"}},
            "serve": {"port": 8123},
        }
    )
    steps = plan.select([item.step for item in playbook.steps], registry.steps())
    made = plan.make(steps, Deployment(profile, profile.hosts[0]), Answers({}))
    assert [(one.step.name, one.plan.status) for one in made.steps] == [("warmup", "check")]


@pytest.mark.usefixtures("warmup")
def test_ledger_manifest_and_report_know_it() -> None:
    evidence = {"verdict": "pass", "requests": 3, "first_token": 0.5}
    host = HostRecord("here", release="new", steps=[StepRecord("warmup", "passed", 1.0, evidence)])
    run = RunRecord("r1", "toy", "mine", datetime.now(UTC), [host])
    run.outcome, run.exit_code = outcome(run.hosts)
    ended = entries.ended(run, host, run.outcome)
    assert ended["figures"] == {"first_token": 0.5}
    assert ended["verdicts"]["warmup"]["verdict"] == "pass"
    assert entries.made_from({"warmup": evidence})["warmed_up"] == 3
    text = list(lines(report(run)))
    assert "warmup      passed         1.0 s  3 requests" in text[1]
    host.steps = [StepRecord("warmup", "unchanged", reason="asked before")]
    run.outcome, run.exit_code = outcome(run.hosts)
    assert "unchanged: it was warm" in list(lines(report(run)))[-1]


@pytest.mark.usefixtures("warmup")
def test_a_release_that_fails_it_is_not_tried_again() -> None:
    begun = {"kind": "begin", "run": "r1", "profile_digest": "d"}
    failed = {"kind": "end", "run": "r1", "release": "new", "failed": ["warmup"]}
    assert entries.failed_before([begun, failed], "new", "d") == "r1"


def spelled(path: Path) -> Iterator[tuple[str, int]]:
    """Every text in a file's code that is a step's name, with its line."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and node.value in registry.steps():
            yield str(node.value), node.lineno


def test_nobody_else_spells_a_steps_name() -> None:
    found = []
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            where = path.relative_to(PACKAGE).as_posix()
            for word, line in spelled(path):
                own = where == f"steps/{word}.py"
                if not own and where not in ANOTHER_MEANING.get(word, {}):
                    found.append(f"{where}:{line}: {word}")
    assert found == []


def test_every_word_with_another_meaning_is_still_there() -> None:
    for word, places in ANOTHER_MEANING.items():
        for where in places:
            assert word in {said for said, _ in spelled(PACKAGE / where)}, (word, where)
