"""What is sent from this host and received by it, requested and reported in pieces."""

from __future__ import annotations

import os
import time

from ..core.atomic_files import read_json
from ..core.interface import AgentError, Call
from ..supervision import jobs
from ..wire.shipping import Described, Finished, Forgotten, Listening, Prepared, Received
from . import source
from .incoming import Incoming
from .moving import LISTENING
from .parcel import unpack as unpack
from .pieces import Layout, Manifest

POLL = 0.02


def describe(call: Call, folder: str) -> Described:
    """What is to be sent of a folder: `place`, its `manifest`, its `bytes`, and the `note` in which
    the manifest is kept for the sender. Error `nothing` where there is no file."""
    place = call.path(folder)
    manifest = source.described(call.root, place, call.step)
    if not manifest["files"]:
        raise AgentError("nothing", "%s holds no files" % place)
    layout = Layout(manifest)
    note = source.manifest_note(call.root, place)
    return {"place": place, "manifest": manifest, "bytes": layout.total, "note": note}


def forget(call: Call, folder: str) -> Forgotten:
    """Drop what is known of a folder's checksums: it changed, or is gone."""
    place = call.path(folder)
    source.forget(call.root, place)
    return {"place": place}


def prepare(call: Call, folder: str, manifest: Manifest) -> Prepared:
    """Make ready to receive a folder: `place`, the pieces that are `missing`, and how many `bytes`
    these are; what came before an interruption counts once its checksums are right. Errors:
    `busy`, `no-space`."""
    incoming = Incoming(call.path(folder))
    lacking = incoming.prepare(manifest, call.step)
    layout = Layout(manifest)
    return {
        "place": incoming.folder,
        "missing": lacking,
        "bytes": sum(layout.length(number) for number in lacking),
    }


def received(call: Call, folder: str) -> Received:
    """The pieces that are `missing` yet, and how often some came `damaged`: [number, times]."""
    incoming = Incoming(call.path(folder))
    damaged = [[number, times] for number, times in sorted(incoming.damaged().items())]
    return {"missing": incoming.lacking(), "damaged": damaged}


def listening(call: Call, folder: str, token: str, job: str, wait: float) -> Listening:
    """The `port` on which a job receives a folder from another host; error `not-listening` where
    it ended before, or does not within `wait` seconds."""
    note = os.path.join(Incoming(call.path(folder)).notes, LISTENING)
    ends = time.monotonic() + wait
    while time.monotonic() < ends:
        found = read_json(note) or {}
        if found.get("token") == token:
            return {"port": found["port"]}
        if jobs.state(call, job)["state"] != "running":
            break
        call.step()
        time.sleep(POLL)
    raise AgentError("not-listening", "no listener for %s" % folder)


def finish(call: Call, folder: str) -> Finished:
    """Give a folder that has come whole its name: `place`, `files` and `bytes`. Errors:
    `incomplete`, `busy`."""
    incoming = Incoming(call.path(folder))
    layout = incoming.finish(call.step)
    return {"place": incoming.folder, "files": len(layout.files), "bytes": layout.total}


OPERATIONS = (describe, forget, prepare, received, listening, finish, unpack)
