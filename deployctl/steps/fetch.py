"""fetch: the model and its drafter lie whole on the host, and the release has its own view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from deployctl.agent.wire.answers import Disk
from deployctl.agent.wire.stored import Model, View
from deployctl.config.base import Settings
from deployctl.errors import HostError, StagingFailed
from deployctl.hosts.operations import files, models
from deployctl.hosts.session import Call
from deployctl.hosts.upload import upload
from deployctl.steps import facts
from deployctl.steps.delivery import MakesItself, delivery_words
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
            lacking = list(wrong(wanted, answers, role))
            if not lacking or found is None:
                continue
            refused = answers[role]["error"]
            if refused:
                reason = f"{role}: {refused['message']}"
                unknown = refused["kind"] == "unreachable"
                return Plan("unknown" if unknown else "blocked", reason=reason)
            if found.path is not None:
                return Plan("blocked", reason=f"{role} {found.path}: {'; '.join(lacking)}")
            why = "; ".join(lacking)
            if role in wanted.deliveries:
                why = f"{why}; {wanted.deliveries[role].words}"
            changes.append(Change(role, None, found.repo or found.bundled, why))
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
            if found is None or not list(wrong(wanted, answers, role)):
                continue
            if found.bundled is not None:
                _send(context, sources.shipped(found.bundled))
            elif found.repo is not None and not self._receives(context, role):
                self._download(context, role, found.repo)
                if role in wanted.deliveries:
                    context.courier.made(context, role)
        if sources.source(wanted, DRAFTER) is not None:
            place = sources.place(wanted, answers, DRAFTER)
            context.session.call(models.view, source=place, path=context.release.drafter)

    def prove(self, context: Context) -> Evidence:
        wanted = context.wanted
        answers = sources.survey(context)
        for role in _wanted_roles(wanted):
            answers = sources.adopted(answers, role, context.answers.get(role))
            lacking = list(wrong(wanted, answers, role))
            if lacking:
                place = sources.place(wanted, answers, role)
                raise self.fail(
                    context,
                    f"the {role} in {place} is incomplete",
                    "; ".join(lacking),
                    "retry: missing files are fetched",
                )
        evidence = _evidence(wanted, answers)
        if wanted.option(self.name, DEEP, False):
            for role in _wanted_roles(wanted):
                evidence[role]["checksums"] = self._compare(context, answers, role)
        for role in _wanted_roles(wanted):
            if role in wanted.deliveries:
                told = context.evidence.get(role) or wanted.deliveries[role].document()
                evidence[role]["delivery"] = told
        return evidence

    def sentence(self, ended: Mapping[str, Any]) -> str:
        roles = ((role, ended["evidence"].get(role) or {}) for role in sources.ROLES)
        told = ((role, delivery_words(evidence)) for role, evidence in roles)
        return "; ".join(f"{role}{words}" for role, words in told if words)

    def manifest(self, evidence: Mapping[str, Any]) -> dict[str, Any]:
        return {"models": {role: evidence[role] for role in sources.ROLES if role in evidence}}

    def goes_on(self, wanted: Deployment, release: ReleasePaths) -> str:
        return "a download continues on the host and a retry attaches to it"

    def _compare(self, context: Context, answers: Answers, role: Key[Model]) -> str:
        damaged = checksums.damaged(context, answers, role)
        if damaged is None:
            context.log(f"{role}: no published checksums for a folder on the host")
            return "unknown"
        if damaged:
            raise self.fail(
                context,
                f"the {role} in {sources.place(context.wanted, answers, role)} is damaged",
                "\n".join(f"{name}: content differs from its source" for name in damaged),
                "retry: damaged files were removed and are fetched again",
            )
        return "as promised"

    def _receives(self, context: Context, role: Key[Model]) -> bool:
        """Whether a model comes from another host; then it is here, as its source promises it."""
        delivery = context.wanted.deliveries.get(role)
        if delivery is None or not delivery.receives:
            return False
        answer = context.answers[role]
        folder = f"@/models/{PurePosixPath(str(answer['place'])).name}"
        try:
            told = context.courier.receive(context, role, folder)
        except MakesItself as instead:
            context.log(str(instead))
            context.evidence[role] = instead.delivery.document()
            return False
        except HostError as error:
            what = error.what.removeprefix(f"{error.host}: ")
            raise self.fail(context, f"the {role}: {what}", error.why, error.next) from error
        context.evidence[role] = {**delivery.document(), **told["delivery"]}
        promised = hub.wanted_files(answer["remote"] or ())
        digests = {file["name"]: file["sha256"] for file in promised if file["sha256"]}
        context.progress("comparing checksums", folder)
        found = context.session.call(models.checksums, path=folder, names=sorted(digests))
        damaged = [name for name, digest in digests.items() if found[name] != digest]
        if damaged:
            raise self.fail(
                context,
                f"the {role} that came from {delivery.producer} is damaged",
                "\n".join(f"{name}: content differs from its source" for name in damaged),
                f"run: deployctl fetch --deep --host {delivery.producer}, then retry",
            )
        return True

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


def wrong(wanted: Deployment, answers: Answers, role: Key[Model]) -> Iterator[str]:
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
