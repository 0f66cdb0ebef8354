"""Rolling: replicas behind the real vllm-router get a new release one after the other, and no
request is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.served.host import STALE
from tests.hosts.served.many import needs_root
from tests.hosts.served.replicas import Replicas

pytestmark = pytest.mark.skipif(needs_root(), reason="namespaces need root")
OTHER = "serve.env.WHICH=other"


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Replicas]:
    """Two hosts, a router on the first."""
    with Replicas(tmp_path, 2) as hosts:
        yield hosts


def test_a_roll_loses_no_request(two: Replicas) -> None:
    record = two.up()
    assert record.outcome == "deployed", [host.error for host in record.hosts]
    assert two.workers() == two.all()
    before = {unit["release"] for unit in two.units()}
    with two.asking() as became:
        record = two.up(OTHER)
    assert record.outcome == "deployed", [host.error for host in record.hosts]
    assert not became["failed"] and not became["cut"], became
    assert became["sent"] > 20
    assert not before & {unit["release"] for unit in two.units()}
    assert two.workers() == two.all()
    with two.asking() as became:
        record = two.up(OTHER, STALE)
    assert (record.outcome, record.exit_code) == ("rolled-back", 10)
    assert not became["failed"] and not became["cut"], became
    assert two.workers() == two.all()
