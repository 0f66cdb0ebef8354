"""The agent's operations, to be asked by a session: `session.call(units.state, profile=…, unit=…)`.

For mypy each is the agent's own function, so that its name, arguments and answer are checked where
it is called. At run time each is the name that travels: nothing of the agent is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deployctl.agent.network import network as network
    from deployctl.agent.store import files as files
    from deployctl.agent.store import releases as releases
    from deployctl.agent.supervision import jobs as jobs
    from deployctl.agent.supervision import units as units
else:

    class Family:
        """Operations of one family by their full names."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, operation: str) -> str:
            return f"{self._name}.{operation}"

    network, files, releases = Family("network"), Family("files"), Family("releases")
    jobs, units = Family("jobs"), Family("units")
