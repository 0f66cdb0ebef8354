"""A gate of a profile whose server does not run says so, whatever was deployed before."""

from __future__ import annotations

import pytest

from tests.hosts.served.host import LIMIT, ServedHost
from tests.slow import some


@pytest.mark.parametrize("gate", some(["smoke", "acceptance"], ["smoke"]))
def test_nothing_serves(served: ServedHost, gate: str) -> None:
    def ask() -> None:
        with served.start(gate) as run:
            output, said = run.communicate(timeout=LIMIT)
        assert run.returncode == 7, said
        assert "nothing serves" in output
        assert "next: run: deployctl up --profile stand" in output

    ask()
    served.up()
    with served.start(gate) as run:
        run.communicate(timeout=LIMIT)
    assert run.returncode == 0
    served.up(playbook="down")
    ask()


def test_down_ends_what_a_bench_that_died_left(served: ServedHost) -> None:
    served.up()
    ours, others = ({"profile": p, "unit": "plain-0a1b2c3d"} for p in ("stand", "standing"))
    for unit in (ours, others):
        served.ask("units.start", **unit, argv=["sleep", "300"], release="r", supervisor="agent")
    try:
        assert served.up(playbook="down").outcome == "changed"
        assert served.unit("stand.plain-0a1b2c3d")["state"] == "absent"
        assert not (served.root / "profiles/stand/units/plain-0a1b2c3d").exists()
        assert served.unit("standing.plain-0a1b2c3d")["state"] == "running", "it is another's"
        assert served.up(playbook="down").outcome == "unchanged"
    finally:
        for unit in (ours, others):
            served.ask("units.stop", **unit, grace=0.1)
