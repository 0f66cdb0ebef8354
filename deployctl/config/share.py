"""How the hosts of a profile share what one of them makes or fetches."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from deployctl.config.base import Settings


class ShareSettings(Settings):
    """An environment, a model and a drafter are made or fetched by one host of each kind; the other
    hosts get them from it and prove them as it does."""

    way: Literal["auto", "controller", "relay", "none"] = "auto"
    """controller: through this machine to all at once · relay: from host to host, each passes on
    while it receives · auto: the faster of both, measured with the first pieces · none: each host
    makes and fetches everything itself."""
    relay_port: int | None = Field(default=None, ge=1, le=65535)
    """The port on which a receiver listens in a relay; any free one when absent."""
