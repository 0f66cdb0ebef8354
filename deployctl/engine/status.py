"""Look without touching: what serves, the server's log, the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine import slots
from deployctl.engine.connect import connect
from deployctl.engine.plan import ask
from deployctl.hosts.session import Session
from deployctl.steps.interface import Answers, Question

SCHEMA = "deployctl.status/1"


def _questions(profile: Profile) -> dict[str, Question]:
    name, serve = profile.name, profile.serve
    address = "127.0.0.1" if serve.host in ("0.0.0.0", "::") else serve.host
    asked = [
        Question("releases", "releases.state", {"profile": name, "last": 20}),
        Question("unit", "units.state", {"name": name}),
        Question("port", "network.listener", {"port": serve.port}),
        Question(
            "health",
            "network.http",
            {"method": "GET", "url": f"http://{address}:{serve.port}/health", "timeout": 5},
        ),
        Question(
            "config", "files.read", {"path": f"@/profiles/{name}/current/drafter/config.json"}
        ),
    ]
    return {question.key: question for question in asked}


def survey(profile: Profile) -> dict[str, Any]:
    """What serves on each host, since when, healthy or not; one round trip a host."""
    hosts = []
    for host in profile.hosts:
        with connect(host) as connected:
            serving = slots.serving(connected.session, profile)
            answers, _ = ask(connected, _questions(serving))
        hosts.append({**_host(host, answers), "unit": serving.name})
    return {"schema": SCHEMA, "profile": profile.name, "hosts": hosts}


def _host(host: HostSettings, answers: Answers) -> dict[str, Any]:
    unit, health = answers.get("unit"), answers.get("health")
    releases = answers.get("releases") or {}
    current = releases.get("current")
    manifest = (releases.get("releases") or {}).get(current) or {}
    evidence = manifest.get("evidence", {})
    running = bool(unit) and unit["state"] == "running"
    return {
        "host": host.name,
        "current": current,
        "previous": releases.get("previous"),
        "serving": unit.get("release") if unit else None,
        "state": unit["state"] if unit else "unknown",
        "pid": unit.get("pid") if unit else None,
        "since": unit.get("started") if unit else None,
        "port": answers.get("port"),
        "health": health and {"status": health["status"], "error": health["error"]},
        "healthy": running and bool(health) and health["status"] == 200,
        "drift": _drift(evidence.get("drafter", {}), answers),
        "smoke": evidence.get("smoke"),
        "acceptance": evidence.get("acceptance"),
        "verdicts": _verdicts(releases.get("ledger") or [], current),
        "last_run": _last_run(releases.get("ledger") or []),
    }


def _drift(proven: dict[str, Any], answers: Answers) -> bool | None:
    """Whether the drafter's config.json differs from what was proven; None where unknown."""
    config, expected = answers.get("config"), proven.get("sha256")
    if not config or expected is None:
        return None
    return bool(config["sha256"] != expected)


def _verdicts(entries: list[dict[str, Any]], release: str | None) -> dict[str, Any]:
    """Each gate's newest verdict on a release, with its time."""
    found: dict[str, Any] = {}
    for entry in entries:
        if entry.get("release") == release:
            for gate, said in (entry.get("verdicts") or {}).items():
                found[gate] = {"verdict": said["verdict"], "time": entry["time"]}
    return found


def _last_run(entries: list[dict[str, Any]]) -> dict[str, Any] | None:
    return next((entry for entry in reversed(entries) if entry.get("kind") == "end"), None)


def ledger(profile: Profile, last: int) -> dict[str, Any]:
    """The last entries of every host's ledger, oldest first."""
    hosts = []
    for host in profile.hosts:
        with connect(host) as connected:
            entries = connected.session.call("releases.ledger", profile=profile.name)
        hosts.append({"host": host.name, "runs": _runs(entries)[-last:]})
    return {"schema": "deployctl.history/1", "profile": profile.name, "hosts": hosts}


def _runs(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every run once: how it ended, and by whom and from where it was begun. One that has no end
    is still at work, or died."""
    begun = {entry["run"]: entry for entry in entries if entry.get("kind") == "begin"}
    ended = {entry["run"]: entry for entry in entries if entry.get("kind") == "end"}
    runs = []
    for run in dict.fromkeys([*begun, *ended]):
        start = begun.get(run, {})
        end = ended.get(run) or {**start, "outcome": "open", "changed": []}
        runs.append({**end, "user": start.get("user"), "from": start.get("from")})
    return runs


def log(profile: Profile, lines: int, follow: bool, job: str | None) -> Iterator[str]:
    """The text of the server's log (or a job's) on the profile's first host."""
    with connect(profile.hosts[0]) as connected:
        session = connected.session
        name = slots.serving(session, profile).name
        text, offset = _tail(session, name, job)
        yield "".join(text.splitlines(keepends=True)[-lines:])
        while follow:
            text, offset = _more(session, name, job, offset)
            if text:
                yield text


TAIL_BYTES = 256 * 1024


def _tail(session: Session, name: str, job: str | None) -> tuple[str, int]:
    return _more(session, name, job, -TAIL_BYTES)


def _more(session: Session, name: str, job: str | None, offset: int) -> tuple[str, int]:
    """What the log holds from `offset` (from its end where negative)."""
    if job is not None:
        part = session.call("jobs.log", id=job, offset=offset, limit=TAIL_BYTES)
    else:
        part = session.call("units.log", name=name, offset=offset, limit=TAIL_BYTES)
    return str(part["text"]), int(part["offset"])
