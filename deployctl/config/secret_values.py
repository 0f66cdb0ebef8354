"""The values of the variables that a profile names as secrets."""

from __future__ import annotations

from collections.abc import Mapping

from deployctl.config.profile import Profile


def secret_values(profile: Profile, environ: Mapping[str, str]) -> list[str]:
    """The values of every variable that a profile names as a secret."""
    serve = profile.serve
    named = [*serve.secrets.values(), *([serve.api_key] if serve.api_key else [])]
    named += [told.webhook for told in profile.notify]
    return [value for secret in named if (value := environ.get(secret.env))]
