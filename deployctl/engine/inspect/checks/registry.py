"""Every check of `doctor` beside those of `preflight`, in the order in which people read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deployctl.engine.inspect.checks import clock, here, machine, network
from deployctl.engine.inspect.checks.interface import HereCheck, HostCheck
from deployctl.steps.interface import Deployment, Question

HERE: tuple[HereCheck, ...] = (
    HereCheck("python", here.python),
    HereCheck("ssh", here.ssh_client),
    HereCheck("key", here.keys),
    HereCheck("ssh-agent", here.agent),
    HereCheck("reports", here.state),
    HereCheck("secret", here.secrets),
    HereCheck("playbook", here.playbook),
    HereCheck("cron", here.schedules),
)


def nothing(wanted: Deployment) -> Sequence[Question[Any]]:
    """For a check that judges what others have asked for."""
    return ()


HOST: tuple[HostCheck, ...] = (
    HostCheck("clock", machine.questions, clock.judge),
    HostCheck("folders", nothing, machine.folders),
    HostCheck("systemd", nothing, machine.services),
    HostCheck("files", nothing, machine.limits),
    HostCheck("index", network.questions, network.index),
    HostCheck("git", nothing, network.repository),
    HostCheck("models", nothing, network.models),
)
