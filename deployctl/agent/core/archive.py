"""Where this agent is imported from: its zip file, or, in tests, a directory."""

from __future__ import annotations

import os
import sys
from typing import List

from .interface import AgentError


def import_root() -> str:
    """The zip file or directory that this package is imported from."""
    place = os.path.abspath(__file__)
    for _ in range(len(__name__.split("."))):
        place = os.path.dirname(place)
    return place


def archive() -> str:
    """The zip file that this agent runs from; error `no-archive` where it runs from elsewhere."""
    place = import_root()
    if not os.path.isfile(place):
        raise AgentError("no-archive", "the agent does not run from its zip file: %s" % place)
    return place


def agent_program() -> List[str]:
    """The argv that runs this agent's zip file; error `no-archive` where it runs from elsewhere."""
    return [sys.executable, "-I", archive()]
