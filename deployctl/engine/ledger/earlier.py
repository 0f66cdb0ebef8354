"""An earlier release with its original configuration, as its manifest keeps it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from deployctl.config.profile import Profile
from deployctl.errors import StagingFailed
from deployctl.steps.identity import ReleasePaths
from deployctl.steps.interface import Deployment

UNKNOWN_KEY = "extra_forbidden"


def previous_deployment(
    wanted: Deployment, release: str, manifest: Mapping[str, Any]
) -> Deployment:
    """What was wanted when a release was made, as its manifest keeps it; that very release.

    Raises `StagingFailed` where this version cannot read that any more.
    """
    try:
        profile = wanted_then(manifest["wanted"])
        environment = str(manifest["identity"]["environment"])
    except (ValidationError, KeyError, TypeError) as error:
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
        pinned=ReleasePaths(profile.name, release, environment),
    )


def wanted_then(kept: Mapping[str, Any]) -> Profile:
    """A profile that a manifest keeps; keys that this version does not know are left out, since
    another one may have written it. Raises `ValidationError` where it is not a profile."""
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
