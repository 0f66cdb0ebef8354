"""What the gates share: when an earlier result still holds, and which process was asked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from deployctl.hosts.operations import units
from deployctl.steps import facts
from deployctl.steps.facts import RELEASES, UNIT
from deployctl.steps.identity import digest
from deployctl.steps.interface import (
    Answers,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
    Unanswered,
)
from deployctl.steps.models.loaded_drafter import config_on_disk
from deployctl.steps.release import release_paths
from deployctl.steps.servers.process import Identity, identity

ASKED = "asked"
"""The evidence's key for the digest of what was asked, so that another one is measured again."""
PROCESS = "process"
"""The evidence's key for the process that was asked, so that another one is asked again."""
MEASURED = "measured"
"""The evidence's key for when it was measured, in seconds since 1970."""
CONFIG = "drafter_config"
"""The evidence's key for the drafter's config.json as it lay there then."""


def gate_questions(wanted: Deployment) -> list[Question[Any]]:
    """Which release serves, what it has proven, and whether it still runs."""
    return [facts.release_state(wanted), facts.unit(wanted)]


def gate_plan(gate: str, asked: str, wanted: Deployment, answers: Answers) -> Plan:
    """Unchanged where the wanted release serves and has passed this very gate; else check."""
    if wanted.check_gates:
        return Plan("check", reason="asked for")
    try:
        release = release_paths(wanted, answers).release
        releases, unit = answers[RELEASES], answers[UNIT]
    except Unanswered as error:
        return Plan("check", reason=str(error))
    if unit["state"] != "running" or unit["release"] != release:
        return Plan("check", reason="the wanted release does not run")
    manifest = releases["releases"].get(release) or {}
    evidence: Evidence = (manifest.get("evidence") or {}).get(gate) or {}
    if evidence.get("verdict") != "pass":
        return Plan("check", reason=f"the release has not passed {gate}")
    if evidence.get(ASKED) != asked:
        return Plan("check", reason=f"the profile's {gate} changed")
    if evidence.get(PROCESS) != identity(unit):
        return Plan("check", reason=f"{gate} did not run on this process")
    last = last_verdict(gate, release, asked, releases["ledger"])
    if last not in (None, "pass"):
        return Plan("check", reason=f"the last verdict of {gate} was: {last}")
    return Plan("unchanged", reason=f"passed {gate} before", evidence=evidence)


def last_verdict(
    gate: str, release: str, asked: str, ledger: Sequence[Mapping[str, Any]]
) -> str | None:
    """The newest verdict on this release about this very question (oldest entry first)."""
    for entry in reversed(ledger):
        said = (entry.get("verdicts") or {}).get(gate)
        if entry.get("release") == release and said and said.get("asked") == asked:
            return str(said.get("verdict"))
    return None


@contextmanager
def one_process(step: Step, context: Context) -> Iterator[Evidence]:
    """Around a measurement: evidence of which process was asked, when, and whether the drafter's
    config.json has drifted. Fails where the server restarted meanwhile, since then the
    answers are of two."""
    found: Evidence = {PROCESS: _process(context)}
    yield found
    now = _process(context)
    found[MEASURED] = round(time.time(), 3)
    found[CONFIG] = config_on_disk(context)
    if found[CONFIG] and found[CONFIG]["drifted"]:
        context.log(drift_sentence(found[CONFIG], context.wanted.profile.name))
    if now != found[PROCESS]:
        raise step.fail(
            context,
            "the server restarted during the measurement",
            f"pid {found[PROCESS]['pid']} was measured first, pid {now['pid']} runs now",
            f"read why it ended: deployctl logs --profile {context.wanted.profile.name}",
            found,
        )


def drift_sentence(config: Mapping[str, Any], profile: str) -> str:
    """What a drifted config.json means, and what to do about it."""
    return (
        f"{config['path']} drifted: it is not what the server was launched with, and its "
        f"supervisor would start it again with this one; fix it: deployctl up --profile {profile}"
    )


def _process(context: Context) -> Identity:
    return identity(context.session.call(units.state, **context.wanted.unit_id))


def asked_digest(settings: Any) -> str:
    """A digest of a gate's settings."""
    return digest(settings.model_dump(mode="json"))
