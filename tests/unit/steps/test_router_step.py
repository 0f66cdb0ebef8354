"""The router's step: on which host it belongs, and which playbooks have it."""

from __future__ import annotations

from deployctl.config.loader import load_playbook
from deployctl.engine.run.together import own_steps
from deployctl.steps import registry
from deployctl.steps.interface import SERVER, Answers, Deployment
from tests.unit.config.test_routed import profile


def test_every_playbook_that_starts_servers_brings_the_router() -> None:
    starting = registry.makers(SERVER)
    for name in ("up", "redeploy", "nightly", "rollback"):
        steps = [item.step for item in load_playbook(name, registry.options()).steps]
        first = min(steps.index(step) for step in steps if step in starting)
        assert "router" in steps[:first], name
    for host in profile(router={"port": 9000}).hosts:
        wanted = Deployment(profile(router={"port": 9000}), host)
        concerned = registry.steps()["router"].concerns(wanted, Answers({}))
        assert concerned is (host.name == "a")
        assert registry.steps()["router"] in own_steps([*registry.steps().values()], wanted)
