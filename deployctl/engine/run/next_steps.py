"""What to do next, as a command that can be copied: with the profile that it is about."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deployctl.engine.ledger.record import HostRecord
from deployctl.errors import DeployError

_COMMAND = re.compile(
    r"deployctl (?:up|run \S+|build|verify|fetch|launch|clean|smoke|acceptance|status|logs|history|"
    r"rollback|gc|down|doctor|drafter|fixes|plan|rehearse)\b(?![^,;()]*--profile)"
)


def with_profile(text: str, profile: str) -> str:
    """The text with `--profile` behind each of our commands that lacks it."""
    return _COMMAND.sub(lambda found: f"{found[0]} --profile {profile}", text)


def complete(host: HostRecord, profile: str) -> None:
    """Make the advice in a host's failures complete; steps know no profile's name."""
    others = host.still_serving not in (None, host.release)
    for error in _errors(host):
        if error.next_when_restored and (host.restored or others):
            error.next = error.next_when_restored
        error.next = with_profile(error.next, profile)


def _errors(host: HostRecord) -> Iterator[DeployError]:
    found = [host.error, host.rollback_error, *(step.error for step in host.steps)]
    yield from (error for error in found if error is not None)
