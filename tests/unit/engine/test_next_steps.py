"""What to do next fits what serves now."""

from __future__ import annotations

import pytest

from deployctl.engine.ledger.record import HostRecord
from deployctl.engine.run import next_steps
from deployctl.errors import AcceptanceFailed


@pytest.mark.parametrize(
    ("restored", "serving", "expected"),
    [
        (True, None, "deployctl diff current bad --profile p"),
        (False, "good", "deployctl diff current bad --profile p"),
        (False, "bad", "write the wanted config: deployctl up --profile p"),
        (False, None, "write the wanted config: deployctl up --profile p"),
    ],
)
def test_after_a_restore(restored: bool, serving: str | None, expected: str) -> None:
    error = AcceptanceFailed("h", "acceptance", "too low")
    error.next = "write the wanted config: deployctl up"
    error.next_when_restored = "deployctl diff current bad --profile p"
    host = HostRecord("h", release="bad", restored=restored, still_serving=serving, error=error)
    next_steps.complete(host, "p")
    assert error.next == expected
