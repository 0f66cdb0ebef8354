"""A client of the profile's own server."""

from __future__ import annotations

import os

from deployctl.config.profile import Profile
from deployctl.steps.interface import Context
from deployctl.vllm.client.client import Client


def api_key(profile: Profile) -> str | None:
    """The key that requests carry: from the variable that the profile names."""
    secret = profile.serve.api_key
    return None if secret is None else os.environ.get(secret.env)


def open_client(context: Context) -> Client:
    """A client of the served port, through a tunnel where one is needed."""
    return Client(context.base_url(), api_key(context.wanted.profile))
