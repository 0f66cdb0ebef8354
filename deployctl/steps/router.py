"""router: what clients ask instead of one of several replicas runs as the profile wants it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from deployctl import cancel
from deployctl.agent.wire.answers import FileContent, HttpAnswer
from deployctl.config.router import RouterSettings
from deployctl.errors import RemoteError, StagingFailed
from deployctl.hosts.operations import files, network, units
from deployctl.hosts.session import Call, Session
from deployctl.steps import facts, job
from deployctl.steps.builds.uv import ensure_uv
from deployctl.steps.identity import PROXY, ROUTER
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
from deployctl.steps.routers.interface import RouterEngine
from deployctl.steps.routers.registry import engine, router_file, router_url
from deployctl.steps.servers import agent_programs, siblings
from deployctl.steps.servers.stopping import stop_unit
from deployctl.vllm.builds.recipes import step as job_step

FILE, INSTALLED = Key[FileContent]("router.file"), Key[FileContent]("router.installed")
ALIVE = Key[HttpAnswer]("router.alive")
LIMIT = 60.0
"""Seconds for a started router to answer."""
INSTALL_LIMIT = 1800.0
POLL = 0.1


class RouterStep(Step):
    """Installs the profile's router into an environment of its own, and keeps it running."""

    name = "router"
    phase = "stage"
    failure = StagingFailed
    needs_release = False

    def concerns(self, wanted: Deployment, answers: Answers) -> bool:
        return _wanted_here(wanted) or _left_over(wanted, answers)

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        found: list[Question[Any]] = [siblings.question(wanted)]
        settings, program = wanted.profile.router, engine(wanted.profile)
        if settings is None or program is None or not _wanted_here(wanted):
            return found
        alive = f"{router_url(settings)}{program.alive.path}"
        return [
            *found,
            facts.tools(),
            Question(FILE, Call(files.read, path=router_file(wanted.profile.name))),
            Question(INSTALLED, Call(files.read, path=_seal(wanted))),
            Question(ALIVE, Call(network.http, method=program.alive.method, url=alive)),
        ]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        unit = answers[siblings.UNITS].get(ROUTER) or siblings.ABSENT
        if not _wanted_here(wanted):
            return Plan("change", (Change("router", f"pid {unit['pid']}", "stopped"),))
        kept, alive = _settings(answers[FILE]), answers[ALIVE]
        changes = []
        if not answers[INSTALLED]["exists"]:
            changes.append(Change(_program(wanted), "not installed", "installed"))
        if unit["state"] != "running":
            changes.append(Change("router", unit["state"], "running"))
        elif not _same(kept.get("argv"), _argv(wanted, "")):
            changes.append(Change("router", "runs with other settings", "restarted"))
        elif alive["status"] != 200:
            said = alive["error"] or f"HTTP {alive['status']}"
            changes.append(Change("router", f"does not answer: {said}", "restarted"))
        elif not unit["kept"]:
            changes.append(Change("router", "not proven", "proven"))
        if changes:
            return Plan("change", tuple(changes))
        return Plan("unchanged", evidence=_evidence(wanted, unit))

    def apply(self, context: Context, plan: Plan) -> None:
        wanted, session = context.wanted, context.session
        about = siblings.of_unit(wanted, ROUTER)
        if not _wanted_here(wanted):
            stop_unit(session, about)
            # Its program is not in use any more.
            session.call(files.write, path=router_file(wanted.profile.name), text="{}\n")
            return
        if not context.answers[INSTALLED]["exists"]:
            self._install(context)
        if _router(wanted).private_port is None:
            stop_unit(session, siblings.of_unit(wanted, PROXY))
        unit = context.answers[siblings.UNITS].get(ROUTER) or siblings.ABSENT
        agent_programs.refuse_held_port(self, context, _router(wanted).listens[1], unit)
        replicas = self._answering(context)
        context.progress("start", _program(wanted))
        with cancel.shielded():
            stop_unit(session, about)
            write_file(session, wanted, replicas)
            file = router_file(wanted.profile.name)
            agent_programs.start(session, wanted, ROUTER, file, _program(wanted))

    def prove(self, context: Context) -> Evidence:
        wanted, session = context.wanted, context.session
        about = siblings.of_unit(wanted, ROUTER).unit_id
        if not _wanted_here(wanted):
            return {"state": session.call(units.state, **about)["state"]}
        program = _engine(wanted)
        url = f"{router_url(_router(wanted))}{program.alive.path}"
        end = time.monotonic() + LIMIT
        while True:
            answer = session.call(network.http, method=program.alive.method, url=url, timeout=2)
            unit = session.call(units.state, **about)
            if answer["status"] == 200 and unit["state"] == "running":
                break
            if unit["state"] not in ("starting", "running") or time.monotonic() > end:
                log = session.call(units.log, **about, offset=-4000)["text"].strip()
                said = answer["error"] or f"HTTP {answer['status']}"
                raise self.fail(
                    context,
                    f"{program.name} does not answer at {url}: {said}",
                    unit.get("error") or log,
                    "fix the cause shown in its log, or choose other settings under router",
                )
            cancel.sleep(POLL)
        return _evidence(wanted, session.call(units.keep, **about))

    def sentence(self, ended: Mapping[str, Any]) -> str:
        found = ended["evidence"]
        return f"{found['program']} on {found['listens']}" if "listens" in found else ""

    def _install(self, context: Context) -> None:
        wanted = context.wanted
        program = _engine(wanted)
        folder, requirement = _environment(wanted), program.requirement(_router(wanted))
        uv, python = ensure_uv(self, context), str(context.session.agent["executable"])
        install = [uv, "pip", "install", "--python", f"{folder}/bin/python", requirement]
        name = folder.rpartition("/")[2]
        state = job.run(
            context,
            f"router-{name}",
            [
                job_step("creating", ["rm", "-rf", folder]),
                job_step("creating", [uv, "venv", "--python", python, folder]),
                job_step("installing", install),
            ],
            stall=600.0,
            limit=INSTALL_LIMIT,
            label={"router": requirement, "folder": name},
        )
        if state["state"] != "done":
            raise self.fail(
                context,
                f"{requirement} could not be installed",
                job.log(context.session, state["id"]).strip()[-2000:],
                f"fix the cause shown above, or set another router.version (log: {state['log']})",
            )
        text = json.dumps({"requirement": requirement}) + "\n"
        context.session.call(files.write, path=_seal(wanted), text=text)

    def _answering(self, context: Context) -> list[str]:
        """The replicas that it had and that answer: with others alone it would not open its
        port. Each other one is added when it serves."""
        known = [str(one) for one in _settings(context.answers[FILE]).get("replicas", ())]
        looks: list[Call[Any]] = [
            Call(network.http, method="GET", url=f"{url}/health", timeout=2) for url in known
        ]
        answers = context.session.ask(looks) if looks else ()
        found = zip(known, answers, strict=True)
        return [url for url, answer in found if _answers(answer)]


