"""Runs on a Proxmox node: what its cluster has. The standard library alone."""

import json
import socket
import subprocess

LIMIT = 60.0


def resources() -> "dict[str, object]":
    """``{"hostname", "rows", "error"}``: this node's name in the cluster, every guest of it, and
    why that is unknown, where it is."""
    answer: dict[str, object] = {
        "hostname": socket.gethostname().partition(".")[0],
        "rows": [],
        "error": None,
    }
    argv = ["pvesh", "get", "/cluster/resources", "--type", "vm", "--output-format", "json"]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return dict(answer, error=str(error))
    if done.returncode != 0:
        words = done.stderr.strip()[-800:]
        return dict(answer, error=f"pvesh ended with {done.returncode}: {words}")
    try:
        rows = json.loads(done.stdout)
    except ValueError as error:
        return dict(answer, error=f"pvesh printed no JSON: {error}")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return dict(answer, error="pvesh printed no list of guests")
    return dict(answer, rows=rows)
