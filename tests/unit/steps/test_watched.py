"""What a server's supervisor asks it follows from the server's own command line."""

from __future__ import annotations

from typing import Any

from deployctl.config.profile import Profile
from deployctl.steps.release import release_identity
from deployctl.steps.servers.watched import watched
from tests.hosts.step_bench import deployment
from tests.unit.steps.test_launch_plan import answers

ARGV = ["vllm", "serve", "m", "--served-model-name", "tiny", "--host", "0.0.0.0", "--port", "9001"]


def profile(**sections: Any) -> Profile:
    return deployment(sections).profile


def test_it_asks_where_the_command_line_listens() -> None:
    assert watched(profile(serve={"liveness": {"failures": 3}}), ARGV) == {
        "interval": 30.0,
        "completion": 60.0,
        "failures": 3,
        "url": "http://127.0.0.1:9001",
        "model": "tiny",
    }


def test_it_is_off_unless_asked_for() -> None:
    assert watched(profile(), ARGV) is None
    assert watched(profile(serve={"liveness": {}}), ["python", "front.py"]) is None


def test_behind_a_router_it_is_on_unless_refused() -> None:
    found = watched(profile(router={}), ARGV)
    assert found is not None and found["interval"] == 30.0
    assert watched(profile(router={}, serve={"liveness": False}), ARGV) is None


def test_how_a_server_is_watched_makes_no_other_release() -> None:
    without, wanted = deployment(), deployment({"serve": {"liveness": {"interval": "10s"}}})
    assert wanted.profile.serve.liveness is not None
    assert release_identity(wanted, answers(wanted)) == release_identity(without, answers(without))
