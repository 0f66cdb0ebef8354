"""Commands of the user's own around the steps of a playbook, and messages about a run's end."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from deployctl.config.base import Duration, Settings
from deployctl.config.serve import SecretSettings


class HookSettings(Settings):
    """A command that gets the report so far as JSON on its standard input.

    No shell is involved: `run` is its argv. Its environment has paths, locale and proxies,
    DEPLOYCTL_HOOK_RUN, …_PROFILE, …_HOST, …_STEP and …_WHEN, and what `env` names.
    """

    run: list[str] = Field(min_length=1)
    """The program and its arguments, one item each."""
    where: Literal["here", "host"] = "here"
    """Where deployctl runs, or on the host that is worked on."""
    env: list[str] = []
    """Further variables of deployctl's environment that it is given, by name."""
    timeout: Duration = 60.0
    """It is ended after this, and has failed."""
    required: bool = True
    """Its failure is the step's failure, with the rollback; otherwise a note."""


Occasion = Literal["failure", "rollback", "change", "always"]


class NotifySettings(Settings):
    """A message to a webhook when a run has ended. It can never make a run fail."""

    webhook: SecretSettings
    """The variable that holds the URL: `webhook: {env: DEPLOYCTL_WEBHOOK}`. An URL is a secret."""
    template: Literal["json", "slack", "ntfy"] = "json"
    """json: the whole report · slack: a text for an incoming webhook (Mattermost, Discord's
    /slack) · ntfy: a title, a text and a priority."""
    on: list[Occasion] = Field(default=["failure", "rollback"], min_length=1)
    """failure: it failed, was interrupted, or is undecided · rollback: the previous release
    was restored · change: something was changed, such as the release that serves · always: whatever
    happened, skipped and unchanged too."""
    timeout: Duration = 10.0
    """The webhook must have answered within this; otherwise a note is left."""
