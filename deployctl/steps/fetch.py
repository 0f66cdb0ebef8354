"""fetch: the model and its drafter lie whole on the host, and the release has its own view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deployctl.agent.wire.answers import Disk
from deployctl.agent.wire.stored import Model, View
from deployctl.config.base import Settings
from deployctl.errors import StagingFailed
from deployctl.hosts.operations import files, models
from deployctl.hosts.session import Call
from deployctl.hosts.upload import upload
from deployctl.steps import facts
from deployctl.steps.facts import DRAFTER, VIEWS
from deployctl.steps.identity import ReleasePaths
from deployctl.steps.interface import (
    MODELS,
    Answers,
    Change,
    Context,
    Deployment,
    Evidence,
    Key,
    Plan,
    Question,
    Step,
)
from deployctl.steps.models import checksums, hub, sources
from deployctl.steps.release import release_paths

DISK = Key[Disk]("fetch.disk")
DEEP = "deep"
"""Option: compare the files' checksums with those of their source, not their sizes alone."""


class FetchOptions(Settings):
    """fetch: how thoroughly what lies there is compared."""

    deep: bool = False
    """Compare file checksums, not only sizes."""


class FetchStep(Step):
    """Brings models to the host; what is there already is verified, not fetched."""

    name = "fetch"
    phase = "stage"
    failure = StagingFailed
    options = FetchOptions
    produces = frozenset({MODELS})

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        asked = [sources.question(wanted, role) for role in sources.ROLES]
        return [
            *(q for q in asked if q is not None),
            facts.drafter_views(wanted),
            Question(DISK, Call(files.disk, path="@/models")),
        ]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        changes: list[Change] = []
        for role in _wanted_roles(wanted):
            found = sources.source(wanted, role)
            wrong = list(_wrong(wanted, answers, role))
            if not wrong or found is None:
                continue
            refused = answers[role]["error"]
            if refused:
                reason = f"{role}: {refused['message']}"
                unknown = refused["kind"] == "unreachable"
                return Plan("unknown" if unknown else "blocked", reason=reason)
            if found.path is not None:
                return Plan("blocked", reason=f"{role} {found.path}: {'; '.join(wrong)}")
            changes.append(Change(role, None, found.repo or found.bundled, "; ".join(wrong)))
        if sources.source(wanted, DRAFTER) is not None:
            release = release_paths(wanted, answers).release
            if not _view_whole(answers[VIEWS].get(release), answers[DRAFTER]):
                changes.append(Change("the release's view of the drafter", None, release))
        short = _disk_short(wanted, answers)
        if short:
            return Plan("blocked", reason=short)
        if changes:
            return Plan("change", tuple(changes))
        if wanted.option(self.name, DEEP, False):
            return Plan("check", reason="checksums are compared")
        return Plan("unchanged", evidence=_evidence(wanted, answers))

    def apply(self, context: Context, plan: Plan) -> None:
        wanted, answers = context.wanted, context.answers
        for role in _wanted_roles(wanted):
            found = sources.source(wanted, role)
            if found is None or not list(_wrong(wanted, answers, role)):
                continue
            if found.bundled is not None:
                _send(context, sources.shipped(found.bundled))
            elif found.repo is not None:
                self._download(context, role, found.repo)
        if sources.source(wanted, DRAFTER) is not None:
            place = sources.place(wanted, answers, DRAFTER)
            context.session.call(models.view, source=place, path=context.release.drafter)

    def prove(self, context: Context) -> Evidence:
        wanted = context.wanted
        answers = sources.survey(context)
        for role in _wanted_roles(wanted):
            wrong = list(_wrong(wanted, answers, role))
            if wrong:
                place = sources.place(wanted, answers, role)
                raise self.fail(
                    context,
                    f"the {role} in {place} is incomplete",
                    "; ".join(wrong),
                    "retry: missing files are fetched",
                )
        evidence = _evidence(wanted, answers)
        if wanted.option(self.name, DEEP, False):
            for role in _wanted_roles(wanted):
                evidence[role]["checksums"] = self._compare(context, answers, role)
        return evidence

    def manifest(self, evidence: Mapping[str, Any]) -> dict[str, Any]:
        return {"models": {role: evidence[role] for role in sources.ROLES if role in evidence}}

    def goes_on(self, wanted: Deployment, release: ReleasePaths) -> str:
        return "a download continues on the host and a retry attaches to it"

    def _compare(self, context: Context, answers: Answers, role: Key[Model]) -> str:
        wrong = checksums.damaged(context, answers, role)
        if wrong is None:
            context.log(f"{role}: no published checksums for a folder on the host")
            return "unknown"
        if wrong:
            raise self.fail(
                context,
                f"the {role} in {sources.place(context.wanted, answers, role)} is damaged",
                "\n".join(f"{name}: content differs from its source" for name in wrong),
                "retry: damaged files were removed and are fetched again",
            )
        return "as promised"

    def _download(self, context: Context, role: Key[Model], repo: str) -> None:
        answer = context.answers[role]
        final = hub.download(context, repo, answer)
        if final["state"] != "done":
            raise self.fail(
                context,
                f"the {role} {repo} could not be fetched: the download {final['state']}",
                "\n".join(filter(None, [final.get("why", ""), hub.last_words(context, final)])),
                "retry: it resumes",
                {"job": final["id"], "log": final["log"]},
            )


def _wanted_roles(wanted: Deployment) -> list[Key[Model]]:
    return [role for role in sources.ROLES if sources.source(wanted, role) is not None]


def _wrong(wanted: Deployment, answers: Answers, role: Key[Model]) -> Iterator[str]:
    """What is not right with a model's folder; nothing where it is whole."""
    found, answer = sources.source(wanted, role), answers[role]
    if not answer["exists"]:
        yield "not there"
        return
    for name, why in answer["damaged"].items():
        yield f"{name}: {why}"
    if answer["config"] is None:
        yield "no config.json"
    for name, size in _promised(found, answer).items():
        if answer["files"].get(name) != size:
            yield f"{name}: {answer['files'].get(name)} bytes, not {size}"


def _promised(found: Any, answer: Model) -> dict[str, int]:
    """The sizes that the source promises, by file; empty where it promises none."""
    if found.bundled is not None:
        return {name: size for name, (size, _) in sources.shipped(found.bundled).files.items()}
    remote = hub.wanted_files(answer["remote"] or ())
    return {file["name"]: file["size"] for file in remote if file["size"] is not None}


def _disk_short(wanted: Deployment, answers: Answers) -> str:
    """Why what is to be fetched does not fit on the disk; empty where it does."""
    needed = 0
    for role in _wanted_roles(wanted):
        answer = answers[role]
        for name, size in _promised(sources.source(wanted, role), answer).items():
            needed += 0 if answer["files"].get(name) == size else size
    disk = answers.get(DISK)
    if disk is None or needed <= disk["free"]:
        return ""
    free = disk["free"]
    return f"{needed >> 20} MiB are to be fetched, {disk['path']} has {free >> 20} MiB free"


def _view_whole(view: View | None, survey: Model) -> bool:
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
    return {
        role: {
            **(sources.identity(wanted, answers, role) or {}),
            "place": answers[role]["place"],
            "files": len(answers[role]["files"]),
            "bytes": answers[role]["bytes"],
        }
        for role in _wanted_roles(wanted)
    }
