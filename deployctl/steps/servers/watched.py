"""What a server's supervisor asks it to see that it lives. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from deployctl.agent.wire.liveness import Liveness
from deployctl.config.profile import Profile
from deployctl.config.serve import LivenessSettings
from deployctl.steps.servers.stopping import listening


def watched(profile: Profile, argv: Sequence[str]) -> Liveness | None:
    """How the server with this command line is watched; None where it is not, or cannot be.

    Behind a router, and in a group, it is unless the profile says otherwise: a router leaves
    requests waiting at a server that hangs, and others serve while it is restarted; a group's head
    whose worker was killed answers /health until somebody asks for a completion.
    """
    url, model = listening(argv), dict(pairwise(argv)).get("--served-model-name")
    settings = profile.serve.liveness
    if settings is None and (profile.router is not None or profile.group is not None):
        settings = LivenessSettings()
    if not settings or url is None or model is None:
        return None
    return {
        "interval": settings.interval,
        "completion": settings.completion,
        "failures": settings.failures,
        "url": url,
        "model": model,
    }
