"""The served release once more with another command line, beside it: to compare with."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from secrets import token_hex
from typing import Any

from deployctl import cancel
from deployctl.errors import RemoteError, Undecided
from deployctl.hosts.operations import files, network, units
from deployctl.hosts.tunnel import Tunnel
from deployctl.steps.identity import UnitId, unit_home
from deployctl.steps.interface import Context
from deployctl.steps.servers.client import api_key
from deployctl.steps.servers.stopping import reachable
from deployctl.vllm.client.client import Client
from deployctl.vllm.client.outcome import RequestFailed
from deployctl.vllm.logs.server import explain

SPECULATION = "--speculative-config"
PORTS = 50
"""How many ports above the served one are tried."""
POLL = 0.5
PLAIN = "plain-"


def left_over(units: Iterable[str]) -> list[str]:
    """The second servers among a profile's units. While its lock is held, they are of runs that
    died."""
    return [unit for unit in units if unit.startswith(PLAIN)]


@contextmanager
def plain_server(context: Context, step: str) -> Iterator[Client]:
    """A client of the same release started without speculation; it is stopped at the end.

    Raises `Undecided` where it does not start: most GPUs have no memory left beside what serves.
    """
    advice = "compare with a server of your own: deployctl bench --url URL --plain-url URL"
    argv = without_speculation(launched(context)["argv"])
    with second_server(context, step, argv, "without speculation", advice) as client:
        yield client


@contextmanager
def second_server(
    context: Context, step: str, argv: Sequence[str], called: str, advice: str
) -> Iterator[Client]:
    """A client of the same release started with another command line on a free port; it is stopped
    at the end, whatever happens. `called` names it in sentences. Raises `Undecided` with this
    advice where it does not start."""
    profile = context.wanted.profile
    # A name of its own each time: nothing of another run may be stopped or removed.
    unit: UnitId = {"profile": profile.name, "unit": f"{PLAIN}{token_hex(4)}"}
    port = _free_port(context)
    context.progress("start", f"the same server {called}, port {port}")
    try:
        context.session.call(
            units.start,
            **unit,
            argv=at_port(argv, port),
            env=launched(context)["env"],
            secrets=_secrets(profile.serve.api_key is not None, api_key(profile)),
            release=context.release.release,
            grace=profile.serve.stop_grace,
            supervisor="agent",
        )
        with ExitStack() as stack:
            address = reachable(profile.serve.host)
            url = f"http://{address}:{port}"
            if not context.wanted.host.local:
                url = stack.enter_context(Tunnel(context.session, address, port)).url
            client = stack.enter_context(Client(url, api_key(profile)))
            try:
                _wait(context, unit, client)
            except _Ended as ended:
                what = f"the server {called} did not start: {ended}"
                why = _why(context, unit)
                raise Undecided(context.wanted.host.name, step, what, why, advice) from None
            yield client
    finally:
        _end(context, unit)


def _end(context: Context, unit: UnitId) -> None:
    with cancel.shielded():
        context.session.call(units.stop, **unit, grace=context.wanted.profile.serve.stop_grace)
        context.session.call(files.remove_tree, path=unit_home(unit))


def remove_left_over(context: Context, found: Iterable[str]) -> None:
    """Stop and remove the second servers of runs that died, among a profile's units."""
    for name in left_over(found):
        _end(context, {"profile": context.wanted.profile.name, "unit": name})


def without_speculation(argv: Sequence[str]) -> list[str]:
    """A server's command line without speculation."""
    made = list(argv)
    if SPECULATION in made:
        at = made.index(SPECULATION)
        del made[at : at + 2]
    return made


def at_port(argv: Sequence[str], port: int) -> list[str]:
    """A server's command line with another port."""
    made = list(argv)
    made[made.index("--port") + 1] = str(port)
    return made


def launched(context: Context) -> dict[str, Any]:
    """How the server of the release is started: argv and env."""
    path = f"{context.release.directory}/launch.json"
    file = context.session.call(files.read, path=path)
    launch: dict[str, Any] = json.loads(file["text"] or "")
    return launch


def _secrets(guarded: bool, key: str | None) -> dict[str, str]:
    return {"VLLM_API_KEY": key} if guarded and key else {}


def _free_port(context: Context) -> int:
    """A port above the served one on which no process listens."""
    served = context.wanted.profile.serve.port
    for port in range(served + 1, served + 1 + PORTS):
        if not context.session.call(network.listener, port=port)["listening"]:
            return port
    raise Undecided(
        context.wanted.host.name, "compare", f"no free port from {served + 1} to {served + PORTS}"
    )


class _Ended(Exception):
    """A start that ended or lasts too long; the message is its state."""


def _wait(context: Context, plain: UnitId, client: Client) -> None:
    """Until it lists its models; raises `_Ended`."""
    deadline = time.monotonic() + context.wanted.profile.serve.ready.stall
    while True:
        try:
            if client.models(timeout=2.0):
                return
        except RequestFailed:
            pass
        unit = context.session.call(units.state, **plain)
        if unit["state"] not in ("starting", "running") or time.monotonic() > deadline:
            raise _Ended(f"it is {unit['state']}")
        cancel.sleep(POLL)


def _why(context: Context, plain: UnitId) -> str:
    try:
        log = context.session.call(units.log, **plain, offset=-65536)
    except RemoteError as error:
        return str(error)
    found = explain(log["text"])
    return found.sentence or "\n".join(found.lines) or str(log["text"])[-2000:]
