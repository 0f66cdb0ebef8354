"""A run that serves an earlier release with its original configuration."""

from __future__ import annotations

from deployctl.agent.wire.answers import Releases
from deployctl.engine.ledger.earlier import previous_deployment
from deployctl.errors import StagingFailed, UsageError
from deployctl.steps.interface import Deployment

PREVIOUS = "previous"


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
    what = f"{len(matching)} releases begin with {named}" if matching else f"no release {named}"
    raise UsageError(f"profile {profile}: {what}", next=f"releases to name: {known}")
