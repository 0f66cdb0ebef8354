"""The lines that bring devices into a container: one set, meant to be used together. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployctl.steps.gpus.container_conf.conf import Conf


class Advice:
    """Gives each device its own free entry, in the dialect of the configuration."""

    def __init__(self, conf: Conf, version: int) -> None:
        self._conf = conf
        self._prefix = "lxc.cgroup2" if version == 2 else "lxc.cgroup"
        self._free = conf.free
        self._given: dict[str, tuple[str, ...]] = {}
        self._allowed: set[int] = set()

    def lines(self, device: Mapping[str, Any]) -> tuple[str, ...]:
        """The lines for one device, the same each time."""
        path = device["path"]
        if path not in self._given:
            self._given[path] = self._lines(path, device["major"])
        return self._given[path]

    def _lines(self, path: str, major: int) -> tuple[str, ...]:
        if self._conf.proxmox:
            # Proxmox looks the number up at every start; a line that is there is kept its number.
            own = [p.number for p in self._conf.passed.values() if p.path == path]
            number = own[0] if own else next(self._free, None)
            return () if number is None else (f"dev{number}: {path}",)
        mount = f"lxc.mount.entry = {path} {path.lstrip('/')} none bind,optional,create=file"
        if major in self._allowed:
            return (mount,)
        self._allowed.add(major)
        return (f"{self._prefix}.devices.allow = c {major}:* rwm", mount)
