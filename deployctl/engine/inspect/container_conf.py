"""A container's configuration in a file, against the devices of this machine or of a listing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from deployctl.engine.inspect.given_file import text_of
from deployctl.errors import UsageError
from deployctl.steps.gpus.container_conf import listing
from deployctl.steps.gpus.container_conf.conf import parse
from deployctl.steps.gpus.container_conf.findings import NEEDED, OPTIONAL, Judgement, is_gpu
from deployctl.steps.gpus.container_conf.remarks import MAKE_NODES, remarks
from deployctl.steps.gpus.finding import Finding

SCHEMA = "deployctl.container-conf/1"
HERE = Path("/dev")
CGROUP = Path("/sys/fs/cgroup/cgroup.controllers")


def examine(file: str, devices: str | None, cgroup: int | None) -> dict[str, Any]:
    """Every finding about a conf. `devices` is a file with the output of `ls -l /dev/nvidia*`;
    without one it is judged by this machine's. Where that has NVIDIA devices, its control groups
    count as well; elsewhere their version is unknown, unless it is given."""
    if devices is None:
        found, odd, where = _devices_here(), [], "this machine"
        here = 2 if CGROUP.exists() else 1
        cgroup = cgroup or (here if found else None)
    else:
        listed = listing.parse(text_of(devices))
        found, where = list(listed.devices), devices
        odd = [
            _plain(
                "unknown", f"not a line of a device listing: {text[:200]!r}", f"{devices}:{line}"
            )
            for line, text in listed.odd[:1]
        ]
    folder = Path(file).parent
    conf = parse(text_of(file), file, lambda path: _included(folder / path))
    judged = Judgement(conf, found, cgroup)
    findings = [*_nodes(found, where), *judged.findings(), *remarks(judged), *odd]
    return {
        "schema": SCHEMA,
        "conf": file,
        "dialect": "proxmox" if conf.proxmox else "lxc",
        "devices": devices,
        "cgroup": cgroup,
        "findings": [tell(finding) for finding in findings],
    }


def tell(finding: Finding) -> dict[str, Any]:
    """A finding as the document has it."""
    what = finding.say or str(finding.measured)
    return {
        "verdict": finding.verdict,
        "what": what,
        "where": finding.where,
        "lines": list(finding.lines),
    }


def _plain(verdict: Any, what: str, where: str, *lines: str) -> Finding:
    return Finding("device", verdict, None, None, what, where, lines)


def _nodes(devices: Sequence[dict[str, Any]], where: str) -> Iterator[Finding]:
    """What the node itself lacks: nothing can bring that into a container."""
    paths = {device["path"] for device in devices if device["kind"] == "device"}
    if not any(path.startswith("/dev/nvidia") for path in paths):
        what = "no NVIDIA device is listed: what the conf brings cannot be judged"
        yield _plain("unknown", what, where, *MAKE_NODES)
        return
    missing = [path for path in NEEDED if path not in paths]
    if not any(is_gpu(path) for path in paths):
        missing.insert(0, "/dev/nvidia0")
    for path in missing:
        verdict = "warning" if path in OPTIONAL else "failed"
        yield _plain(verdict, f"the node has no {path}", where, *MAKE_NODES)
    for device in devices:
        if device["kind"] != "device" and device["path"].startswith("/dev/nvidia"):
            what = f"{device['path']} is a regular file on the node, not a device"
            yield _plain("failed", what, where, f"rm {device['path']}", *MAKE_NODES)


def _devices_here() -> list[dict[str, Any]]:
    found = []
    for path in sorted((*HERE.glob("nvidia*"), *HERE.glob("nvidia-caps/*"))):
        try:
            status = path.stat()
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode):
            continue
        device = stat.S_ISCHR(status.st_mode)
        found.append(
            {
                "path": str(path),
                "kind": "device" if device else "file",
                "major": os.major(status.st_rdev) if device else None,
                "minor": os.minor(status.st_rdev) if device else None,
                "mode": stat.S_IMODE(status.st_mode),
                "uid": status.st_uid,
                "gid": status.st_gid,
            }
        )
    return found


def _included(place: Path) -> str | None:
    """An included file of this machine; a folder's *.conf, as LXC takes them."""
    try:
        if place.is_dir():
            return "\n".join(text_of(str(one)) for one in sorted(place.glob("*.conf")))
        return text_of(str(place))
    except (UsageError, OSError, ValueError):
        return None
