"""Two real servers behind the real router: a new release goes over them, and no request is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from tests.hosts.served.many import needs_root
from tests.hosts.served.replicas import Replicas

from .conftest import Demo

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(needs_root(), reason="namespaces need root"),
]
PLAIN = {"drafter": None, "fixes": None, "acceptance": None}


def real(directory: Path, environment: Path) -> Replicas:
    """Two hosts that share an environment with a real vLLM."""
    hosts = Replicas(directory, 2, **PLAIN)
    content = yaml.safe_load(hosts.profile_file.read_text("utf-8"))
    content["build"] = {"compile_bytecode": False}
    content["serve"] |= {"supervisor": "agent", "stop_grace": "30s"}
    hosts.profile_file.write_text(yaml.safe_dump(content), encoding="utf-8")
    for machine in hosts.machines:
        there = machine.root / "environments" / environment.name
        subprocess.run(["cp", "-al", environment, there], check=True)
    return hosts


@pytest.fixture
def two(deployed: Demo) -> Iterator[Replicas]:
    """Two hosts with what the demo was built from."""
    # On the file system of the environment, whose files are linked.
    folder = TemporaryDirectory(prefix="deployctl-roll-", dir="/var/tmp")
    with folder as root, real(Path(root), deployed.environment) as hosts:
        yield hosts


def test_a_roll_over_real_servers_loses_no_request(two: Replicas) -> None:
    record = two.up()
    assert record.outcome == "deployed", [host.error for host in record.hosts]
    assert two.workers() == two.all()
    before = {unit["release"] for unit in two.units()}
    with two.asking(rate=1, seconds=0) as became:
        record = two.up("serve.args.max-num-seqs=4")
    assert record.outcome == "deployed", [host.error for host in record.hosts]
    assert became["sent"] > 10 and not became["failed"] and not became["cut"], became
    assert not before & {unit["release"] for unit in two.units()}
    assert two.workers() == two.all()
    for host in record.hosts:
        (left,) = (step for step in host.steps if step.step == "leave")
        assert left.evidence["removed"] and left.evidence["in_flight"] == 0
