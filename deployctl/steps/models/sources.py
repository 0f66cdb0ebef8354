"""Where a wanted model lies on a host, what names it, and what its config.json is. Pure."""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from deployctl.agent.wire.stored import Model
from deployctl.config.models import ModelSource
from deployctl.config.shipped import bundled_model
from deployctl.hosts.operations import hub, models
from deployctl.hosts.session import Call, known
from deployctl.steps.facts import DRAFTER, MODEL
from deployctl.steps.identity import digest
from deployctl.steps.interface import Answers, Context, Deployment, Key, Question, Unanswered
from deployctl.vllm import json_text


@dataclass(frozen=True)
class Shipped:
    """A model that comes with deployctl: its files by relative name, with size and SHA-256."""

    name: str
    folder: Path
    files: Mapping[str, tuple[int, str]]

    @property
    def digest(self) -> str:
        return digest({name: sha for name, (_, sha) in self.files.items()})

    @property
    def place(self) -> str:
        """Its folder on a host, named by its content: another content is another folder."""
        return f"@/models/{self.name}-{self.digest}"


@functools.cache
def shipped(name: str) -> Shipped:
    """Read a bundled model; links are followed, so that a host gets files."""
    folder = bundled_model(name)
    files = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        data = path.read_bytes()
        files[str(path.relative_to(folder))] = (len(data), hashlib.sha256(data).hexdigest())
    return Shipped(name, folder, files)


ROLES = (MODEL, DRAFTER)
REVISION = "revision"
COMMIT = re.compile(r"[0-9a-f]{40}")


def source(wanted: Deployment, role: Key[Model]) -> ModelSource | None:
    """The wanted target model or drafter; None for a method that needs no drafter model."""
    if role == "model":
        return wanted.profile.model
    drafter = wanted.profile.drafter
    return drafter.model if drafter is not None else None


class HubAccess(TypedDict, total=False):
    """Which hub is asked and with what token, where they are not the host's own."""

    endpoint: str
    token: str


class Secret(str):
    """A value that travels to a host and shows nowhere: printed, it says that it is one."""

    def __repr__(self) -> str:
        return "<secret>"


def hub_access(wanted: Deployment) -> HubAccess:
    """Which hub to ask and with what token, as the profile and our own environment say.

    A token goes to another machine only where the profile names it: serve.secrets: HF_TOKEN.
    """
    serve = wanted.profile.serve
    access: HubAccess = {}
    endpoint = serve.env.get("HF_ENDPOINT") or os.environ.get("HF_ENDPOINT")
    if endpoint:
        access["endpoint"] = endpoint
    named = serve.secrets.get("HF_TOKEN")
    token = os.environ.get(named.env) if named else None
    if token:
        access["token"] = Secret(token)
    return access


def question(wanted: Deployment, role: Key[Model]) -> Question[Model] | None:
    """What must be known about a wanted model; its key is the role."""
    found = source(wanted, role)
    if found is None:
        return None
    tensors, access = role == DRAFTER, hub_access(wanted)
    if found.repo is None:
        place = shipped(found.bundled).place if found.bundled is not None else str(found.path)
        return Question(role, Call(models.survey, path=place, tensors=tensors))
    if COMMIT.fullmatch(found.revision or ""):
        call = Call(hub.survey, repo=found.repo, revision=found.revision, tensors=tensors, **access)
        return Question(role, call)
    settled = wanted.settled.get(role)
    call = Call(
        hub.survey,
        repo=found.repo,
        revision=settled or found.revision,
        tensors=tensors,
        always=settled is not None,
        **access,
    )
    return Question(role, call, moving=REVISION)


def survey(context: Context) -> Answers:
    """The models as they lie on the host now, while a plan's answers are from before the fetch."""
    asked = [found for role in ROLES if (found := question(context.wanted, role)) is not None]
    values = context.session.ask([q.call for q in asked])
    return Answers({q.key: known(value) for q, value in zip(asked, values, strict=True)})


def adopted(answers: Answers, role: Key[Model], told: Model | None) -> Answers:
    """The answers of a host that cannot ask the hub, with what it answered another one."""
    own = answers.get(role)
    if own is None or told is None or told["error"] or not own["error"]:
        return answers
    renewed: Model = {
        **own,
        "error": None,
        "remote": own["remote"] or told["remote"],
        "config": own["config"] or told["config"],
    }
    return answers.renewed(Answers({role: renewed}))


def place(wanted: Deployment, answers: Answers, role: Key[Model]) -> str:
    """The absolute folder of a wanted model on the host."""
    return answers[role]["place"]


def identity(wanted: Deployment, answers: Answers, role: Key[Model]) -> dict[str, Any] | None:
    """What tells this model from every other, for the release's id."""
    found = source(wanted, role)
    if found is None:
        return None
    if found.bundled is not None:
        return {"bundled": found.bundled, "digest": shipped(found.bundled).digest}
    answer = answers[role]
    if found.repo is not None:
        if answer["commit"] is None:
            refused = answer["error"]
            raise Unanswered(f"{role}: {refused['message'] if refused else 'no commit is known'}")
        return {"repo": found.repo, "commit": answer["commit"]}
    return {"path": found.path, "config": answer["config"] and answer["config"]["sha256"]}


def model_identity(wanted: Deployment, answers: Answers) -> dict[str, Any]:
    """What names the target model in a release's id."""
    found = identity(wanted, answers, MODEL)
    assert found is not None, "a profile has a model"
    return found


def drafter_identity(wanted: Deployment, answers: Answers) -> dict[str, Any] | None:
    """What names the drafter and its config in a release's id; None without a drafter model.

    Without the drafter step the config stays upstream's, which makes another release.
    """
    found = identity(wanted, answers, DRAFTER)
    if found is None or wanted.profile.drafter is None:
        return None
    overrides = {} if "drafter" in wanted.skip else wanted.profile.drafter.config
    return {**found, "config_overrides": overrides}


def config_text(wanted: Deployment, answers: Answers, role: Key[Model]) -> str:
    """A wanted model's own config.json, as upstream has it; raises `Unanswered`."""
    found = source(wanted, role)
    if found is not None and found.bundled is not None:
        return (shipped(found.bundled).folder / "config.json").read_text(encoding="utf-8")
    config = answers[role]["config"]
    if config is None:
        refused = answers[role]["error"]
        why = refused["message"] if refused else f"{answers[role]['place']} has no config.json"
        raise Unanswered(f"{role}: {why}")
    return config["text"]


def config(wanted: Deployment, answers: Answers, role: Key[Model]) -> dict[str, Any]:
    """The same, parsed; `Unanswered` where it is not a JSON object."""
    try:
        found = json_text.parsed(config_text(wanted, answers, role))
    except ValueError as error:
        raise Unanswered(f"{role}: config.json is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Unanswered(f"{role}: config.json holds no object")
    return found


def weight_bytes(answers: Answers, role: Key[Model]) -> int:
    """Bytes of a model's weights on the host; `Unanswered` where they are not there yet."""
    if not answers[role]["exists"]:
        raise Unanswered(f"{role}: not on the host yet")
    suffixes = (".safetensors", ".bin", ".pt")
    files = answers[role]["files"].items()
    return sum(size for name, size in files if name.endswith(suffixes))
