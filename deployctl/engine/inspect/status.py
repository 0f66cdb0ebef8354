"""Look without touching: what serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployctl import cancel
from deployctl.agent.wire.answers import FileContent, HttpAnswer, Listener, Releases, UnitState
from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.connections.connect import Connected, ask
from deployctl.engine.connections.fan_out import fan_out
from deployctl.engine.inspect import grouped
from deployctl.engine.run import front, recovery
from deployctl.engine.strategies.registry import strategy
from deployctl.hosts.operations import files, network, releases, units
from deployctl.hosts.session import Call
from deployctl.steps import registry, replicas
from deployctl.steps.drafter import DrafterStep
from deployctl.steps.facts import NO_UNIT, PORT, RELEASES, UNIT, known_releases, known_unit
from deployctl.steps.gpus import gpu_snapshot, profile_gpus
from deployctl.steps.identity import FRONT as FRONT_UNIT
from deployctl.steps.identity import unit_home
from deployctl.steps.interface import Answers, Deployment, Key, Question, Unanswered
from deployctl.steps.measuring.gates import MEASURED, PROCESS
from deployctl.steps.ready import HEALTH
from deployctl.steps.servers import figures, life, siblings
from deployctl.steps.servers.process import RUNNING, identity, was_proven
from deployctl.steps.servers.ranks import member
from deployctl.steps.servers.stopping import base_url, listens_at
from deployctl.steps.servers.watched import watched

CONFIG = Key[FileContent]("config")
COUNTS = Key[HttpAnswer]("counts")
FRONT = Key[UnitState]("front")
FRONT_PORT = Key[Listener]("front.port")
FRONT_LEDGER = Key[list[dict[str, Any]]]("front.ledger")

SCHEMA = "deployctl.status/1"
PAUSE = 2.0
"""Seconds between two readings of what a server generates."""
GONE = ("lost", "failed", "exited")
"""States of a server that ended without having been stopped: some of it may live on."""
UNREACHED = {"healthy": False, "state": "unknown"}
"""What is known of a host that could not be asked."""


def _questions(wanted: Deployment) -> dict[str, Question[Any]]:
    unit, serve, url = wanted.unit_id, wanted.profile.serve, base_url(wanted.profile)
    config = f"{unit_home(unit)}/current/drafter/config.json"
    asked: list[Question[Any]] = [
        Question(RELEASES, Call(releases.state, **unit, last=20)),
        Question(UNIT, Call(units.state, **unit)),
        Question(PORT, Call(network.listener, port=serve.port)),
        Question(HEALTH, Call(network.http, method="GET", url=f"{url}/health", timeout=5)),
        Question(CONFIG, Call(files.read, path=config)),
        Question(COUNTS, figures.question(url)),
        siblings.question(wanted),
        *life.questions(wanted.profile),
    ]
    if profile_gpus.uses_gpus(wanted):
        asked += profile_gpus.questions(wanted)
    return {question.key: question for question in asked}


def survey(profile: Profile) -> dict[str, Any]:
    """What serves on each host, since when, healthy or not; one round trip a host."""

    def look(host: HostSettings, connected: Connected) -> dict[str, Any]:
        part = member(profile, host.name)
        serving = front.serving(connected.session, replicas.placed(profile, host, member=part))
        asked = {**_questions(serving), **_front_questions(profile)}
        answers, _ = ask(connected, asked)
        if life.waits(answers) and _answers(answers.get(HEALTH)):
            answers = answers.renewed(_made(serving.profile, connected))
        found = {
            **_host(answers),
            "unit": serving.unit_name,
            **_beside(serving, connected, answers),
            **grouped.rank(serving, answers, connected),
        }
        if found["state"] in GONE:
            found |= left(serving, connected)
        return _with_front(found, answers) if strategy(profile).beside else found

    hosts = [{**UNREACHED, **host} for host in fan_out(profile, look, alone=True)]
    return {"schema": SCHEMA, "profile": profile.name, **grouped.judged(profile, hosts)}


def _beside(serving: Deployment, connected: Connected, answers: Answers) -> dict[str, Any]:
    """Every unit that the profile has here, with its requests, and the memory of its GPUs. The
    counters of the unit that serves are known; other servers cost one more round trip."""
    every = answers.get(siblings.UNITS) or {}
    known = {unit: every[unit] for unit in replicas.own_units(serving, every)}
    others = {
        unit: url
        for unit, state in known.items()
        if unit != serving.unit and (url := figures.server_at(state)) is not None
    }
    asked = connected.session.ask([figures.question(url) for url in others.values()])
    counts = {**dict(zip(others, asked, strict=True)), serving.unit: answers.get(COUNTS)}
    try:
        gpus = figures.memory(profile_gpus.profile_gpus(serving, answers))
    except Unanswered:
        gpus = None
    here = known.get(serving.unit) or siblings.ABSENT
    return {
        "liveness_wanted": watched(serving.profile, here.get("argv") or ()) is not None,
        "units": {unit: _unit(state, counts.get(unit)) for unit, state in known.items()},
        "gpus": gpus,
    }


def _unit(state: UnitState, counts: Any) -> dict[str, Any]:
    """One of a profile's units, as a row of a table has it."""
    runs = state["state"] in RUNNING
    reading = figures.figures(counts) if runs else None
    return {
        "state": state["state"],
        "release": state["release"] if runs else None,
        "pid": state["pid"] if runs else None,
        "since": state.get("started") if runs else None,
        "restarts": state.get("restarts", 0),
        "liveness": state.get("liveness") if runs else None,
        "asleep": state.get("asleep") if runs else None,
        "requests": reading and reading.requests,
    }