def write_file(session: Session, wanted: Deployment, replicas: Sequence[str]) -> None:
    """Keep the command line of a profile's router, and the replicas to start with."""
    program = _engine(wanted)
    content = {
        "argv": _argv(wanted, session.root),
        "option": program.replicas_option,
        "replicas": list(replicas),
    }
    path = router_file(wanted.profile.name)
    session.call(files.write, path=path, text=json.dumps(content) + "\n")


def _answers(answer: Any) -> bool:
    return not isinstance(answer, RemoteError) and answer["status"] == 200


def _wanted_here(wanted: Deployment) -> bool:
    """Whether the profile's router belongs on this host."""
    profile = wanted.profile
    return engine(profile) is not None and profile.router_host.name == wanted.host.name


def _left_over(wanted: Deployment, answers: Answers) -> bool:
    """Whether a router runs that the profile had here before."""
    return siblings.runs_here(wanted, answers, ROUTER)


def _router(wanted: Deployment) -> RouterSettings:
    assert wanted.profile.router is not None
    return wanted.profile.router


def _engine(wanted: Deployment) -> RouterEngine:
    program = engine(wanted.profile)
    assert program is not None
    return program


def _environment(wanted: Deployment) -> str:
    program = _engine(wanted)
    return program.environment(_router(wanted))


def _seal(wanted: Deployment) -> str:
    """The file that says that the environment is complete."""
    return f"{_environment(wanted)}/deployctl.json"


def _program(wanted: Deployment) -> str:
    return _environment(wanted).rpartition("/")[2]


def _argv(wanted: Deployment, root: str) -> list[str]:
    program = _engine(wanted)
    return program.argv(_router(wanted), f"{root}{_environment(wanted)[1:]}")


def _same(kept: Sequence[str] | None, wanted: Sequence[str]) -> bool:
    """Whether two command lines are the same, wherever the host's root is."""
    if not kept or not kept[0].endswith(wanted[0]):
        return False
    return [*kept[1:]] == [*wanted[1:]]


def _settings(answer: FileContent) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer["text"] or "{}") if answer["exists"] else {}
    return found


def _evidence(wanted: Deployment, unit: Mapping[str, Any]) -> Evidence:
    settings = _router(wanted)
    return {
        "program": _program(wanted),
        "listens": ":".join(map(str, settings.listens)),
        **{name: unit.get(name) for name in ("state", "pid", "start", "restarts", "log")},
    }
