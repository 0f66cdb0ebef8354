"""A host that cannot be used: exit 4, and each reason in words of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.hosts.lab.sshd import Sshd, make_key


def plan(place: Path, host: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """`deployctl plan` of the demo on this host; what it says is on stderr."""
    profile = place / "elsewhere.yaml"
    profile.write_text(yaml.safe_dump({"name": "elsewhere", "extends": "demo", "hosts": [host]}))
    return subprocess.run(
        [sys.executable, "-m", "deployctl", "plan", "--profile", str(profile)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )


def test_three_refusals_are_three_messages(sshd: Sshd, tmp_path: Path) -> None:
    nobody = make_key(tmp_path / "nobody")
    empty = tmp_path / "known_hosts"
    empty.write_text("")
    config = tmp_path / "ssh_config"
    config.write_text("Host *\n  IdentityAgent none\n  IdentitiesOnly yes\n")
    refused = sshd.host_settings(identity_file=str(nobody), config_file=str(config))
    unknown = sshd.host_settings(known_hosts=str(empty), config_file=str(config))
    told = [plan(tmp_path, refused), plan(tmp_path, unknown)]
    down = sshd.host_settings()
    sshd.stop()
    told.append(plan(tmp_path, down))
    assert [done.returncode for done in told] == [4, 4, 4], [done.stderr for done in told]
    first = [done.stderr.splitlines()[0] for done in told]
    assert len(set(first)) == 3, first
    for done in told:
        assert "error: loopback: " in done.stderr
        assert "next: " in done.stderr