def _made(serving: Profile, connected: Connected) -> Answers:
    """Whether a server that kept us waiting works for others: two more readings."""
    url = f"{base_url(serving)}/metrics"
    readings = []
    for pause in (0.0, PAUSE):
        cancel.sleep(pause)
        readings.append(connected.session.call(network.http, method="GET", url=url))
    return Answers({life.MADE: life.made(readings)})


def left(wanted: Deployment, connected: Connected) -> dict[str, Any]:
    """What processes of ours still run, and hold GPUs, of a server that is gone; one more round
    trip. `left_unknown` says why that is unknown."""
    asked = {str(question.key): question for question in gpu_snapshot.questions(wanted)}
    answers, _ = ask(connected, asked)
    try:
        now = gpu_snapshot.snapshot(wanted, answers)
    except Unanswered as error:
        return {"left": [], "left_unknown": str(error.args[0])}
    ours = [verdict for verdict in now.selection.stop if verdict.word == "ours"]
    blind = "; ".join(now.blind)
    return {"left": [gpu_snapshot.in_words(v) for v in ours], "left_unknown": blind or None}


def _front_questions(profile: Profile) -> dict[str, Question[Any]]:
    """The front before the units of a profile with several: clients reach them through it alone."""
    if not strategy(profile).beside:
        return {}
    return {
        FRONT: Question(FRONT, Call(units.state, profile=profile.name, unit=FRONT_UNIT)),
        FRONT_PORT: Question(FRONT_PORT, Call(network.listener, port=profile.serve.port)),
        FRONT_LEDGER: Question(FRONT_LEDGER, Call(releases.ledger, profile=profile.name)),
    }


def _with_front(found: dict[str, Any], answers: Answers) -> dict[str, Any]:
    unit, port = answers.get(FRONT) or NO_UNIT, answers.get(FRONT_PORT)
    front = {"state": unit["state"], "listening": port and port["listening"]}
    healthy = found["healthy"] and front == {"state": "running", "listening": True}
    entries = answers.get(FRONT_LEDGER) or []
    # Of both units: the last run may have worked in the other one.
    runs = {"last_run": _last_run(entries), "open_run": recovery.open_entry(entries)}
    return {**found, **(runs if entries else {}), "front": front, "healthy": healthy}


