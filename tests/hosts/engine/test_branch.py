"""The head of a branch is part of what is wanted: it moves, and the next `up` sees it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from deployctl.config.loader import load_playbook
from deployctl.engine.run.coordinator import survey
from deployctl.engine.run.options import Options
from deployctl.steps import registry
from tests.hosts.served.host import ServedHost


def commit(repository: Path, text: str) -> None:
    """A commit at the head of main."""
    (repository / "file").write_text(text, encoding="utf-8")
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for argv in (("add", "file"), (*who, "commit", "-q", "-m", text)):
        subprocess.run(["git", "-C", repository, *argv], check=True)


def test_a_moved_head_is_another_release(served: ServedHost, tmp_path: Path) -> None:
    repository = tmp_path / "vllm"
    subprocess.run(["git", "init", "-q", "-b", "main", repository], check=True)
    commit(repository, "one")
    source = f"build.source={{ref: main, url: 'file://{repository}'}}"
    served.make_environment(source)
    first = served.up(source)
    assert first.outcome == "deployed", first.hosts[0].error
    again = served.up(source)
    assert (again.outcome, again.hosts[0].round_trips) == ("unchanged", 1)
    commit(repository, "two")
    up = load_playbook("up", registry.options())
    (found,) = survey(served.profile(source), up, Options())
    plan = found["plan"]
    assert plan.release != plan.current == first.hosts[0].release
    assert {p.step.name: p.plan.status for p in plan.steps}["build"] == "change"
    served.make_environment(source)
    second = served.up(source)
    assert (second.outcome, second.hosts[0].previous) == ("deployed", first.hosts[0].release)
