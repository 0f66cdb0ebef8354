"""What must be known of a router's program: how it is installed, started and asked. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from deployctl.config.router import RouterSettings


@dataclass(frozen=True)
class Request:
    """A request to the router."""

    method: str
    path: str


class RouterEngine(ABC):
    """One program that routes requests to replicas."""

    name: ClassVar[str]
    replicas_option: ClassVar[str]
    """Its option that the URLs of replicas follow."""
    alive: ClassVar[Request]
    """Answered with 200 as soon as it can be asked anything."""
    ready: ClassVar[Request]
    """Answered with 200 while at least one replica gets requests."""
    listing: ClassVar[Request]
    """Answered with its replicas."""

    @abstractmethod
    def requirement(self, settings: RouterSettings) -> str:
        """What to install from the package index, at a pinned version."""

    @abstractmethod
    def argv(self, settings: RouterSettings, environment: str) -> list[str]:
        """Its command line, without replicas; `environment` is where it is installed."""

    @abstractmethod
    def add(self, url: str) -> Request:
        """Send requests to this replica as well; answered once it has proven itself healthy."""

    @abstractmethod
    def remove(self, url: str) -> Request:
        """Send no further requests to this replica; those in flight go on."""

    @abstractmethod
    def replicas(self, body: str) -> Mapping[str, bool]:
        """Whether each replica is healthy, by its URL, from an answer to `listing`; raises
        ValueError where that is not understood."""

    @abstractmethod
    def added(self, status: int, body: str) -> bool:
        """Whether an answer to `add` means that the replica is in its list now."""

    @abstractmethod
    def cut_off(self, metrics: str, url: str) -> bool:
        """Whether it keeps requests from a replica that it lists as healthy, after errors."""

    def environment(self, settings: RouterSettings) -> str:
        """Where it is installed; `@` stands for the host's root."""
        return f"@/routers/{self.name}-{settings.version}"
