"""Replicas of a model, the router before them, and how a new release goes from one to the next."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from deployctl.config.base import Duration, Settings, misfit
from deployctl.config.suggest import did_you_mean

ROUTER_VERSION = "0.1.17"
"""The vllm-router that this version of deployctl was tried with."""
POLICIES = {
    ("vllm-router", ROUTER_VERSION): (
        "cache_aware",
        "power_of_two",
        "round_robin",
        "random",
        "consistent_hash",
        "sticky_least_loaded",
        "kv_aware",
    )
}
"""What `vllm-router --help` of a version lists for `--policy`; others are asked when they start."""


def _share(value: Any, least: int = 1) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
    share = isinstance(value, str) and re.fullmatch(r"[0-9]|[1-9][0-9]|100", value.rstrip("%"))
    if whole or (share and value.endswith("%") and (least == 0 or value != "0%")):
        return value
    raise ValueError(f"give a number of replicas from {least} on, or a share such as 25%")


def _share_or_none(value: Any) -> Any:
    return _share(value, least=0)


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

    @field_validator("interval", "timeout")
    @classmethod
    def _whole_seconds(cls, value: float) -> float:
        if value != int(value):
            raise ValueError(f"the router counts whole seconds: write {int(value) or 1}s")
        return value


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
    sticky_least_loaded or kv_aware; another version of the router may know others."""
    version: str = Field(default=ROUTER_VERSION, pattern=r"^[0-9][0-9A-Za-z.+-]*$")
    """The version to install from the package index."""
    health: RouterHealthSettings = RouterHealthSettings()
    """When the router leaves a replica out."""

    @field_validator("address")
    @classmethod
    def _an_address(cls, value: str) -> str:
        if value == "localhost":
            return value
        try:
            ip_address(value.strip("[]"))
        except ValueError:
            said = "give an IP address of that host, 0.0.0.0 for all of them, or 127.0.0.1"
            raise ValueError(said) from None
        return value

    @model_validator(mode="after")
    def _known_policy(self) -> Self:
        known = POLICIES.get((self.engine, self.version), ())
        if known and self.policy not in known:
            near = did_you_mean(self.policy, known)
            said = f"{self.engine} {self.version} knows {', '.join(known)}{near}"
            raise misfit(("policy",), said)
        return self

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
    tolerate: Annotated[int | str, BeforeValidator(_share_or_none)] = "25%"
    """Replicas, or a share of all, that may fail before they switch (unreachable, disk full, wrong
    driver): they are left out, and the others roll. With more of them none switches."""
    wait: Duration = 0.0
    """Pause between the replicas that have switched and the next ones."""
    on_failure: Literal["back", "stop"] = "stop"
    """What those that have switched do once one fails: stop leaves them on the new release, back
    returns them to the one before. The one that failed goes back in any case."""
