"""The drafter's config once more, while the server answers: as proven, and as it was read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from deployctl.agent.wire.answers import FileContent
from deployctl.errors import RemoteError
from deployctl.hosts.operations import files
from deployctl.hosts.session import Call, known
from deployctl.steps.builds.built import sha256
from deployctl.steps.facts import DRAFTER
from deployctl.steps.interface import Context
from deployctl.steps.models import sources
from deployctl.vllm.drafters.drafter import DrafterConfigError, parse
from deployctl.vllm.drafters.loaded import layers


@dataclass(frozen=True)
class LoadedDrafter:
    """What was found; `problem` is a reason not to call the server ready, `note` one to say."""

    evidence: dict[str, Any]
    problem: str = ""
    note: str = ""


def loaded_drafter(context: Context, log: str) -> LoadedDrafter | None:
    """Read the config and the launch settings again; None where no drafter model is wanted."""
    if sources.source(context.wanted, DRAFTER) is None:
        return None
    config, started_with = _read(context)
    if config["text"] is None:
        return LoadedDrafter({}, f"{config['path']} is gone")
    evidence: dict[str, Any] = {"sha256": sha256(config["text"])}
    if started_with is not None and started_with != config["text"]:
        return LoadedDrafter(evidence, "the drafter's config changed while the server started")
    try:
        found = layers(log, parse(config["text"]))
    except DrafterConfigError as error:
        return LoadedDrafter(evidence, f"{config['path']}: {error}")
    if found is None:
        return LoadedDrafter(evidence)
    evidence["layers"] = {"loaded": found.loaded, "wanted": found.wanted}
    complaint = found.complaint
    if found.loaded == found.without_offset:
        return LoadedDrafter(evidence, note=complaint)
    return LoadedDrafter(evidence, complaint)


def config_on_disk(context: Context) -> dict[str, Any] | None:
    """``{"path", "sha256", "drifted"}`` of the serving release's config.json: `drifted` says
    whether it differs from what the server was launched with, None where that is unknown. None
    where no drafter model is wanted."""
    if sources.source(context.wanted, DRAFTER) is None:
        return None
    try:
        config, started_with = _read(context)
    except RemoteError as error:
        path = f"{context.release.drafter}/config.json"
        return {"path": path, "sha256": None, "drifted": None, "why": error.message}
    drifted = None if started_with is None else started_with != config["text"]
    return {"path": config["path"], "sha256": config["sha256"], "drifted": drifted}


def _read(context: Context) -> tuple[FileContent, str | None]:
    """config.json as it lies there, and the text that the release was launched with."""
    config, launch = context.session.ask(
        (
            Call(files.read, path=f"{context.release.drafter}/config.json"),
            Call(files.read, path=f"{context.release.directory}/launch.json"),
        )
    )
    started = known(launch)["text"]
    return known(config), json.loads(started).get("drafter_config") if started else None
