"""Which release a run is about: the wanted one, or, where nothing is deployed, what serves."""

from __future__ import annotations

from collections.abc import Sequence

from deployctl.engine.run.plan import needs_release
from deployctl.errors import NotReady
from deployctl.steps.facts import RELEASES, UNIT, known_unit
from deployctl.steps.identity import ReleasePaths
from deployctl.steps.interface import Answers, Deployment, Step, Unanswered
from deployctl.steps.release import release_paths
from deployctl.steps.servers.process import RUNNING


def release(steps: Sequence[Step], wanted: Deployment, answers: Answers) -> ReleasePaths:
    """The release at work; raises the first step's failure where it is unknown."""
    if not needs_release(steps):
        return _serving(wanted, answers)
    try:
        return release_paths(wanted, answers)
    except Unanswered as error:
        first = steps[0]
        raise first.failure(
            wanted.host.name,
            first.name,
            "the wanted release cannot be determined, nothing was touched",
            str(error.args[0]),
            "fix the cause shown above and retry",
        ) from error


def _serving(wanted: Deployment, answers: Answers) -> ReleasePaths:
    """What runs, be it one that failed and was kept; else what is current."""
    releases, unit = answers[RELEASES], known_unit(answers)
    runs = unit["release"] if unit["state"] in RUNNING else None
    release = runs if runs in releases["releases"] else releases["current"]
    manifest = releases["releases"].get(release or "") or {}
    key = manifest.get("identity", {}).get("environment", "none")
    return ReleasePaths(wanted.profile.name, release or "none", str(key), wanted.unit)


def check_serving(
    steps: Sequence[Step], wanted: Deployment, profile: str, answers: Answers
) -> None:
    """Gates alone need a server that runs; raises `NotReady` where there is nothing to ask.

    `profile` is the name that people gave: with slots, a slot's own is nothing they could name.
    """
    unit = answers.get(UNIT)
    if unit is None or any(step.phase != "gate" for step in steps) or unit["state"] == "running":
        return
    said = "is still starting" if unit["state"] == "starting" else "does not run"
    raise NotReady(
        wanted.host.name,
        steps[0].name,
        "nothing serves",
        f"the server of profile {profile} {said} (state: {unit['state']})",
        f"run: deployctl up --profile {profile}",
    )
