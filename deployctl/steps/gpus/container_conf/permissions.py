"""Whether the users of a container may open device files that belong to the node. Pure.

Sources: user_namespaces(7), capabilities(7); lxc.container.conf(5), USER AND GROUP ID MAPPING.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from deployctl.steps.gpus.container_conf.conf import Conf
from deployctl.steps.gpus.finding import Verdict

PROXMOX_MAPS = (("u", 100000, 65536), ("g", 100000, 65536))
"""What Proxmox maps where the conf names no map: kind, first id of the node, how many."""
OTHERS = 0o006


def fault(conf: Conf, device: Mapping[str, Any]) -> tuple[Verdict, str] | None:
    """What keeps root of the container from a mounted device file; None where nothing does.

    Root of a user namespace overrides a mode where owner and group of the file are mapped.
    """
    mode = device["mode"]
    if not conf.unprivileged or mode & OTHERS == OTHERS:
        return None
    ids = (("u", device.get("uid")), ("g", device.get("gid")))
    mapped = [_mapped(conf, kind, number) for kind, number in ids]
    if all(mapped):
        return None
    what = f"the mode of {device['path']} on the node is {mode:04o}"
    if True in mapped or None in mapped:
        return "unknown", f"{what}: whom of the container it lets in is not known, look inside"
    return "failed", f"{what}: it keeps the users of an unprivileged container out"


def _mapped(conf: Conf, kind: str, number: int | None) -> bool | None:
    """Whether an id of the node exists in the container; None where the id is not known."""
    if number is None:
        return None
    return any(k in (kind, "b") and low <= number < low + n for k, low, n in _maps(conf))


def _maps(conf: Conf) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    settings = conf.values("lxc.idmap", "lxc.id_map")
    for setting in settings:
        entry = re.fullmatch(
            r"([ugb])\s+[0-9]{1,10}\s+([0-9]{1,10})\s+([0-9]{1,10})", setting.value
        )
        if entry:
            found.append((entry[1], int(entry[2]), int(entry[3])))
        elif not setting.value:
            found = []
    return found if settings else list(PROXMOX_MAPS)
