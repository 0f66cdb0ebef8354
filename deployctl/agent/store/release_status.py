"""What is known of a release beside its manifest: that it was prepared, that it failed, and what
its rehearsed start has shown.

A release's directory (see `identity`) holds `prepared.json`, `failed.json` and `rehearsed.json`
beside what was made, and `server.log` of a start that failed.
"""

from __future__ import annotations

import os
import shutil
from typing import Any, Dict

from ..core.atomic_files import read_json, replacing, write_json
from ..core.interface import AgentError, Call
from ..core.regular_files import open_regular, read_piece
from ..supervision.unit_files import Unit
from ..wire.stored import KeptLog, LogKept

PREPARED = "prepared.json"
FAILED = "failed.json"
REHEARSED = "rehearsed.json"
FAILURES = 20
"""Failures of one release that are kept."""
LOG = "server.log"
KINDS = {"prepared": PREPARED, "failed": FAILED, "rehearsed": REHEARSED}


def _folder(call: Call, profile: str, unit: str, release: str) -> str:
    path = os.path.abspath(os.path.join(call.unit(profile, unit, "releases"), release))
    if os.path.basename(path) != release or not os.path.isdir(path):
        raise AgentError("no-release", "there is no release %s" % release)
    return path


def write(
    call: Call, profile: str, unit: str, release: str, kind: str, told: Dict[str, Any]
) -> str:
    """Note that a release was prepared, failed or was rehearsed, with what is known; the path.

    One that fails again keeps what earlier runs measured of it, where this one came to no figure,
    and every failure in `failures`, oldest first.
    """
    if kind not in KINDS:
        raise AgentError("bad-arguments", "invalid mark %s" % kind)
    path = os.path.join(_folder(call, profile, unit, release), KINDS[kind])
    if kind == "failed":
        told = _with_earlier(read_json(path) or {}, told)
    write_json(path, told)
    return path


def _with_earlier(before: Dict[str, Any], told: Dict[str, Any]) -> Dict[str, Any]:
    evidence = dict(before.get("evidence") or {}, **(told.get("evidence") or {}))
    failures = before.get("failures") or ([_failure(before)] if before else [])
    return dict(told, evidence=evidence, failures=[*failures, _failure(told)][-FAILURES:])


def _failure(told: Dict[str, Any]) -> Dict[str, Any]:
    return {"run": told.get("failed_in"), "error": told.get("error")}


def failed(call: Call, profile: str, unit: str) -> Dict[str, Dict[str, Any]]:
    """The releases that failed and never were complete, with what was noted, by id."""
    releases = call.unit(profile, unit, "releases")
    found = _noted(releases, FAILED)
    return {
        name: told
        for name, told in found.items()
        if not os.path.exists(os.path.join(releases, name, "manifest.json"))
    }


def rehearsed(call: Call, profile: str, unit: str) -> Dict[str, Dict[str, Any]]:
    """What the last rehearsal of each release has shown, by id."""
    return _noted(call.unit(profile, unit, "releases"), REHEARSED)


def _noted(releases: str, file: str) -> Dict[str, Dict[str, Any]]:
    names = sorted(os.listdir(releases)) if os.path.isdir(releases) else []
    # Hidden ones are on their way out.
    notes = {n: read_json(os.path.join(releases, n, file)) for n in names if not n.startswith(".")}
    return {name: told for name, told in notes.items() if told is not None}


def keep_log(call: Call, profile: str, unit: str, release: str) -> LogKept:
    """Copy the server's log into the directory of its release before the next start turns it over.

    `kept` is false where the server that ran last is of another release.
    """
    folder = _folder(call, profile, unit, release)
    spec = Unit(call, profile, unit).spec()
    if spec is None or spec["release"] != release or not os.path.exists(spec["log"]):
        return {"kept": False}
    with open_regular(spec["log"]) as log, replacing(os.path.join(folder, LOG), 0o600) as kept:
        shutil.copyfileobj(log, kept)
    return {"kept": True}


def log(call: Call, profile: str, unit: str, release: str, limit: int = 262144) -> KeptLog:
    """The end of a release's kept log, at most `limit` bytes; `text` is None where none is kept."""
    path = os.path.join(_folder(call, profile, unit, release), LOG)
    if not os.path.exists(path):
        return {"text": None, "size": 0}
    found = read_piece(path, -limit, limit)
    return {"text": found.data.decode("utf-8", "replace"), "size": found.size}


OPERATIONS = (write, failed, rehearsed, keep_log, log)
