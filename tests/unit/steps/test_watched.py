"""What a server's supervisor asks it follows from the server's own command line."""

from __future__ import annotations

from deployctl.config.serve import LivenessSettings
from deployctl.steps.release import release_identity
from deployctl.steps.servers.watched import watched
from tests.hosts.step_bench import deployment
from tests.unit.steps.test_launch_plan import answers

ARGV = ["vllm", "serve", "m", "--served-model-name", "tiny", "--host", "0.0.0.0", "--port", "9001"]


def test_it_asks_where_the_command_line_listens() -> None:
    assert watched(LivenessSettings(failures=3), ARGV) == {
        "interval": 30.0,
        "completion": 60.0,
        "failures": 3,
        "url": "http://127.0.0.1:9001",
        "model": "tiny",
    }


def test_it_is_off_unless_asked_for() -> None:
    assert deployment().profile.serve.liveness is None
    assert watched(None, ARGV) is None
    assert watched(LivenessSettings(), ["python", "front.py"]) is None


def test_how_a_server_is_watched_makes_no_other_release() -> None:
    without, wanted = deployment(), deployment({"serve": {"liveness": {"interval": "10s"}}})
    assert wanted.profile.serve.liveness is not None
    assert release_identity(wanted, answers(wanted)) == release_identity(without, answers(without))
