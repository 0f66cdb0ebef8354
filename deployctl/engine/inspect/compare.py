"""Two releases side by side: what they were built from, what was configured, what they reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deployctl.agent.wire.answers import Releases
from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.connections.connect import Connected
from deployctl.engine.connections.fan_out import fan_out
from deployctl.engine.ledger.entries import made_from
from deployctl.engine.ledger.rollback import resolve
from deployctl.engine.run import front
from deployctl.engine.strategies.blue_green import other
from deployctl.hosts.operations import release_status, releases
from deployctl.hosts.session import Session
from deployctl.steps import registry, replicas
from deployctl.steps.identity import SLOTS
from deployctl.steps.interface import Deployment
from deployctl.steps.launch import LaunchStep
from deployctl.steps.servers import siblings

SCHEMA = "deployctl.diff/1"
NEVER_DIFFERENT = {"name", "description", "extends", "notify"}


def differences(one: Any, other: Any, at: str = "") -> Iterator[dict[str, Any]]:
    """Leaves that differ between two JSON values, with their key path. Lists are leaves."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}):
            below = f"{at}.{key}" if at else str(key)
            yield from differences(one.get(key), other.get(key), below)
    elif one != other:
        yield {"what": at, "old": one, "new": other}


def manifests(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What differs between two manifests, by part. Pure."""
    return {
        "made_from": list(differences(_made_from(one), _made_from(other))),
        "packages": list(differences(one.get("packages") or {}, other.get("packages") or {})),
        "config": list(differences(_wanted(one), _wanted(other))),
        "figures": [
            {"what": name, "old": _figure(one, name), "new": _figure(other, name)}
            for name in _figures()
            if _figure(one, name) is not None or _figure(other, name) is not None
        ],
    }


def _made_from(manifest: Mapping[str, Any]) -> dict[str, Any]:
    names = (made_from({}).keys() | {"gpu"}) - {"packages"}
    found = {name: manifest.get(name) for name in sorted(names)}
    return {**found, LaunchStep.name: launch_options(manifest)}


def _figures() -> list[str]:
    steps = registry.steps().values()
    return sorted(f"{step.name}.{figure}" for step in steps for figure in step.compared)


def launch_options(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A launch line by option. The names of the release's own folder and of its environment are
    left out: they always differ, and their content is shown by its parts."""
    environment = (manifest.get("identity") or {}).get("environment")
    words = [str(word) for word in manifest.get(LaunchStep.name) or ()]
    for name, put in ((manifest.get("release"), "RELEASE"), (environment, "ENVIRONMENT")):
        words = [word.replace(str(name), put) for word in words]
    options: dict[str, Any] = {}
    at = ""
    for word in words:
        if word.startswith("--"):
            at, _, value = word.partition("=")
            options[at] = value or True
        elif at and options[at] is True:
            options[at] = word
        else:
            options[at] = f"{options.get(at, '')} {word}".strip()
    return {name or "command": value for name, value in options.items()}


def _wanted(manifest: Mapping[str, Any]) -> dict[str, Any]:
    wanted = manifest.get("wanted") or {}
    return {key: value for key, value in wanted.items() if key not in NEVER_DIFFERENT}


def _figure(manifest: Mapping[str, Any], name: str) -> Any:
    found: Any = manifest.get("evidence") or {}
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _releases(session: Session, wanted: Deployment) -> tuple[Releases, dict[str, Any]]:
    """A profile's releases as `releases.state` has them, those that failed among them, and those
    alone. With two units, current is what the live one serves and previous what the other did."""
    serving = front.serving(session, wanted)
    found, failed = _of_one(session, serving)
    if serving.unit in SLOTS:
        beside, more = _of_one(session, siblings.of_unit(wanted, other(serving.unit)))
        found["releases"] = {**beside["releases"], **found["releases"]}
        found["previous"] = beside["current"]
        failed = {**more, **failed}
    return found, failed


def _of_one(session: Session, wanted: Deployment) -> tuple[Releases, dict[str, Any]]:
    found = session.call(releases.state, **wanted.unit_id, last=1)
    failed = session.call(release_status.failed, **wanted.unit_id)
    # One that failed has no manifest, and what was noted of it is of the same form.
    found["releases"].update(failed)
    return found, failed


def compare(profile: Profile, one: str, other: str) -> dict[str, Any]:
    """The document of `deployctl diff`: two releases on every host; raises UsageError where one
    is not there. `one` and `other` are ids, beginnings of ids, `current` or `previous`."""

    def look(host: HostSettings, connected: Connected) -> dict[str, Any]:
        found, failed = _releases(connected.session, replicas.placed(profile, host))
        ids = [resolve(profile.name, found, name) for name in (one, other)]
        old, new = (found["releases"][name] or {} for name in ids)
        errors = {name: failed[name]["error"] for name in ids if name in failed}
        return {"old": ids[0], "new": ids[1], "failed": errors, **manifests(old, new)}

    return {"schema": SCHEMA, "profile": profile.name, "hosts": fan_out(profile, look)}
