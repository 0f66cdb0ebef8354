"""The values of the variables that a profile names as secrets."""

from __future__ import annotations

from collections.abc import Mapping

from deployctl.agent.core.inheritance import names_secret
from deployctl.config.playbook import Playbook
from deployctl.config.profile import Profile


def secret_values(profile: Profile, environ: Mapping[str, str]) -> list[str]:
    """The values of every variable that a profile names as a secret."""
    serve = profile.serve
    named = [*serve.secrets.values(), *([serve.api_key] if serve.api_key else [])]
    named += [told.webhook for told in profile.notify]
    return [value for secret in named if (value := environ.get(secret.env))]


def hook_values(playbook: Playbook, environ: Mapping[str, str]) -> list[str]:
    """The values of the variables that a playbook's hooks are given and that are named like
    secrets."""
    hooks = [hook for item in playbook.steps for hook in (*item.before, *item.after)]
    names = {name for hook in (*hooks, *playbook.after) for name in hook.env}
    return [environ[name] for name in sorted(names) if names_secret(name) and environ.get(name)]
