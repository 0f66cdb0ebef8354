"""The same to every host of a profile: one that cannot be used hides no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.run.connect import Connected, connect
from deployctl.errors import HostError, LockHeld

Look = Callable[[HostSettings, Connected], Mapping[str, Any]]


def each_host(profile: Profile, look: Look, *, alone: bool = False) -> list[dict[str, Any]]:
    """What `look` finds on each host, one after the other, with the host's name.

    A host that cannot be used, or whose lock is held, has an `error` in its place. Where the
    profile has no other host its failure is raised, unless `alone`.
    """
    found = []
    for host in profile.hosts:
        try:
            with connect(host) as connected:
                found.append({"host": host.name, **look(host, connected)})
        except (HostError, LockHeld) as error:
            if len(profile.hosts) == 1 and not alone:
                raise
            told = {**error.parts(), "exit_code": error.exit_code}
            found.append({"host": host.name, "error": told})
    return found
