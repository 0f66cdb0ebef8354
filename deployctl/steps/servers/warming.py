"""The next server imports what it needs beside the one that serves, and waits for its turn."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any

from deployctl.errors import RemoteError
from deployctl.hosts.operations import models, units
from deployctl.steps.interface import Context, Deployment

AHEAD = "read_ahead"
"""In evidence: the weights that were read into memory before the switch."""
PLAIN = "plain"
"""In evidence: why a server was started plainly."""
NEED = 3 << 30
"""Bytes of memory that must be available for one more process with all of vLLM's imports: it takes
1 to 2 GiB, on a GPU host as on a CPU."""
WAIT = 600.0
"""Seconds that it waits at most, beside the grace of what it replaces."""
READ_LIMIT = 300.0
"""Seconds in which weights are read ahead."""
PATIENCE = 180.0
"""Seconds for the imports; 11 on an H200, 70 from cold files."""


def launcher_source() -> str:
    """The program that imports and waits."""
    return resources.files("deployctl.vllm.serving").joinpath("warm_launcher.py").read_text("utf-8")


def unwanted(wanted: Deployment) -> str:
    """Why the profile wants none; empty where it does."""
    if wanted.member is not None:
        return "a rank of a group starts with the others"
    return "switch.warm is false" if wanted.profile.switch.warm is False else ""


def begin(context: Context, start: Mapping[str, Any]) -> str:
    """Have the process of a coming start import everything; why it could not, or nothing."""
    wanted = context.wanted
    context.log("the next server imports beside what serves")
    try:
        warmed = context.session.call(
            units.warm,
            **wanted.unit_id,
            **start,
            launcher=launcher_source(),
            python=f"{context.release.environment}/bin/python",
            need=NEED if wanted.profile.switch.warm == "auto" else 0,
            patience=PATIENCE,
            limit=WAIT + start["grace"],
        )
    except RemoteError as error:
        said = error.message
        last = str(error.detail or "").strip().splitlines()[-1:]
        return ": ".join([said, *last]) if error.kind == "not-warm" else said
    told = warmed["told"]
    context.log(f"it waits, pid {warmed['pid']}: imports took {told['seconds']:g} s")
    return ""


def read_ahead(context: Context, start: Mapping[str, Any]) -> dict[str, Any]:
    """Have the weights that a start will load read into memory; what was measured."""
    argv = start["argv"]
    drafter = context.release.drafter if "--speculative-config" in argv else None
    context.log("reading weights ahead")
    found = context.session.call(
        models.read_ahead,
        paths=[argv[2], *([drafter] if drafter else [])],
        keep=NEED,
        limit=READ_LIMIT,
    )
    if found["skipped"]:
        context.log(f"weights were not all read ahead: {found['skipped']}")
    return {**found}


def sentence(evidence: Mapping[str, Any]) -> str:
    """How a server was begun, for people; empty where nothing is known of it."""
    warm = evidence.get("warm")
    if warm:
        reason = f" ({warm['reason']})" if warm.get("reason") else ""
        return f"warm start, engine by {warm['method']}{reason}"
    return f"plain start: {evidence[PLAIN]}" if evidence.get(PLAIN) else ""
