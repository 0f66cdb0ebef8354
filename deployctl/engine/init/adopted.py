"""The release that a server started by hand becomes: what `up` goes back to."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from deployctl import __version__, redaction
from deployctl.config.profile import Profile
from deployctl.engine.init.by_hand import HIDDEN, Server
from deployctl.engine.init.loaded import Source
from deployctl.engine.ledger import entries as ledger
from deployctl.engine.ledger import lock
from deployctl.engine.ledger.record import HostRecord, RunRecord, StepRecord
from deployctl.engine.run.coordinator import new_run
from deployctl.errors import HostError, RemoteError, UsageError
from deployctl.hosts.operations import adoption, files, releases
from deployctl.hosts.session import Call, Session, known
from deployctl.steps.identity import MAIN, ReleasePaths, digest

ADOPT = "adopt"
PREFIX = "adopted-"


def check(host: str, profile: Profile, server: Server, session: Session) -> None:
    """Raise `UsageError` where the server is not the profile's, or the profile has releases of its
    own on the host."""
    if profile.serve.port != server.port:
        raise UsageError(
            f"profile {profile.name} is for port {profile.serve.port}, "
            f"the server has port {server.port}",
            next="choose the server of the profile's port: --port PORT",
        )
    found = session.call(releases.state, profile=profile.name, unit=MAIN)
    current = found["current"]
    if current is not None and not current.startswith(PREFIX):
        raise UsageError(
            f"{host}: profile {profile.name} has a release of its own there, {current}",
            "a server started by hand is recorded only before the first release",
            f"choose another name: --name NAME, or deploy: deployctl up -p {profile.name}",
        )


def record(
    host: str, profile: Profile, server: Server, session: Session, drafter: Source | None
) -> str:
    """Record the server as the profile's current release on its host; the release's id.

    The server itself is not touched. Raises `LockHeld` where a run is in progress, `HostError`
    where the server has ended.
    """
    process = server.process
    environment = process["environment"] or process["cwd"]
    key = PREFIX + digest(environment)
    launch = _launch(server)
    release = PREFIX + digest([launch, process["pid"], process["start"]])
    paths = ReleasePaths(profile.name, release, key)
    run = RunRecord(new_run(datetime.now(UTC)), profile.name, ADOPT, datetime.now(UTC))
    part = HostRecord(host, release=release, changed=True)
    part.steps.append(StepRecord(ADOPT, "changed"))
    _locked(host, session, profile.name, run.run)
    text = json.dumps(launch, indent=2) + "\n"
    calls: list[Call[Any]] = [
        _entry(profile.name, ledger.begun(run, part, profile, None)),
        Call(releases.prepare, **paths.unit_id, release=release, environment=key),
        Call(files.write, path=f"{paths.directory}/launch.json", text=text),
        Call(
            adoption.record,
            **paths.unit_id,
            release=release,
            pid=process["pid"],
            start=process["start"],
            argv=list(server.argv),
            environment=environment,
            key=key,
            drafter=drafter.folder if drafter is not None else None,
            log=process["log"],
            grace=profile.serve.stop_grace,
        ),
        Call(
            releases.seal,
            **paths.unit_id,
            release=release,
            manifest=redaction.document(_manifest(profile, server, release, key)),
        ),
        Call(releases.switch, **paths.unit_id, release=release),
        _entry(profile.name, ledger.ended(run, part, "changed")),
    ]
    for call in calls:
        (answer,) = session.ask([call])
        try:
            known(answer)
        except RemoteError as error:
            raise HostError(
                host,
                "the server could not be recorded",
                error.message,
                "look again: deployctl adopt",
            ) from error
    return release


def _locked(host: str, session: Session, profile: str, run: str) -> None:
    (taken,) = session.ask([lock.take(profile, run, playbook=ADOPT)])
    if isinstance(taken, RemoteError):
        if taken.kind != "locked":
            raise taken
        raise lock.held(host, taken, waits=False)


def _entry(profile: str, entry: dict[str, Any]) -> Call[Any]:
    return Call(releases.record, profile=profile, entry=redaction.document(entry))


def _launch(server: Server) -> dict[str, Any]:
    """What it was started with, to be started again: secrets are given when it is."""
    process = server.process
    return {
        "argv": list(server.argv),
        "env": process["env"],
        "cwd": process["cwd"],
        "run_as": process["run_as"],
    }


def _manifest(profile: Profile, server: Server, release: str, key: str) -> dict[str, Any]:
    process = server.process
    names = ("pid", "start", "started", "user", "cwd", "environment", "package")
    evidence = {name: process[name] for name in names}  # type: ignore[literal-required]
    return {
        "schema": "deployctl.manifest/1",
        "release": release,
        "profile": profile.name,
        "profile_digest": ledger.profile_digest(profile),
        "deployctl": __version__,
        "wanted": profile.model_dump(mode="json", by_alias=True),
        "skip": [],
        "identity": {"environment": key, ADOPT: evidence["pid"]},
        "launch": [word for word in server.argv if HIDDEN not in word],
        "packages": None,
        "evidence": {ADOPT: evidence},
    }
