"""Requests in flight at a server, and the wait until there are none.

GET /load counts them at the door (`--enable-server-load-tracking`); without the option vLLM answers
0. Its gauges of running and waiting requests do not know a request before the engine has it, and
read 0 while the engine hangs: more than 0 is true, 0 shows nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from deployctl import cancel
from deployctl.agent.wire.answers import HttpAnswer, UnitState
from deployctl.hosts.operations import network, units
from deployctl.hosts.session import Session
from deployctl.steps.interface import Deployment
from deployctl.steps.servers.stopping import REQUESTS, base_url, listens_at, stop_unit
from deployctl.vllm.counters import metrics
from deployctl.vllm.counters.unreadable import Unreadable
from deployctl.vllm.serving.command import counts_requests

POLL = 0.5
"""Seconds between two looks at a server that drains."""
PATIENCE = 5.0
"""Seconds for an answer of /load or /metrics."""


def counted(unit: UnitState, answer: HttpAnswer | None) -> int | None:
    """The count in an answer of a unit's /load; None where the unit does not count, or where it
    did not answer."""
    if answer is None or answer["status"] != 200 or not counts_requests(unit.get("argv") or ()):
        return None
    try:
        count: Any = json.loads(answer["body"])["server_load"]
    except (ValueError, KeyError, TypeError):
        return None
    return count if type(count) is int and count >= 0 else None


def drain(
    session: Session,
    wanted: Deployment,
    unit: UnitState,
    within: float,
    show: Callable[[int | None], None],
    poll: float = POLL,
) -> int | None:
    """Wait at most `within` seconds until a server has no request in flight; how many are left,
    None where that is not known, or where it ended meanwhile.

    Two looks must find none: what was sent to it just before may be late for one. Gauges end the
    waiting, too, but their 0 is not reported as one.
    """
    counts = counts_requests(unit.get("argv") or ())
    look = _at_the_door if counts else _by_gauges
    end, quiet = time.monotonic() + within, False
    while True:
        left = look(session, wanted, unit)
        if (left == 0 and quiet) or time.monotonic() > end:
            return left if counts or left else None
        if left is None and not _runs(session.call(units.state, **wanted.unit_id)):
            return None
        quiet = left == 0
        if not quiet:
            show(left)
        cancel.sleep(poll)


def stop_drained(
    session: Session, wanted: Deployment, within: float, show: Callable[[int | None], None]
) -> dict[str, Any]:
    """Stop a server once it has drained, or after `within` seconds. Evidence: seconds that it
    `drained`, how many requests were `cut_off` (None: unknown)."""
    unit = session.call(units.state, **wanted.unit_id)
    if not _runs(unit):
        return {"drained": 0.0, "cut_off": 0}
    began = time.monotonic()
    left = drain(session, wanted, unit, within, show)
    seconds = round(time.monotonic() - began, 2)
    found = stop_unit(session, wanted)["requests"]
    if found["cut_off"] is None:
        found = {"in_flight": left, "cut_off": left}
    return {"drained": seconds, "cut_off": found["cut_off"], REQUESTS: found}


def _runs(unit: UnitState) -> bool:
    return unit["state"] in ("starting", "running")


def _at_the_door(session: Session, wanted: Deployment, unit: UnitState) -> int | None:
    return counted(unit, _get(session, wanted, unit, "/load"))


def _by_gauges(session: Session, wanted: Deployment, unit: UnitState) -> int | None:
    answer = _get(session, wanted, unit, "/metrics")
    try:
        return metrics.in_flight(answer["body"]) if answer["status"] == 200 else None
    except Unreadable:
        return None


def _get(session: Session, wanted: Deployment, unit: UnitState, path: str) -> HttpAnswer:
    url = (listens_at(unit) or base_url(wanted.profile)) + path
    return session.call(network.http, method="GET", url=url, timeout=PATIENCE)
