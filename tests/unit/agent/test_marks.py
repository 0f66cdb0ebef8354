"""A mark in the environment of another user's process makes it none of ours."""

from __future__ import annotations

import subprocess

import pytest

from deployctl.agent.processes.processes import members


@pytest.mark.parametrize(("user", "ours"), [(None, True), (54321, False)])
def test_whose_process_carries_it(user: int | None, ours: bool) -> None:
    with subprocess.Popen(
        ["sh", "-c", "echo ready; read word"],
        env={"PATH": "/usr/bin:/bin", "MARK_OF_TEST": f"m-{user}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=user,
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        found = [stat.pid for stat in members(f"MARK_OF_TEST=m-{user}")]
        assert (child.pid in found) is ours
        child.kill()
