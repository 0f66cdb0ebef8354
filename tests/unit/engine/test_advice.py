from __future__ import annotations

import pytest

from deployctl.engine.ledger.lock import describe, take
from deployctl.engine.ledger.record import HostRecord
from deployctl.engine.run.next_steps import complete, with_profile
from deployctl.errors import NotReady


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("read the log: deployctl logs", "read the log: deployctl logs --profile demo"),
        ("run: deployctl up --profile other", "run: deployctl up --profile other"),
        (
            "deployctl build, then deployctl up --profile demo",
            "deployctl build --profile demo, then deployctl up --profile demo",
        ),
        ("deployctl run prepare", "deployctl run prepare --profile demo"),
        ("the upper half", "the upper half"),
    ],
)
def test_a_command_can_be_copied(text: str, told: str) -> None:
    assert with_profile(text, "demo") == told


def test_the_failures_of_a_host_are_completed() -> None:
    host = HostRecord("h", error=NotReady("h", "ready", "what", next="deployctl logs"))
    complete(host, "demo")
    assert host.error is not None
    assert host.error.next == "deployctl logs --profile demo"


def test_who_holds_the_lock_is_told_with_what_it_does() -> None:
    holder = take("demo", "R", playbook="nightly").args["holder"]
    assert describe(holder).startswith("run R (nightly) by ")
    assert describe({}).startswith("run unknown by ")
