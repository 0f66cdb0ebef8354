"""Which release is meant by a name, and why one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from deployctl.engine.ledger import rollback
from deployctl.errors import UsageError
from tests.hosts.step_bench import NOTHING_DEPLOYED

GOOD, BAD, HALF = "0a1b2c3d4e5f", "5bdf13c71d28", "77aa00bb11cc"


def state() -> Any:
    failed = {"kind": "end", "release": BAD, "failed": ["acceptance"]}
    again = {"kind": "end", "release": GOOD, "failed": []}
    found = {GOOD: {"release": GOOD}, BAD: None, HALF: None}
    return {**NOTHING_DEPLOYED, "current": GOOD, "releases": found, "ledger": [failed, again]}


def test_a_complete_one_is_found_by_its_beginning() -> None:
    assert rollback.resolve("demo", state(), "0a1b") == GOOD
    assert rollback.resolve("demo", state(), "current") == GOOD


@pytest.mark.parametrize(
    ("named", "what", "advice"),
    [
        ("5bdf", f"{BAD} failed acceptance; no run rolls back to it", "to go back to: 0a1b2c3d"),
        ("77", f"{HALF} was never complete; no run rolls back to it", "to go back to: 0a1b2c3d"),
        ("ffff", "no release ffff", f"releases to name: {GOOD}"),
        ("previous", "there is no release before the current one", f"releases to name: {GOOD}"),
    ],
)
def test_why_none_is_found(named: str, what: str, advice: str) -> None:
    with pytest.raises(UsageError) as refused:
        rollback.resolve("demo", state(), named)
    assert what in refused.value.what
    assert advice in refused.value.next
