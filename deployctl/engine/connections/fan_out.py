"""The same to every host of a profile, all at once: one that cannot be used does not affect the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deployctl import bugs
from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.engine.connections.connect import Connected, connect
from deployctl.engine.connections.pool import Slots, each
from deployctl.errors import DeployError, HostError, LockHeld

Look = Callable[[HostSettings, Connected], Mapping[str, Any]]


def fan_out(
    profile: Profile,
    look: Look,
    *,
    alone: bool = False,
    slots: Slots | None = None,
    done: Callable[[str], object] = str,
) -> list[dict[str, Any]]:
    """What `look` finds on each host, in the profile's order, with the host's name.

    A host that cannot be used, whose lock is held, or at which we fail ourselves, has an `error` in
    its place. Where the profile has no other host its failure is raised, unless `alone`. `done` is
    called with each host that is finished.
    """

    def one(host: HostSettings) -> dict[str, Any]:
        try:
            with connect(host) as connected:
                return {"host": host.name, **look(host, connected)}
        except (HostError, LockHeld) as error:
            if len(profile.hosts) == 1 and not alone:
                raise
            return {"host": host.name, "error": told(error)}
        except DeployError:
            raise
        except Exception as error:
            if len(profile.hosts) == 1:
                raise
            return {"host": host.name, "error": told(bugs.internal(host.name, error))}
        finally:
            done(host.name)

    return each(profile.hosts, one, slots or Slots())


def told(error: DeployError) -> dict[str, Any]:
    """A failure as a document has it."""
    return {**error.parts(), "exit_code": error.exit_code}
