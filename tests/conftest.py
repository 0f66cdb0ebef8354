"""Real hosts to deploy to, for the tests of every room. More about them in tests/hosts/lab.

sshd
    A private OpenSSH server on a loopback port, with this machine's own files behind it
    (tests.hosts.lab.sshd.Sshd). `sshd.host_settings(name, **changes)` is a host file as
    `HostSettings(**…)` takes it; `changes` go into its `ssh:`. `sshd.stop()`, `sshd.start()`,
    `sshd.sessions()` (pids that serve connections), `sshd.log`.
lab
    Two machines with a network, a root file system, an sshd and an LXC of their own
    (tests.hosts.lab.network.Lab); mark such tests `lab`. The test's thread, and what it starts,
    is inside the lab's network, which leads nowhere else. `lab.h1.host_settings()`,
    `lab.h2.host_settings()`; `lab.container.host_settings(via="pct" or "lxc-attach")` enters
    container 129 through h1. On a machine: `run`, `cut`, `heal`, `freeze`, `thaw`,
    `kill_sessions`, `stop_sshd`, `start_sshd`, `rekey`. On a container: `run`, `start`, `stop`,
    `freeze`, `thaw`. `lab.make_systemd_container(lab.h2, 130)` gives one with systemd as PID 1,
    to be started and stopped by the test. After each test all of it is healed.
served
    This machine with a root of its own and a sealed environment whose `vllm` is a stand-in
    (tests.hosts.served.host.ServedHost): a whole `up` with real agents and processes in 3 s.
webhook
    Keeps what it is told (tests.hosts.served.webhook.Webhook): `url`, `bodies`, `headers`.
builder, project
    build and verify alone on this machine (tests.hosts.builds.host.BuildHost), and a stand-in for
    vLLM's repository whose C extensions a real uv builds (tests.hosts.builds.project.Project).
"""

import gc

import hypothesis
import pytest

from tests.hosts.builds.fixtures import builder, project
from tests.hosts.lab.fixtures import lab, sshd, whole_lab
from tests.hosts.served.fixtures import served, webhook

__all__ = ["builder", "lab", "project", "served", "sshd", "webhook", "whole_lab"]

REAL_SERVER = 2400.0
"""Seconds for a test of one, of which its build is a part: longer, and it hangs."""

# A busy machine is no counterexample.
hypothesis.settings.register_profile(
    "deployctl",
    deadline=None,
    max_examples=50,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("deployctl")


# Nothing that is imported or collected becomes garbage: the collector looks through none of it.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Collect garbage again from here, among what the tests make."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker has the real server, and what takes longest begins first."""
    for item in items:
        if item.get_closest_marker("vllm"):
            # The first of them deploys it.
            item.add_marker(pytest.mark.timeout(REAL_SERVER))
            if not item.get_closest_marker("xdist_group"):
                item.add_marker(pytest.mark.xdist_group("vllm"))
    items.sort(key=lambda item: not item.get_closest_marker("long"))
