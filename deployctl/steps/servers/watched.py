"""What a server's supervisor asks it to see that it lives. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from deployctl.agent.wire.liveness import Liveness
from deployctl.config.serve import LivenessSettings
from deployctl.steps.servers.stopping import listening


def watched(settings: LivenessSettings | None, argv: Sequence[str]) -> Liveness | None:
    """How the server with this command line is watched; None where it is not, or cannot be."""
    url, model = listening(argv), dict(pairwise(argv)).get("--served-model-name")
    if settings is None or url is None or model is None:
        return None
    return {
        "interval": settings.interval,
        "completion": settings.completion,
        "failures": settings.failures,
        "url": url,
        "model": model,
    }
