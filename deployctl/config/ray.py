"""The Ray cluster of a group: started for it, or there already."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from deployctl.config.base import Settings, misfit
from deployctl.config.serve import SecretSettings

VERSION = "2.60.0"
"""The Ray that is installed where a profile names none."""
OWN_PORTS = 10
"""Ports of a node's range that its own processes have; the rest are those of its workers."""
LEAST_PORTS = 30


class RaySettings(Settings):
    """A Ray cluster. Without `address`, one is started on the hosts for this group alone."""

    version: str = Field(default=VERSION, pattern=r"^[0-9]+(\.[0-9]+)+$")
    """The version of Ray that is installed beside vLLM."""
    port: int = Field(default=6379, ge=1, le=65535)
    """The head's port at which the other nodes join."""
    ports: str = Field(default="20000-20199", pattern=r"^[0-9]{1,5}-[0-9]{1,5}$")
    """FIRST-LAST: the ports of each node that Ray listens on, 30 at least."""
    address: str | None = None
    """IP:PORT of a cluster that is there already, of which the host is a node. It is neither
    started nor stopped, and its nodes have a vLLM of their own."""
    token: SecretSettings | None = None
    """The variable that holds the token of the cluster at `address`; one that is started for the
    group has a token of its own."""

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last of `ports`."""
        first, _, last = self.ports.partition("-")
        return int(first), int(last)

    @property
    def requirement(self) -> str:
        """What is installed beside vLLM."""
        return f"ray=={self.version}"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        first, last = self.span
        if last > 65535 or last - first + 1 < LEAST_PORTS or first < 1:
            raise misfit(("ports",), f"a range FIRST-LAST of {LEAST_PORTS} ports or more")
        if first <= self.port <= last:
            raise misfit(("port",), f"it is one of ports, {self.ports}: choose another one")
        if self.address is None and self.token is not None:
            raise misfit(("token",), "the token of a cluster that is there already: set address")
        if self.address is not None and not re.fullmatch(r"\S+:[0-9]{1,5}", self.address):
            raise misfit(("address",), "the cluster's head as IP:PORT is expected")
        return self


def with_ray(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A profile before its validation, with the Ray that its group needs in `build.extra`."""
    group, build = value.get("group"), value.get("build")
    if not isinstance(group, dict) or group.get("engine") != "ray" or not isinstance(build, dict):
        return value
    settings = group.get("ray") or {}
    version = settings.get("version", VERSION) if isinstance(settings, dict) else VERSION
    extra = build.get("extra") or []
    if not isinstance(extra, list) or any(map(_is_ray, extra)):
        return value
    return {**value, "build": {**build, "extra": [*extra, f"ray=={version}"]}}


def other_ray(settings: RaySettings, extra: list[str]) -> Iterator[str]:
    """Requirements of another Ray than the settings name."""
    return (one for one in extra if _is_ray(one) and one != settings.requirement)


def _is_ray(requirement: object) -> bool:
    return bool(re.match(r"ray\b(?![-_.])", str(requirement).strip(), re.IGNORECASE))
