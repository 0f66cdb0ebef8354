"""Starts a router with the replicas that it had last.

Routers keep none over a restart. Their list lies in a file beside the command line, and is read at
every start, by a supervisor as well.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List


def command(settings: Dict[str, Any]) -> List[str]:
    """The command line of a router's file: `argv`, and the `replicas` after their `option`."""
    argv, replicas = [str(one) for one in settings["argv"]], settings["replicas"]
    return [*argv, str(settings["option"]), *map(str, replicas)] if replicas else argv


def serve(path: str) -> int:
    """Entry of the router's process, which becomes the router."""
    with open(path, encoding="utf-8") as file:
        argv = command(json.load(file))
    os.execv(argv[0], argv)
