"""The agent's operations, to be asked by a session: `session.call(units.state, profile=…, unit=…)`.

For mypy each is the agent's own function, so that its name, arguments and answer are checked where
it is called. At run time each is the name that travels: nothing of the agent is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deployctl.agent.build import environment as environment
    from deployctl.agent.build import outside as outside
    from deployctl.agent.core import hooks as hooks
    from deployctl.agent.core import modules as modules
    from deployctl.agent.gpu import gpu as gpu
    from deployctl.agent.gpu import passthrough as passthrough
    from deployctl.agent.network import network as network
    from deployctl.agent.network import ranks as ranks
    from deployctl.agent.processes import machine as machine
    from deployctl.agent.processes import processes as processes
    from deployctl.agent.shipping import shipping as shipping
    from deployctl.agent.store import files as files
    from deployctl.agent.store import garbage as garbage
    from deployctl.agent.store import hub as hub
    from deployctl.agent.store import models as models
    from deployctl.agent.store import release_status as release_status
    from deployctl.agent.store import releases as releases
    from deployctl.agent.supervision import adoption as adoption
    from deployctl.agent.supervision import jobs as jobs
    from deployctl.agent.supervision import sleeping as sleeping
    from deployctl.agent.supervision import units as units
else:

    class Family:
        """Operations of one family by their full names."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, operation: str) -> str:
            return f"{self._name}.{operation}"

    environment, hooks, modules = Family("environment"), Family("hooks"), Family("modules")
    gpu, passthrough, network = Family("gpu"), Family("passthrough"), Family("network")
    ranks = Family("ranks")
    processes, files, garbage = Family("processes"), Family("files"), Family("garbage")
    hub, models, release_status = Family("hub"), Family("models"), Family("release_status")
    shipping, sleeping = Family("shipping"), Family("sleeping")
    releases, jobs, units = Family("releases"), Family("jobs"), Family("units")
    adoption, machine, outside = Family("adoption"), Family("machine"), Family("outside")
