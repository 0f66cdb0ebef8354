"""A container's configuration, as far as it concerns devices: Proxmox's syntax and LXC's. Pure.

Sources: pct.conf(5), lxc.container.conf(5), the kernel's cgroup documentation (devices).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE = re.compile(r"\s*([\w.\[\]]+)\s*[:=]\s*(.*?)\s*$")
_RULE = re.compile(r"([abc])\s+(\d+|\*):(\d+|\*)\s+([rwm]+)")
_PASSED = re.compile(r"dev(\d+)$")


@dataclass(frozen=True)
class ContainerConf:
    """`allowed` are (major, minor) of character devices, None for any; `passed` the paths of
    `devN:` entries by N; `mounted` the sources of mount entries."""

    allowed: tuple[tuple[int | None, int | None], ...]
    passed: dict[int, str]
    mounted: frozenset[str]
    denies: bool

    def allows(self, path: str, major: int, minor: int) -> bool:
        """Whether the device may be opened inside. A `devN:` entry allows its device by itself,
        with the number that it has when the container starts."""
        if path in self.passed.values():
            return True
        return any(a in (None, major) and b in (None, minor) for a, b in self.allowed)

    def provides(self, path: str) -> bool:
        """Whether the device's file appears inside."""
        return path in self.passed.values() or any(
            path == source or path.startswith(source.rstrip("/") + "/") for source in self.mounted
        )

    @property
    def next_entry(self) -> int:
        """The first N for which there is no `devN:` yet."""
        return next(n for n in range(len(self.passed) + 1) if n not in self.passed)


def parse(text: str) -> ContainerConf:
    """Read a conf; sections below a `[snapshot]` line are of the past and left out."""
    allowed: list[tuple[int | None, int | None]] = []
    passed: dict[int, str] = {}
    mounted: set[str] = set()
    denies = False
    for key, value in _pairs(text):
        entry = _PASSED.match(key)
        if entry and value.startswith("/"):
            passed[int(entry.group(1))] = value.split(",")[0]
        elif re.fullmatch(r"lxc\.cgroup2?\.devices\.allow", key):
            allowed += _rule(value)
        elif re.fullmatch(r"lxc\.cgroup2?\.devices\.deny", key):
            denies = True
        elif key == "lxc.mount.entry":
            mounted.add(value.split()[0])
    return ContainerConf(tuple(allowed), passed, frozenset(mounted), denies)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if line.startswith("["):
            return
        found = _LINE.match(line)
        if found and not line.lstrip().startswith("#"):
            yield found.group(1), found.group(2)


def _rule(value: str) -> list[tuple[int | None, int | None]]:
    if value.strip() == "a":
        return [(None, None)]
    found = _RULE.match(value)
    if found is None or found.group(1) == "b":
        return []
    major, minor = (None if n == "*" else int(n) for n in found.group(2, 3))
    return [(major, minor)]
