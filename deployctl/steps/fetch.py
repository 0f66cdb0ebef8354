"""fetch: the model and its drafter lie whole on the host, and the release has its own view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deployctl.errors import StagingFailed
from deployctl.hosts.stream import upload
from deployctl.steps import sources
from deployctl.steps.interface import (
    Answers,
    Change,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
)
from deployctl.steps.release import release_paths

VIEWS = "drafter.views"


class FetchStep(Step):
    """Brings models to the host; what is there already is verified, not fetched."""

    name = "fetch"
    phase = "stage"
    failure = StagingFailed

    def questions(self, wanted: Deployment) -> Sequence[Question]:
        asked = [sources.question(wanted, role) for role in sources.ROLES]
        views = Question(VIEWS, "models.views", {"profile": wanted.profile.name})
        return [*(q for q in asked if q is not None), views]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        changes: list[Change] = []
        for role in sources.ROLES:
            found = sources.source(wanted, role)
            if found is None:
                continue
            wrong = list(_wrong(wanted, answers, role))
            if not wrong:
                continue
            if found.path is not None:
                return Plan("blocked", reason=f"{role} {found.path}: {'; '.join(wrong)}")
            changes.append(Change(role, None, found.bundled, "; ".join(wrong)))
        if sources.source(wanted, "drafter") is not None:
            release = release_paths(wanted, answers).release
            if not _view_whole(answers[VIEWS].get(release), answers["drafter"]):
                changes.append(Change("the release's view of the drafter", None, release))
        if changes:
            return Plan("change", tuple(changes))
        return Plan("unchanged", evidence=_evidence(wanted, answers))

    def apply(self, context: Context, plan: Plan) -> None:
        for role in sources.ROLES:
            found = sources.source(context.wanted, role)
            if found is None or found.bundled is None:
                continue
            if list(_wrong(context.wanted, context.answers, role)):
                _send(context, sources.shipped(found.bundled))
        if sources.source(context.wanted, "drafter") is not None:
            place = sources.place(context.wanted, context.answers, "drafter")
            context.session.call("models.view", source=place, path=context.release.drafter)

    def prove(self, context: Context) -> Evidence:
        wanted = context.wanted
        answers = sources.survey(context)
        for role in sources.ROLES:
            if sources.source(wanted, role) is None:
                continue
            wrong = list(_wrong(wanted, answers, role))
            if wrong:
                place = sources.place(wanted, answers, role)
                raise self.fail(context, f"the {role} in {place} is not whole", "; ".join(wrong))
        return _evidence(wanted, answers)


def _wrong(wanted: Deployment, answers: Answers, role: str) -> Iterator[str]:
    """What is not right with a model's folder; nothing where it is whole."""
    found, answer = sources.source(wanted, role), answers[role]
    if not answer["exists"]:
        yield "not there"
        return
    for name, why in answer["damaged"].items():
        yield f"{name}: {why}"
    if answer["config"] is None:
        yield "no config.json"
    if found is not None and found.bundled is not None:
        for name, (size, _) in sources.shipped(found.bundled).files.items():
            if answer["files"].get(name) != size:
                yield f"{name}: {answer['files'].get(name)} bytes, not {size}"


def _view_whole(view: Mapping[str, Any] | None, survey: Mapping[str, Any]) -> bool:
    if view is None or view["broken"] or view["config"] is None or view["config"]["link"]:
        return False
    return set(view["links"]) == set(survey["files"]) - {"config.json"}


def _send(context: Context, model: sources.Shipped) -> None:
    """Upload a bundled model; every file arrives whole or not at all."""
    total = sum(size for size, _ in model.files.values())
    sent = 0
    for name, (size, _) in model.files.items():
        context.progress("sending", f"{model.name}/{name}", sent / total)
        upload(context.session, model.folder / name, f"{model.place}/{name}", 0o644)
        sent += size


def _evidence(wanted: Deployment, answers: Answers) -> Evidence:
    evidence: Evidence = {}
    for role in sources.ROLES:
        found = sources.source(wanted, role)
        if found is None:
            continue
        answer = answers[role]
        evidence[role] = {
            **(sources.identity(wanted, answers, role) or {}),
            "place": answer["place"],
            "files": len(answer["files"]),
            "bytes": answer["bytes"],
        }
    return evidence
