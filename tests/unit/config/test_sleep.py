"""The strategy sleep in a profile: what it asks of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from deployctl.config.profile import Profile
from deployctl.steps.interface import Deployment
from deployctl.steps.servers import siblings, sleeping
from deployctl.vllm.serving.command import option

REPOSITORY = Path(__file__).parents[3]


def profile(**changes: Any) -> Profile:
    given = {
        "name": "p",
        "hosts": [{"name": "here", "local": True}],
        "model": {"path": "/m", "served_name": "m"},
        "build": {"source": {"release": "0.20.1"}, "target": "cuda"},
        "serve": {"port": 30000},
        "switch": {"strategy": "sleep"},
    }
    return Profile.model_validate({**given, **changes})


def test_its_slots_follow_the_port_and_can_sleep() -> None:
    made = profile()
    wanted = Deployment(made, made.hosts[0])
    for unit, port in (("blue", 30001), ("green", 30002)):
        one = siblings.of_unit(wanted, unit).profile
        assert (one.serve.host, one.serve.port) == ("127.0.0.1", port)
        assert sleeping.wants(one)
        argv = [word for name, value in one.serve.args.items() for word in option(name, value)]
        assert argv == ["--enable-sleep-mode", "--middleware", sleeping.GUARD]
        assert "class Guard" in sleeping.guard(argv)
    assert not sleeping.wants(made) and sleeping.guard(["vllm"]) == ""


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"build": {"source": {"release": "0.20.1"}, "target": "cpu"}}, "CPU build cannot sleep"),
        ({"switch": {"strategy": "sleep", "blue": {"port": 1}}}, "both slots or none"),
        (
            {
                "switch": {
                    "strategy": "sleep",
                    "blue": {"port": 1, "gpus": [0]},
                    "green": {"port": 2},
                }
            },
            "leave gpus out",
        ),
        ({"serve": {"port": 65534}}, "above 65535"),
        ({"serve": {"port": 1, "args": {"middleware": "x.Y"}}}, "middleware is deployctl's own"),
        ({"serve": {"port": 1, "env": {"VLLM_SERVER_DEV_MODE": "1"}}}, "deployctl's own"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        profile(**changes)


def test_the_profile_of_the_bench_is_one() -> None:
    found = yaml.safe_load((REPOSITORY / "bench/gpu/tiny-sleep.yaml").read_text("utf-8"))
    assert found["switch"] == {"strategy": "sleep"}
