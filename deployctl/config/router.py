"""Replicas of a model, the router before them, and how a new release goes from one to the next."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from deployctl.config.base import Duration, Settings

ROUTER_VERSION = "0.1.17"
"""The vllm-router that this version of deployctl was tried with."""


def _share(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, int) and value < 1):
        raise ValueError("give a number of replicas from 1 on, or a share such as 25%")
    if isinstance(value, str) and not re.fullmatch(r"[1-9][0-9]?%|100%", value):
        raise ValueError("give a number of replicas from 1 on, or a share such as 25%")
    return value


class ReplicasSettings(Settings):
    """Servers of the same model, each a unit of its own."""

    per_host: int = Field(default=1, ge=1)
    """Servers on each host. The first listens on `serve.port`, each further one on the next port.
    They share `serve.gpus` equally, in its order; when that is absent, each has as many GPUs as it
    needs, from GPU 0 on. A replica is named HOST/1, HOST/2 and so on."""
    drain: Duration = 60.0
    """How long requests in flight may go on once the router sends a replica no further ones."""


class RouterHealthSettings(Settings):
    """How the router finds a replica ill; its own defaults need three minutes."""

    interval: Duration = Field(default=2.0, ge=1)
    """From one check of a replica to the next, in whole seconds."""
    timeout: Duration = Field(default=2.0, ge=1)
    """How long a check may take, in whole seconds."""
    failures: int = Field(default=2, ge=1)
    """Failed checks in a row after which a replica gets no requests."""


class RouterSettings(Settings):
    """What clients ask: one address before all replicas."""

    engine: Literal["vllm-router", "external"] = "vllm-router"
    """vllm-router: installed, started and supervised by deployctl · external: run by others;
    deployctl takes no replica out of it."""
    host: str | None = None
    """The host of the profile that runs it; the first one when absent."""
    address: str = "127.0.0.1"
    """The address to listen on, as seen by that host. Whoever reaches it can also add and remove
    replicas: the router has no key for that."""
    port: int = Field(default=8080, ge=1, le=65535)
    """The port to listen on, which clients use."""
    private_port: int | None = Field(default=None, ge=1, le=65535)
    """Where the router itself listens, on the loopback address: on `address` and `port` a proxy
    then passes on what clients ask (`/v1/…`, `/health`) and nothing else, also while the router is
    started again. When absent, the router listens there itself."""
    metrics_port: int = Field(default=29000, ge=1, le=65535)
    """The port of its Prometheus metrics, on the loopback address."""
    policy: str = "cache_aware"
    """How it chooses a replica: cache_aware, power_of_two, round_robin, random, consistent_hash,
    …"""
    version: str = Field(default=ROUTER_VERSION, pattern=r"^[0-9][0-9A-Za-z.+-]*$")
    """The version to install from the package index."""
    health: RouterHealthSettings = RouterHealthSettings()
    """When the router leaves a replica out."""

    @property
    def listens(self) -> tuple[str, int]:
        """The address and port of the router itself."""
        if self.private_port is None:
            return self.address, self.port
        return "127.0.0.1", self.private_port


class RollSettings(Settings):
    """How a new release goes over the replicas, a few at a time."""

    at_once: Annotated[int | str, BeforeValidator(_share)] = 1
    """Replicas that switch at the same time: a number, or a share of all such as 25%. At least
    one that serves is left alone, where there are several."""
    wait: Duration = 0.0
    """Pause between the replicas that have switched and the next ones."""
    on_failure: Literal["back", "stop"] = "stop"
    """What those that have switched do once one fails: stop leaves them on the new release, back
    returns them to the one before. The one that failed goes back in any case."""
