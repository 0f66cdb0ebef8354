"""Which commit of deployctl this is, where that can be known."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import deployctl

SHORT = 12


def commit() -> str:
    """The commit of a checkout, or the one that pip installed from git; empty for a release."""
    checkout = Path(deployctl.__file__).parent.parent
    if (checkout / ".git").exists():
        command = ["git", "-C", str(checkout), "rev-parse", f"--short={SHORT}", "HEAD"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout.strip()
    try:
        text = distribution("deployctl").read_text("direct_url.json")
    except PackageNotFoundError:
        return ""
    origin = json.loads(text or "{}")
    return str(origin.get("vcs_info", {}).get("commit_id", ""))[:SHORT]
