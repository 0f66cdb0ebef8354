"""A gate of a profile whose server does not run says so, whatever was deployed before."""

from __future__ import annotations

import pytest

from tests.hosts.served.host import ServedHost


@pytest.mark.parametrize("gate", ["smoke", "acceptance"])
def test_nothing_serves(served: ServedHost, gate: str) -> None:
    def ask() -> None:
        with served.start(gate) as run:
            output, said = run.communicate(timeout=60)
        assert run.returncode == 7, said
        assert "nothing serves" in output
        assert "next: run: deployctl up --profile stand" in output

    ask()
    served.up()
    with served.start(gate) as run:
        run.communicate(timeout=60)
    assert run.returncode == 0
    served.up(playbook="down")
    ask()
