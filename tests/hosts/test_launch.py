"""launch on real processes: what is written, kept, and refused before anything stops."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deployctl.errors import NotReady
from deployctl.steps.drafter import DrafterStep
from deployctl.steps.facts import DRAFTER, MODEL, RELEASES, SHM, UNIT, VIEWS
from deployctl.steps.fetch import FetchStep
from deployctl.steps.interface import Answers, Key, Plan
from deployctl.steps.launch import LaunchStep
from deployctl.steps.release import release_paths
from tests.hosts.lab.processes import is_alive
from tests.hosts.step_bench import Bench, deployment
from tests.hosts.test_units import SERVER, until

STEP = LaunchStep()
OTHERS = (FetchStep(), DrafterStep())
CHANGE = Plan("change")
VLLM = '#!/bin/sh\nexec {python} -c "import time; time.sleep(600)" "$@"\n'


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Fetched, its drafter written; a stand-in for the program vllm that only sleeps."""
    bench = Bench.at(tmp_path, deployment({"serve": {"env": {"VLLM_NO_USAGE_STATS": "1"}}}))
    with bench.session:
        for step in OTHERS:
            bench.run(step, *OTHERS)
        program = bench.environment(bench.ask(STEP, *OTHERS)) / "bin" / "vllm"
        program.write_text(VLLM.format(python=sys.executable))
        program.chmod(0o755)
        yield bench
        bench.session.call("units.stop", profile="toy", unit="server", grace=1)


def unit(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = bench.session.call("units.state", profile="toy", unit="server")
    return found


def release_folder(bench: Bench, answers: Answers) -> Path:
    return bench.root / bench.context(answers).release.directory.removeprefix("@/")


def sealed(answers: Answers, bench: Bench) -> Answers:
    """The same answers, were this release complete."""
    keys: list[Key[Any]] = [MODEL, DRAFTER, VIEWS, UNIT, SHM]
    release = bench.context(answers).release.release
    known = answers[RELEASES]
    releases = {**known, "releases": {release: {"evidence": {}}}}
    return Answers({**{key: answers[key] for key in keys}, "releases": releases})


def test_the_release_is_launched_from_its_own_folder(bench: Bench) -> None:
    _, evidence = bench.run(STEP, *OTHERS)
    answers = bench.ask(STEP, *OTHERS)
    folder = release_folder(bench, answers)
    launch = json.loads((folder / "launch.json").read_text())
    state = unit(bench)
    assert state["argv"] == launch["argv"] == evidence["argv"]
    assert state["argv"][0].startswith(str(bench.root / "environments"))
    speculative = json.loads(state["argv"][-1])
    assert speculative["model"] == str(folder / "drafter")
    assert launch["drafter_config"] == (folder / "drafter" / "config.json").read_text()
    # While the script becomes the program it has none.
    environment = until("its environment", Path(f"/proc/{state['pid']}/environ").read_bytes)
    assert b"VLLM_NO_USAGE_STATS=1" in environment
    key = bench.context(answers).release.environment_key
    assert f"VLLM_CACHE_ROOT={bench.root}/compiled/{key}/vllm".encode() in environment
    assert STEP.plan(bench.wanted, answers).status == "unchanged"


def test_the_one_before_is_stopped_whole(bench: Bench) -> None:
    about = {"profile": "toy", "unit": "server", "release": "r0", "grace": 1}
    start = {**about, "argv": [*SERVER, "leave-orphan"]}
    bench.session.call("units.start", supervisor="agent", **start)
    until("its orphan", lambda: len(unit(bench)["members"]) >= 2)
    before = unit(bench)
    plan, _ = bench.run(STEP, *OTHERS)
    assert (plan.changes[0].old, plan.changes[0].new) == ("r0", unit(bench)["release"])
    assert not any(is_alive(m["pid"]) for m in before["members"])


def test_a_program_that_cannot_start_is_told_at_once(bench: Bench) -> None:
    (bench.environment(bench.ask(STEP, *OTHERS)) / "bin" / "vllm").unlink()
    with pytest.raises(NotReady, match="there is no vllm to run") as failed:
        bench.run(STEP, *OTHERS)
    assert "No such file" in failed.value.why


def test_a_secret_without_a_value_is_told_before_anything_stops(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    serve = {"secrets": {"HF_TOKEN": {"env": "NOT_SET"}}}
    bench.wanted = deployment({"serve": serve})
    answers = bench.ask(STEP, *OTHERS)
    with pytest.raises(NotReady) as failed:
        STEP.apply(bench.context(answers), CHANGE)
    assert "the secret HF_TOKEN has no value" in failed.value.thing
    assert "NOT_SET" in failed.value.why
    assert unit(bench)["state"] == "absent"


def test_keys_that_the_built_vllm_does_not_know_are_refused(bench: Bench) -> None:
    drafter = {**bench.wanted.profile.model_dump()["drafter"], "speculative": {"bogus_key": 1}}
    bench.wanted = deployment({"drafter": drafter})
    answers = bench.ask(STEP, *OTHERS)
    place = bench.environment(answers)
    config = place / "lib" / "python3.12" / "site-packages" / "vllm" / "config"
    config.mkdir(parents=True)
    (config / "speculative.py").write_text(
        "class SpeculativeConfig:\n    method: str\n    num_speculative_tokens: int\n"
    )
    with pytest.raises(NotReady) as failed:
        STEP.apply(bench.context(answers), CHANGE)
    assert "knows no key bogus_key" in failed.value.why


def test_a_sealed_release_keeps_the_launch_that_it_was_proven_with(bench: Bench) -> None:
    bench.run(STEP, *OTHERS)
    answers = bench.ask(STEP, *OTHERS)
    path = release_folder(bench, answers) / "launch.json"
    kept = {**json.loads(path.read_text()), "argv": [*SERVER, "say=1"]}
    path.write_text(json.dumps(kept))
    STEP.apply(bench.context(sealed(answers, bench)), CHANGE)
    assert unit(bench)["argv"] == [*SERVER, "say=1"]


def test_drift_is_refused_and_on_the_way_back_mended(bench: Bench) -> None:
    bench.run(STEP, *OTHERS)
    running = unit(bench)
    answers = sealed(bench.ask(STEP, *OTHERS), bench)
    config = release_folder(bench, answers) / "drafter" / "config.json"
    proven = config.read_text()
    config.write_text("{}")
    with pytest.raises(NotReady, match="the drafter's config drifted") as failed:
        STEP.apply(bench.context(answers), CHANGE)
    assert "deployctl up" in failed.value.next
    assert is_alive(running["pid"])
    bench.wanted = replace(bench.wanted, pinned=release_paths(bench.wanted, answers))
    STEP.apply(bench.context(answers), CHANGE)
    assert config.read_text() == proven
    assert unit(bench)["pid"] != running["pid"]
    assert any("put back as it was proven" in note for note in bench.notes)
