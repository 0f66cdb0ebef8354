"""From host to host: each receiver passes pieces on while more are coming.

Every part is a job of its host: it goes on where the controller is gone, and a later run attaches.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deployctl import cancel
from deployctl.agent.wire.jobs import JobState
from deployctl.errors import HostError, RemoteError, Unreachable
from deployctl.hosts.operations import jobs, shipping
from deployctl.hosts.session import Call
from deployctl.hosts.shipping.key import make_key
from deployctl.hosts.shipping.parties import Goods, Party, Receiver, Tell, ranges

KEY = "DEPLOYCTL_SHIPMENT_KEY"
"""The environment variable of the agent's that the key travels in."""
STALL, LIMIT = 120.0, 86400.0
"""Seconds: a job whose log and processor time stand still for so long is stopped; altogether."""
LISTENS = 30.0
"""Seconds for a receiver to open its port."""
LOG_KEPT = 4000


@dataclass
class _Job:
    party: Party
    id: str
    receiver: Receiver | None = None
    final: JobState | None = None
    failure: HostError | None = None


def attach(
    source: Party,
    receivers: Sequence[Receiver],
    goods: Goods,
    tell: Tell,
    attached: Callable[[Sequence[str]], object],
) -> None:
    """Wait for jobs of an earlier run that still bring these goods; `attached` is called with the
    hosts that have one."""
    found = []
    for job in _jobs(source, receivers, goods):
        with suppress(RemoteError):
            if job.party.session.call(jobs.state, id=job.id)["state"] == "running":
                found.append(job)
    if found:
        attached([job.party.name for job in found])
        _follow_all(found, goods, tell)


def relay(
    source: Party,
    receivers: Sequence[Receiver],
    goods: Goods,
    pieces: Sequence[int],
    tell: Tell,
    port: int | None = None,
) -> HostError | None:
    """Send these pieces along the chain of receivers. Gives why it did not come about or broke;
    what was stored is known to each host."""
    source_job, *chain = _jobs(source, receivers, goods)
    pem, following = make_key(), None
    started: list[_Job] = []
    try:
        for job in reversed(chain):
            assert job.receiver is not None
            started.append(job)
            following = _receive(job, pem, following, port)
        started.append(source_job)
        asked = {
            "from": "disk",
            "folder": goods.place,
            "note": goods.note,
            "pieces": ranges(pieces),
            "next": following,
        }
        _start(source_job, "sending", asked, pem)
    except HostError as error:
        _stop(started)
        return error
    _follow_all(started, goods, tell)
    return next((failed for job in reversed(started) if (failed := _failure(job))), None)


def _jobs(source: Party, receivers: Sequence[Receiver], goods: Goods) -> list[_Job]:
    return [
        _Job(source, f"send-{goods.name}"),
        *(_Job(one.party, f"receive-{goods.name}", one) for one in receivers),
    ]


def _receive(job: _Job, pem: str, following: Any, port: int | None) -> dict[str, Any]:
    """Start a receiver that passes on to `following`; where the host before it finds it."""
    assert job.receiver is not None
    token = secrets.token_hex(8)
    folder = job.receiver.folder
    asked = {
        "from": "listen",
        "folder": folder,
        "port": port or 0,
        "token": token,
        "next": following,
    }
    session = job.party.session
    _start(job, "receiving", asked, pem)
    try:
        found = session.call(
            shipping.listening, folder=folder, token=token, job=job.id, wait=LISTENS
        )
    except RemoteError as error:
        raise _failure(job, session.call(jobs.state, id=job.id)) or error from error
    return {"address": job.party.address, "port": found["port"]}


def _start(job: _Job, phase: str, asked: dict[str, Any], pem: str) -> None:
    step = {
        "phase": phase,
        "argv": ["@agent", "ship", json.dumps(asked)],
        "secrets": {KEY: pem},
    }
    job.party.session.call(
        jobs.start,
        id=job.id,
        steps=[step],
        stall=STALL,
        limit=LIMIT,
        label={"way": "relay", "folder": asked["folder"]},
    )


def _follow_all(found: Sequence[_Job], goods: Goods, tell: Tell) -> None:
    """Until all have ended. Once one has failed from the start, nothing comes to those after it."""
    over = threading.Event()
    left = threading.Semaphore(0)

    def one(job: _Job) -> None:
        try:
            followed = Call(jobs.follow, id=job.id)
            job.final = job.party.session.follow(followed, _told(job, goods, tell))
        except HostError as error:
            job.failure = error
            if job.receiver is not None and not isinstance(error, RemoteError):
                job.receiver.failure = error
        finally:
            left.release()
        if job.receiver is None and not _done(job.final):
            # Who waits for its first piece would wait for nothing.
            _stop([other for other in found if other is not job])

    def wait() -> None:
        for _ in found:
            left.acquire()
        over.set()

    for job in found:
        threading.Thread(target=one, args=(job,), name=f"follow {job.id}", daemon=True).start()
    threading.Thread(target=wait, name="relay", daemon=True).start()
    with cancel.waking(over.set):
        over.wait()
    cancel.check()


def _told(job: _Job, goods: Goods, tell: Tell) -> Callable[[dict[str, Any]], None]:
    """Turns a job's counters into bytes that came."""
    seen = 0.0
    receiver = job.receiver
    wanted = goods.size(receiver.missing) if receiver is not None else 0

    def hear(event: dict[str, Any]) -> None:
        nonlocal seen
        fraction = event.get("fraction")
        if receiver is not None and fraction is not None and fraction > seen:
            tell(receiver, int((fraction - seen) * wanted))
            seen = fraction

    return hear


def _stop(found: Sequence[_Job]) -> None:
    for job in found:
        with suppress(HostError):
            job.party.session.call(jobs.stop, id=job.id, grace=1.0)


def _done(final: JobState | None) -> bool:
    return final is not None and final["state"] == "done"


def _failure(job: _Job, final: JobState | None = None) -> HostError | None:
    """Why a job did not do its part; None where it did."""
    if job.failure is not None:
        return job.failure
    final = final or job.final
    if final is None or _done(final):
        return None
    words = str(final.get("why") or "")
    with suppress(HostError):
        told = job.party.session.call(jobs.log, id=job.id, offset=-LOG_KEPT)["text"]
        lines = [line for line in told.splitlines() if line.startswith("failed: ")]
        words = lines[-1].removeprefix("failed: ") if lines else words
    return Unreachable(
        job.party.name,
        f"the relay {final['state']} here",
        words,
        "see whether the hosts reach each other: address: in their host files, share.relay_port "
        "and their firewalls; or set share.way: controller",
    )
