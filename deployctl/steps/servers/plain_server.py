"""The served release once more, without speculation, beside it: to compare with."""

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
    """The plain servers among a profile's units. While its lock is held, they are of runs that
    died."""
    return [unit for unit in units if unit.startswith(PLAIN)]


@contextmanager
def plain_server(context: Context, step: str) -> Iterator[Client]:
    """A client of the same release started without speculation; it is stopped at the end.

    Raises `Undecided` where it does not start: most GPUs have no memory left beside what serves.
    """
    profile = context.wanted.profile
    # A name of its own each time: nothing of another run may be stopped or removed.
    unit: UnitId = {"profile": profile.name, "unit": f"{PLAIN}{token_hex(4)}"}
    port = _free_port(context)
    launch = _launch(context)
    context.progress("start", f"the same without speculation, port {port}")
    try:
        context.session.call(
            units.start,
            **unit,
            argv=plain_argv(launch["argv"], port),
            env=launch["env"],
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
            _wait(context, step, unit, client)
            yield client
    finally:
        context.session.call(units.stop, **unit, grace=profile.serve.stop_grace)
        context.session.call(files.remove_tree, path=unit_home(unit))


def plain_argv(argv: Sequence[str], port: int) -> list[str]:
    """A server's command line without speculation, on another port."""
    made = list(argv)
    if SPECULATION in made:
        at = made.index(SPECULATION)
        del made[at : at + 2]
    made[made.index("--port") + 1] = str(port)
    return made


def _launch(context: Context) -> dict[str, Any]:
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


def _wait(context: Context, step: str, plain: UnitId, client: Client) -> None:
    """Until it lists its models; a start that ends or lasts too long is undecided."""
    host = context.wanted.host.name
    deadline = time.monotonic() + context.wanted.profile.serve.ready.stall
    while True:
        try:
            if client.models(timeout=2.0):
                return
        except RequestFailed:
            pass
        unit = context.session.call(units.state, **plain)
        if unit["state"] not in ("starting", "running") or time.monotonic() > deadline:
            raise Undecided(
                host,
                step,
                f"the server without speculation did not start: it is {unit['state']}",
                _why(context, plain),
                "compare with a server of your own: deployctl bench --url URL --plain-url URL",
            )
        cancel.sleep(POLL)


def _why(context: Context, plain: UnitId) -> str:
    try:
        log = context.session.call(units.log, **plain, offset=-65536)
    except RemoteError as error:
        return str(error)
    found = explain(log["text"])
    return found.sentence or "\n".join(found.lines) or str(log["text"])[-2000:]
