"""The drafter's config once more, when the server answers: as proven, and as it was read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from deployctl.errors import RemoteError
from deployctl.hosts.session import Call
from deployctl.steps.builds.built import sha256
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
    if sources.source(context.wanted, "drafter") is None:
        return None
    config, launch = context.session.ask(
        [
            Call("files.read", {"path": f"{context.release.drafter}/config.json"}),
            Call("files.read", {"path": f"{context.release.directory}/launch.json"}),
        ]
    )
    for answer in (config, launch):
        if isinstance(answer, RemoteError):
            raise answer
    if config["text"] is None:
        return LoadedDrafter({}, f"{config['path']} is gone")
    evidence: dict[str, Any] = {"sha256": sha256(config["text"])}
    started_with = json.loads(launch["text"]).get("drafter_config") if launch["text"] else None
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
