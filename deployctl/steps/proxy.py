"""proxy: what clients reach of the router, where that has a port of its own behind it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from deployctl import cancel
from deployctl.agent.wire.answers import FileContent, Listener
from deployctl.errors import StagingFailed
from deployctl.hosts.operations import files, network, units
from deployctl.hosts.session import Call
from deployctl.steps.identity import PROXY
from deployctl.steps.interface import (
    Answers,
    Change,
    Context,
    Deployment,
    Evidence,
    Key,
    Plan,
    Question,
    Step,
)
from deployctl.steps.routers.registry import engine
from deployctl.steps.servers import agent_programs, siblings
from deployctl.steps.servers.stopping import stop_unit

FILE, PORT = Key[FileContent]("proxy.file"), Key[Listener]("proxy.port")
LIMIT = 15.0
"""Seconds for it to listen."""
POLL = 0.1


class ProxyStep(Step):
    """Keeps a proxy running on the router's public port."""

    name = "proxy"
    phase = "stage"
    failure = StagingFailed
    needs_release = False

    def concerns(self, wanted: Deployment, answers: Answers) -> bool:
        return _settings(wanted) is not None or siblings.runs_here(wanted, answers, PROXY)

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        found: list[Question[Any]] = [siblings.question(wanted)]
        settings = _settings(wanted)
        if settings is None:
            return found
        return [
            *found,
            Question(FILE, Call(files.read, path=_file(wanted))),
            Question(PORT, Call(network.listener, port=settings["port"])),
        ]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        unit = answers[siblings.UNITS].get(PROXY) or siblings.ABSENT
        settings = _settings(wanted)
        if settings is None:
            return Plan("change", (Change("proxy", f"pid {unit['pid']}", "stopped"),))
        kept = answers[FILE]
        same = kept["exists"] and json.loads(kept["text"] or "{}") == settings
        if unit["state"] != "running":
            return Plan("change", (Change("proxy", unit["state"], "running"),))
        if not same or not answers[PORT]["listening"] or not unit["kept"]:
            why = "it does not listen" if same else "other settings"
            return Plan("change", (Change("proxy", "running", "restarted", why),))
        return Plan("unchanged", evidence=_evidence(wanted, unit))

    def apply(self, context: Context, plan: Plan) -> None:
        wanted, session, settings = context.wanted, context.session, _settings(context.wanted)
        about = siblings.of_unit(wanted, PROXY)
        if settings is None:
            stop_unit(session, about)
            return
        unit = context.answers[siblings.UNITS].get(PROXY) or siblings.ABSENT
        agent_programs.refuse_held_port(self, context, settings["port"], unit)
        with cancel.shielded():
            stop_unit(session, about)
            session.call(files.write, path=_file(wanted), text=json.dumps(settings) + "\n")
            agent_programs.start(session, wanted, PROXY, _file(wanted), PROXY)

    def prove(self, context: Context) -> Evidence:
        wanted, session, settings = context.wanted, context.session, _settings(context.wanted)
        about = siblings.of_unit(wanted, PROXY).unit_id
        if settings is None:
            return {"state": session.call(units.state, **about)["state"]}
        end = time.monotonic() + LIMIT
        while not session.call(network.listener, port=settings["port"])["listening"]:
            if time.monotonic() > end:
                raise self.fail(
                    context,
                    f"the proxy does not listen on port {settings['port']}",
                    session.call(units.log, **about, offset=-4000)["text"].strip(),
                    "fix the cause shown in its log, or choose another router.port",
                )
            cancel.sleep(POLL)
        return _evidence(wanted, session.call(units.keep, **about))

    def sentence(self, ended: Mapping[str, Any]) -> str:
        found = ended["evidence"]
        return f"/v1 alone on {found['listens']}" if "listens" in found else ""


def _settings(wanted: Deployment) -> dict[str, Any] | None:
    """What its file holds; None where the profile has none on this host."""
    profile = wanted.profile
    router = profile.router
    if router is None or engine(profile) is None or router.private_port is None:
        return None
    if profile.router_host.name != wanted.host.name:
        return None
    return {"host": router.address, "port": router.port, "target": router.private_port}


def _file(wanted: Deployment) -> str:
    return f"@/profiles/{wanted.profile.name}/proxy.json"


def _evidence(wanted: Deployment, unit: Mapping[str, Any]) -> Evidence:
    settings = _settings(wanted) or {}
    names = ("state", "pid", "start", "restarts", "log")
    return {
        "listens": f"{settings.get('host')}:{settings.get('port')}",
        **{name: unit.get(name) for name in names},
    }
