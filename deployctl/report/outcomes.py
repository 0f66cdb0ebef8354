"""What a run's outcome means, in a sentence that is true for the steps which it had. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deployctl.steps import registry
from deployctl.steps.interface import SERVICE
from deployctl.steps.routers.words import others_served
from deployctl.steps.servers.stopping import REQUESTS, in_words

OUTCOMES = {
    "changed": "done: the host was changed as asked, no server was started",
    "passed": "passed",
    "rolled-back": "failed, and the previous release was restored",
    "failed": "failed",
    "undecided": "undecided: too little evidence for a verdict",
    "skipped": "skipped: another run holds the lock",
    "interrupted": "interrupted",
}


def meaning(document: Mapping[str, Any]) -> str:
    """The sentence for a report."""
    outcome, hosts = document["outcome"], document["hosts"]
    if outcome == "unchanged" and any(host.get("declined") for host in hosts):
        return "unchanged: the wanted release failed before, the serving one was not touched"
    if outcome == "unchanged":
        return f"unchanged: {_unchanged(_names(hosts))}, nothing was touched"
    if outcome == "deployed":
        return f"deployed: {_release(hosts)} {_proof(_names(hosts))}"
    if outcome == "changed" and (done := _last(_names(hosts), "done")):
        return f"done: {done}"
    if outcome == "failed" and len(hosts) > 1:
        return _partly(hosts)
    if outcome == "interrupted" and any(host["restored"] for host in hosts):
        return "interrupted, and the previous release was restored"
    return OUTCOMES.get(outcome, str(outcome))


def _partly(hosts: Sequence[Mapping[str, Any]]) -> str:
    """What failed on some hosts of several, and what came of the others."""
    failed = [host["host"] for host in hosts if host.get("error")]
    done = [host for host in hosts if not host.get("error") and not host.get("held_back")]
    changed = sum(1 for host in done if host.get("changed"))
    said = f"failed on {len(failed)} of {len(hosts)} hosts: {', '.join(failed)}"
    if not done:
        return said
    others = {len(done): "the others were done", 0: "the others were unchanged"}
    return f"{said}; {others.get(changed, f'{changed} of the others were changed')}"


def now_serving(host: Mapping[str, Any]) -> str:
    """After a rollback, which release serves, and after a failure without one, which is still
    serving; empty after a run that did what was asked, and where nothing serves.
    """
    on = host.get("serves_on")
    if on:
        return f"release {on} is still serving" + (
            "" if on == host["previous"] else ", it has not passed"
        )
    if not host["restored"]:
        return ""
    return f"serves again: release {host['previous']}, proven ready"


def ended(host: Mapping[str, Any]) -> str:
    """How a host's part of a run ended, in a word or two."""
    if host.get("held_back"):
        return "not done"
    if host.get("restored"):
        return "rolled back"
    if host.get("error"):
        return "failed"
    return "changed" if host.get("changed") else "unchanged"


def serving(host: Mapping[str, Any]) -> str:
    """The release that serves on a host after a run; `unknown` after a failure that does not say
    so."""
    if host.get("serves_on"):
        return str(host["serves_on"])
    if host.get("restored") or host.get("held_back"):
        return str(host.get("previous") or "none")
    return "unknown" if host.get("error") else str(host.get("release") or "unknown")


def gap(host: Mapping[str, Any]) -> str:
    """What the run cost those who were served: how long nothing served, and how many requests were
    cut off; empty where it cost nothing."""
    cut = in_words({REQUESTS: host})
    seconds = host.get("without_service")
    if seconds is None:
        return cut
    gaps: Sequence[float] = host.get("gaps") or ()
    parts = f", in {len(gaps)} gaps: {', '.join(f'{one:.1f}' for one in gaps)} s"
    still = ", still down" if host.get("still_without_service") else ""
    away = f"without service for {seconds:.1f} s{parts if len(gaps) > 1 else ''}{still}"
    if others_served(host.get("steps") or ()):
        away = f"{away}; the other replicas served"
    return f"{away}, {cut}" if cut else away


def drifted(step: Mapping[str, Any]) -> str:
    """What a gate found of the drafter's config.json; empty where it lay there as launched."""
    config = (step.get("evidence") or {}).get("drafter_config") or {}
    if not config.get("drifted") or step["status"] == "unchanged":
        return ""
    return f"DRIFTED: {config['path']} is not what the server was launched with"


def remarks(step: Mapping[str, Any]) -> Iterator[str]:
    """What a step's checks let pass but warn of, or could not tell."""
    for check in (step.get("evidence") or {}).get("checks") or ():
        if check.get("verdict") in ("warning", "unknown"):
            said = check.get("say") or f"{check['name']}: {check['message']}"
            yield f"{check['verdict']}: {said}"


def _names(hosts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The steps that were carried out, or found to have nothing to do, in order."""
    return [
        step["step"]
        for host in hosts
        for step in host.get("steps", ())
        if step["status"] != "skipped"
    ]


def _last(names: Sequence[str], word: str) -> str:
    """What the last step that has such a word says with it."""
    known = registry.steps()
    words = [getattr(known[name], word) for name in names if name in known]
    return next((found for found in reversed(words) if found), "")


def _unchanged(names: Sequence[str]) -> str:
    idle = _last(names, "idle")
    if idle:
        return idle
    if names and {*names} <= registry.names("stage"):
        return "everything requested is on the host"
    if names and {*names} <= registry.names("gate"):
        return "the gates passed before"
    return "there was nothing to do"


def _release(hosts: Sequence[Mapping[str, Any]]) -> str:
    if any(host.get("earlier") for host in hosts):
        return "the earlier release serves"
    if all(host["release"] == host.get("previous") for host in hosts):
        return "the same release serves, restarted,"
    return "the new release serves"


def _proof(names: Sequence[str]) -> str:
    passed = [*dict.fromkeys(name for name in names if name in registry.names("gate"))]
    if len(passed) > 1:
        return "and has passed its gates"
    if passed:
        return f"and has passed {passed[0]}"
    proven = registry.makers(SERVICE) & {*names}
    return "and no gate ran" if proven else "and was not proven"
