"""A run that serves an earlier release with its original configuration."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from deployctl.agent.wire.answers import Releases
from deployctl.config.profile import Profile
from deployctl.errors import StagingFailed, UsageError
from deployctl.steps.identity import ReleasePaths
from deployctl.steps.interface import Deployment
from deployctl.steps.servers.ranks import member

PREVIOUS = "previous"
UNKNOWN_KEY = "extra_forbidden"
FLEET = ("replicas", "router", "roll")
"""What of a profile is about all its hosts together, and none of a release's."""


def pin(wanted: Deployment, releases: Releases, named: str) -> Deployment:
    """The deployment of an earlier release: `previous`, an id, or the beginning of one.

    `releases` is the answer of `releases.state`. Raises UsageError where there is no such one.
    """
    release = resolve(wanted.profile.name, releases, named)
    return previous_deployment(wanted, release, releases["releases"][release] or {})


def refuse_damaged(wanted: Deployment, releases: Releases) -> None:
    """Raise `StagingFailed` where the named release uses a damaged environment."""
    pinned = wanted.pinned
    if pinned is None or pinned.environment_key not in releases["broken"]:
        return
    raise StagingFailed(
        wanted.host.name,
        "rollback",
        f"release {pinned.release} uses a damaged environment",
        "\n".join(releases["broken"][pinned.environment_key]),
        f"rebuild it from the current profile: deployctl up --profile {wanted.profile.name}",
    )


def resolve(profile: str, releases: Releases, named: str) -> str:
    """The id of a complete release by `previous`, `current`, its id or the beginning of it."""
    complete = [name for name, manifest in releases["releases"].items() if manifest]
    if named in (PREVIOUS, "current"):
        found = releases["previous" if named == PREVIOUS else "current"]
        matching = [found] if found in complete else []
    else:
        matching = [name for name in complete if name.startswith(named)]
    if len(matching) == 1:
        return str(matching[0])
    known = ", ".join(complete) or "none"
    begun = [name for name in releases["releases"] if name.startswith(named)]
    if not matching and begun and named not in (PREVIOUS, "current"):
        what = "; ".join(f"{name} {_never_complete(name, releases)}" for name in begun)
        what = f"{what}; no run rolls back to {'it' if len(begun) == 1 else 'them'}"
        raise UsageError(f"profile {profile}: {what}", next=f"releases to go back to: {known}")
    if matching:
        what = f"{len(matching)} releases begin with {named}"
    elif named == PREVIOUS:
        what = "there is no release before the current one"
    else:
        what = f"no release {named}"
    raise UsageError(f"profile {profile}: {what}", next=f"releases to name: {known}")


def _never_complete(release: str, releases: Releases) -> str:
    """Why a release has no manifest, as the ledger has it."""
    for entry in reversed(releases["ledger"]):
        if entry.get("kind") == "end" and entry.get("release") == release and entry.get("failed"):
            return f"failed {', '.join(map(str, entry['failed']))}"
    return "was never complete"


def previous_deployment(
    wanted: Deployment, release: str, manifest: Mapping[str, Any]
) -> Deployment:
    """What was wanted when a release was made, as its manifest keeps it; that same release.

    Raises `StagingFailed` where this version cannot read that any more.
    """
    try:
        # An older one of a slot gives it a name of its own.
        named: dict[str, Any] = {"name": wanted.profile.name}
        named |= {name: getattr(wanted.profile, name) for name in FLEET}
        profile = kept_profile(manifest["wanted"]).model_copy(update=named)
        if profile.group is None:
            profile = profile.on_hosts_of(wanted.profile)
        environment = str(manifest["identity"]["environment"])
        part = member(profile, wanted.host.name)
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise StagingFailed(
            wanted.host.name,
            "rollback",
            f"the configuration of release {release} cannot be read from its manifest",
            f"deployctl {manifest.get('deployctl') or 'of an unknown version'} wrote it; {error}",
            "deploy the current profile: deployctl up",
        ) from error
    return replace(
        wanted,
        profile=profile,
        skip=frozenset(manifest.get("skip", ())),
        member=part,
        pinned=ReleasePaths(profile.name, release, environment, wanted.unit),
    )


def kept_profile(kept: Mapping[str, Any]) -> Profile:
    """A profile that a manifest keeps; keys that this version does not know are left out, since
    another one may have written it. Raises `ValidationError` where it is not a profile."""
    kept = {key: value for key, value in kept.items() if key not in FLEET}
    try:
        return Profile.model_validate(kept)
    except ValidationError as error:
        found = copy.deepcopy(dict(kept))
        for problem in error.errors():
            if problem["type"] == UNKNOWN_KEY:
                _leave_out(found, problem["loc"])
        return Profile.model_validate(found)


def _leave_out(value: Any, place: tuple[int | str, ...]) -> None:
    *above, key = place
    for part in above:
        value = value[part]
    del value[key]