def _host(answers: Answers) -> dict[str, Any]:
    unit, health, kept = known_unit(answers), answers.get(HEALTH), known_releases(answers)
    current, serving, manifests = kept["current"], unit["release"], kept["releases"]
    evidence = (manifests.get(current or "") or {}).get("evidence", {})
    runs = unit["state"] in RUNNING
    generates, why = life.generates(answers)
    ledger = kept["ledger"]
    judged = serving if runs else current
    other = runs and serving != current
    measured = gates(ledger, judged, (manifests.get(judged or "") or {}).get("evidence", {}))
    return {
        "current": current,
        "previous": kept["previous"],
        "serving": serving if runs else None,
        "last_serving": serving if unit["state"] in GONE else None,
        "unproven_release": other,
        "environment_damage": _damage(kept, judged),
        "state": unit["state"],
        "pid": unit["pid"] if runs else None,
        "url": listens_at(unit) if runs else None,
        "since": unit.get("started") if runs else None,
        "proven": was_proven(unit),
        "restarts": unit.get("restarts", 0),
        "last_exit": _last_exit(unit),
        "liveness": unit.get("liveness") if runs else None,
        "asleep": unit.get("asleep") if runs else None,
        "port": answers.get(PORT),
        "health": health and {"status": health["status"], "error": health["error"]},
        "generates": generates if runs else None,
        "generates_why": why if runs else "",
        "in_flight": life.in_flight(answers) if runs else None,
        "healthy": unit["state"] == "running" and _answers(health) and generates is True,
        "drift": None if other else _drift(evidence.get(DrafterStep.name, {}), answers),
        "loaded_other": runs and serving == current and _loaded_other(evidence, unit),
        **{gate: measured.get(gate) if runs else None for gate in registry.names("gate")},
        "verdicts": verdicts(measured, unit),
        "last_run": _last_run(ledger),
        "open_run": recovery.open_entry(ledger),
    }


def _answers(health: HttpAnswer | None) -> bool:
    return health is not None and health["status"] == 200


def _damage(kept: Releases, release: str | None) -> list[str]:
    """What was found wrong with the environment that a release stands on."""
    manifest = kept["releases"].get(release or "") or {}
    key = (manifest.get("identity") or {}).get("environment")
    return list(kept["broken"].get(str(key)) or ())


def _last_exit(unit: UnitState) -> dict[str, Any] | None:
    if unit.get("ended") is None:
        return None
    return {"status": unit["rc"], "time": unit["ended"]}


def _loaded_other(evidence: dict[str, Any], unit: UnitState) -> bool:
    """Whether the process is known to have read another config.json than the proven one."""
    proven = evidence.get(DrafterStep.name, {}).get("sha256")
    loaded = (unit.get("loaded") or {}).values()
    return proven is not None and any(digest != proven for digest in loaded)


def _drift(proven: dict[str, Any], answers: Answers) -> bool | None:
    """Whether the drafter's config.json differs from what was proven; None where unknown."""
    config, expected = answers.get(CONFIG), proven.get("sha256")
    if not config or expected is None:
        return None
    return bool(config["sha256"] != expected)


def verdicts(measured: Mapping[str, Any], unit: UnitState) -> dict[str, Any]:
    """The last verdict of each gate, when it was measured, and whether on the process that runs."""
    runs = unit["state"] in RUNNING
    return {
        gate: {
            "verdict": found["verdict"],
            "time": found[MEASURED],
            "this_process": runs and found.get(PROCESS) == identity(unit),
        }
        for gate, found in measured.items()
    }


def gates(
    entries: list[dict[str, Any]], release: str | None, sealed: dict[str, Any]
) -> dict[str, Any]:
    """What each gate measured last on a release: the release's sealed evidence, or the verdict
    and the figures of a later run that kept no evidence because it did not pass."""
    known = registry.steps()
    found = {
        gate: sealed[gate]
        for gate in registry.names("gate")
        if sealed.get(gate, {}).get(MEASURED) is not None
    }
    for entry in entries:
        if entry.get("release") != release:
            continue
        for gate, said in (entry.get("verdicts") or {}).items():
            at = said.get(MEASURED) or entry.get("time") or 0.0
            if gate not in found or at > found[gate][MEASURED]:
                figures = entry.get("figures") or {}
                kept = known[gate].figures if gate in known else ()
                figures = {name: figures[name] for name in kept if name in figures}
                found[gate] = {**figures, **said, MEASURED: at}
    return found


def _last_run(entries: list[dict[str, Any]]) -> dict[str, Any] | None:
    return next((entry for entry in reversed(entries) if entry.get("kind") == "end"), None)
