"""Fetching a hub's model on the host: one job, resumed where it hung, checked by digest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

from deployctl.agent.wire.jobs import JobState
from deployctl.agent.wire.stored import HubFile, Model
from deployctl.steps import job
from deployctl.steps.interface import Context
from deployctl.steps.models.sources import hub_access

ATTEMPTS = 3
"""A download that hung or broke off is resumed this often in one run."""
OTHER_FORMATS = (".bin", ".pt", ".pth", ".gguf", ".onnx", ".h5", ".msgpack", ".ot")


def wanted_files(remote: Iterable[HubFile]) -> list[HubFile]:
    """What a server reads of a repository: other formats are left where safetensors are."""
    files = [file for file in remote if not file["name"].startswith((".", "original/"))]
    if not any(file["name"].endswith(".safetensors") for file in files):
        return files
    return [file for file in files if not file["name"].endswith(OTHER_FORMATS)]


def download(context: Context, repo: str, answer: Model) -> JobState:
    """Fetch a surveyed repository's commit; the job's final state."""
    access, commit = hub_access(context.wanted), answer["commit"] or "unknown"
    asked = {
        "repo": repo,
        "revision": answer["commit"],
        "folder": answer["place"],
        "files": wanted_files(answer["remote"] or ()),
    }
    env = {
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    if "endpoint" in access:
        env["HF_ENDPOINT"] = access["endpoint"]
    step = {
        "phase": f"fetching {repo}",
        "argv": [
            f"{context.release.environment}/bin/python",
            "-I",
            "-c",
            resources.files("deployctl.steps.models").joinpath("download.py").read_text("utf-8"),
            json.dumps(asked),
        ],
        "env": env,
        "secrets": {"HF_TOKEN": access["token"]} if "token" in access else {},
    }
    build = context.wanted.profile.build
    for attempt in range(1, ATTEMPTS + 1):
        final = job.run(
            context,
            f"fetch-{repo.replace('/', '--')}-{commit[:12]}",
            [step],
            stall=build.stall,
            limit=build.limit,
            label={
                "repo": repo,
                "commit": answer["commit"],
                "folder": answer["place"],
                "attempt": attempt,
            },
        )
        if final["state"] in ("done", "stopped"):
            break
        context.log(f"the download {final['state']}, attempt {attempt} of {ATTEMPTS}")
    return final


def last_words(context: Context, final: Mapping[str, Any]) -> str:
    """The last lines of the job's log that are no counters."""
    lines = job.log(context.session, final["id"]).splitlines()
    return "\n".join([line for line in lines if not line.startswith("[")][-5:])
