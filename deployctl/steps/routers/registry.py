"""The router of a profile, and where it reaches each replica. Pure."""

from __future__ import annotations

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.config.router import RouterSettings
from deployctl.steps.routers.interface import RouterEngine
from deployctl.steps.routers.vllm_router import VllmRouter
from deployctl.steps.servers.stopping import reachable

ENGINES: dict[str, RouterEngine] = {one.name: one for one in (VllmRouter(),)}


def engine(profile: Profile) -> RouterEngine | None:
    """The program that is managed as the profile's router; None where there is none, or others
    manage it."""
    return ENGINES.get(profile.router.engine) if profile.router else None


def router_url(settings: RouterSettings) -> str:
    """Where its host reaches the router itself."""
    host, port = settings.listens
    return f"http://{reachable(host)}:{port}"


def replica_url(profile: Profile, host: HostSettings, port: int) -> str:
    """Where the router reaches the replica on a host."""
    return f"http://{reachable(profile.address_of(host) or '')}:{port}"


def router_file(profile: str) -> str:
    """Where the router's program reads its command line and its replicas when it starts."""
    return f"@/profiles/{profile}/router.json"
