"""Why an agent did not start, from what the host printed instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployctl.errors import ConnectionLost, HostError, NoPython
from deployctl.hosts.interface import Ending

NAME_IT = "name it in the host file: python: /path/to/python3"
NOT_FOUND = 127
"""A shell's status, and env's and lxc-attach's, for a program that does not exist."""


def of_agent(name: str, python: str, word: Mapping[str, Any]) -> HostError:
    """The agent's own refusal: `python` is too old for it, its `root` cannot be written, or its
    `owner` is somebody else."""
    if word["refused"] == "python":
        return NoPython(
            name,
            f"{python} there is {word['why']}, the agent needs 3.9 or newer",
            next=f"install a newer one there and {NAME_IT}",
        )
    if word["refused"] == "owner":
        return HostError(
            name,
            "the agent's directory is not deployctl's alone",
            str(word["why"]),
            "name one of its own in the host file: root: /path, or run: chown and chmod 700",
        )
    return HostError(
        name,
        "the agent's directory cannot be written",
        str(word["why"]),
        "name a writable one in the host file: root: /path",
    )


def of_ending(name: str, python: str, ending: Ending, said: str) -> HostError:
    """The program ended before the agent's first word; `said` is its output instead."""
    why = "\n".join(part for part in (ending.stderr.strip(), said) if part)
    if ending.status == NOT_FOUND:
        return NoPython(
            name,
            f"there is no {python} on the host",
            why,
            f"install Python 3.9 or newer there, or {NAME_IT}",
        )
    if "unknown option" in ending.stderr.lower() and "-i" in ending.stderr.lower().split():
        # Isolation came with Python 3.4; what is older ends before it can tell its version.
        return NoPython(
            name,
            f"{python} there is older than 3.4, the agent needs 3.9 or newer",
            why,
            f"install a newer one there and {NAME_IT}",
        )
    status = "unknown" if ending.status is None else ending.status
    return ConnectionLost(
        name,
        f"the agent ended before it began, status {status}",
        why,
        f"try it by hand on {name}: {python} -V",
    )
