"""A release that does not start because its environment was damaged after it was proven."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployctl.config.loader import load_playbook
from deployctl.engine.run.coordinator import survey
from deployctl.engine.run.options import Options
from deployctl.steps import registry
from tests.hosts.served.host import ServedHost

STARTS_NOT = "serve.env.STAND_IN_FAULT=start"


def planned(served: ServedHost) -> dict[str, str]:
    playbook = load_playbook("up", registry.options())
    (found,) = survey(served.profile(), playbook, Options())
    return {p.step.name: p.plan.status for p in found["plan"].steps}


def seal(served: ServedHost) -> Path:
    (environment,) = (served.root / "environments").iterdir()
    return environment / "seal.json"


@pytest.mark.parametrize("program", ["kept", "gone"])
def test_a_failed_start_is_blamed_on_the_damage(served: ServedHost, program: str) -> None:
    served.up()
    served.ask("units.stop", profile="stand", unit="server", grace=0.1)
    environment = seal(served).parent
    if program == "gone":
        (environment / "bin" / "vllm").unlink()
    else:
        text = (environment / "bin/vllm").read_text("utf-8")
        broken = text.replace("def main() -> int:\n", "def main() -> int:\n    broken()\n")
        (environment / "bin/vllm").write_text(broken, encoding="utf-8")
    next(environment.glob("lib/*/site-packages/vllm/sampling_params.py")).unlink()
    assert planned(served)["build"] == "unchanged", "nobody looks until something fails"
    failed = served.up()
    error = failed.hosts[0].error
    assert failed.exit_code == 7 and error is not None
    assert "was damaged after it was proven" in error.what
    assert "vllm/sampling_params.py is missing" in error.why
    assert error.next == "run: deployctl up --profile stand (another one is built beside it)"
    assert not seal(served).exists()
    assert planned(served)["build"] == "change"
    assert environment.is_dir(), "it stays: something may serve from it"


def test_a_failed_start_is_not_blamed_on_a_whole_environment(served: ServedHost) -> None:
    failed = served.up(STARTS_NOT)
    error = failed.hosts[0].error
    assert failed.exit_code == 7 and error is not None
    assert "damaged" not in f"{error.what}{error.why}"
    assert seal(served).exists()


def test_nothing_goes_back_to_a_damaged_environment(served: ServedHost) -> None:
    first = served.up().hosts[0].release
    served.ask("releases.break_seal", key=seal(served).parent.name, why=["x.py is missing"])
    refused = served.up(playbook="rollback", release=first)
    error = refused.hosts[0].error
    assert refused.exit_code == 6 and error is not None
    assert f"release {first} uses a damaged environment" in error.what
    assert error.why == "x.py is missing" and "deployctl up --profile stand" in error.next
    assert served.unit()["state"] == "running", "it was not touched"
