"""The uv of a host, brought along where it has none."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from deployctl.hosts.upload import upload
from deployctl.steps.facts import TOOLS
from deployctl.steps.interface import Context, Step

TOO_OLD = (0, 8)
"""uv before this knows neither `venv --clear` nor --torch-backend."""


def ensure_uv(step: Step, context: Context) -> str:
    """The host's uv; ours is sent to a host that has none, or too old a one."""
    tools = context.answers[TOOLS]
    version = _numbers(tools["uv_version"])
    if tools["uv"] and version is not None and version >= TOO_OLD:
        return tools["uv"]
    from uv import find_uv_bin

    ours = Path(find_uv_bin())
    agent, here = context.session.agent, _this_machine()
    there = (agent["machine"], tools["libc"].split("-")[0])
    if there != here:
        raise step.fail(
            context,
            "the host has no uv and ours does not run there",
            f"it is {' '.join(there)}, this machine is {' '.join(here)}",
            "install uv on the host: https://docs.astral.sh/uv/",
        )
    context.progress("sending uv")
    path = f"{context.session.root}/tools/uv"
    upload(context.session, ours, path, 0o755)
    return path


def _numbers(version: str | None) -> tuple[int, ...] | None:
    parts = (version or "").split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else None


def _this_machine() -> tuple[str, str]:
    return platform.machine(), platform.libc_ver(sys.executable)[0]
