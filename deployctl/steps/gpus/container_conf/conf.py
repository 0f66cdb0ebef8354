"""A container's configuration, as far as it concerns devices: Proxmox's dialect and LXC's. Pure.

Sources: pct.conf(5) and `PVE::LXC::Config`, `PVE::LXC` (`parse_pct_config`, `update_lxc_config`);
lxc.container.conf(5) and LXC's `confile.c`. Proxmox keeps `key: value` lines, sections of the past
(snapshots) and of the next start (`[pve:pending]`), and hands every `lxc.` line on; LXC itself
takes `key = value` and passes over what does not begin with `lxc.`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

MOST_INCLUDES = 40
LONGEST_LINE = 8192
"""Characters; no real configuration has longer lines, and patterns need not be tried on them."""
MOST_DEVICES = 256
"""Proxmox's `dev0` to `dev255`."""
_SECTION = re.compile(r"\[(pve:pending|[a-z][a-z0-9_\-]+)\]\s*", re.IGNORECASE)
_PVE_LXC = re.compile(r"(lxc\.[a-z0-9_\-.]+)(?::|\s*=)\s*(.*?)\s*")
_PVE = re.compile(r"([a-z][a-z_]*[0-9]*):\s*(.+?)\s*")
_LXC = re.compile(r"(lxc\.[^=]*?)\s*=\s*(.*?)\s*")
_DEVICE = re.compile(r"dev([0-9]{1,4})")

Read = Callable[[str], "str | None"]
"""The text of an included file; None where it cannot be had."""


@dataclass(frozen=True)
class Place:
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Setting:
    """One `lxc.` key and its value, with where it stands."""

    key: str
    value: str
    place: Place


@dataclass(frozen=True)
class Passed:
    """A `devN` entry of Proxmox. `error` says what Proxmox refuses about it."""

    number: int
    path: str
    place: Place
    options: dict[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def read_only(self) -> bool:
        """Whether the container may not write to it."""
        return self.options.get("deny-write", "0").lower() in ("1", "on", "yes", "true")


@dataclass(frozen=True)
class Conf:
    """A configuration as its container would next be started with it."""

    file: str
    proxmox: bool
    settings: tuple[Setting, ...]
    passed: dict[int, Passed]
    keys: dict[str, str]
    """Proxmox's own keys, the last of each."""
    last_line: int
    """The last line of what counts now: where a new line would stand."""
    odd: tuple[tuple[Place, str], ...] = ()
    """Lines that the program which reads them does not understand."""
    missing: tuple[Setting, ...] = ()
    """Includes whose text is not known."""
    taken: frozenset[int] = frozenset()
    """The N of `devN` entries, and of those that are to be removed at the next start."""

    def values(self, *keys: str) -> list[Setting]:
        """The settings of these keys, in order."""
        return [setting for setting in self.settings if setting.key in keys]

    @property
    def end(self) -> Place:
        """Where a new line belongs."""
        return Place(self.file, max(self.last_line, 1))

    @property
    def free(self) -> Iterator[int]:
        """Every N for which there is no `devN` yet."""
        return (n for n in range(MOST_DEVICES) if n not in self.taken)

    @property
    def unprivileged(self) -> bool:
        """Whether it runs in a user namespace of its own."""
        flag = self.keys.get("unprivileged", "0").lower()
        return flag in ("1", "on", "yes", "true") or bool(self.values("lxc.idmap", "lxc.id_map"))


def parse(text: str, file: str = "conf", read: Read = lambda path: None) -> Conf:
    """Read a configuration. `file` names it in places, and tells Proxmox's own by its path."""
    lines = [line[:LONGEST_LINE] for line in text.removeprefix("\ufeff").split("\n")]
    lines = [line.removesuffix("\r") for line in lines]
    proxmox = _is_proxmox(file, lines)
    conf = _proxmox(file, lines) if proxmox else _lxc(file, lines)
    return _included(conf, read)


def _is_proxmox(file: str, lines: list[str]) -> bool:
    if "/pve/" in file:
        return True
    forms = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    colons = [line for line in forms if _SECTION.fullmatch(line) or _PVE.fullmatch(line)]
    colons += [line for line in forms if re.match(r"lxc\.[a-z0-9_\-.]+:", line)]
    return len(colons) > sum(_LXC.fullmatch(line.strip()) is not None for line in forms) / 2


def _proxmox(file: str, lines: list[str]) -> Conf:
    settings: list[Setting] = []
    keys: dict[str, dict[str, tuple[str, Place]]] = {"": {}, "pve:pending": {}}
    odd: list[tuple[Place, str]] = []
    section, last = "", 0
    for number, line in enumerate(lines, 1):
        place = Place(file, number)
        header = _SECTION.fullmatch(line)
        if header:
            section = header[1].lower()
        elif section in keys and line.strip() and not line.startswith("#"):
            last = number if section == "" else last
            handed, own = _PVE_LXC.fullmatch(line), _PVE.fullmatch(line)
            if handed:
                settings.append(Setting(handed[1], handed[2], place))
            elif own and (own[1] != "delete" or section):
                keys[section][own[1]] = (own[2], place)
            else:
                odd.append((place, line.strip()))
    merged = {**keys[""], **keys["pve:pending"]}
    deleted = keys["pve:pending"].get("delete", ("", None))[0]
    gone = {key.lstrip("!") for key in re.split(r"[,;\s]+", deleted)} | {"delete"}
    merged = {key: value for key, value in merged.items() if key not in gone}
    passed = {
        int(found[1]): _passed(int(found[1]), *merged[key])
        for key in merged
        if (found := _DEVICE.fullmatch(key)) and int(found[1]) < MOST_DEVICES
    }
    taken = {int(n[1]) for key in gone if (n := _DEVICE.fullmatch(key))} | set(passed)
    own_keys = {key: value for key, (value, _) in merged.items()}
    return Conf(
        file, True, tuple(settings), passed, own_keys, last, tuple(odd), taken=frozenset(taken)
    )


def _passed(number: int, value: str, place: Place) -> Passed:
    """A `devN` entry: a property string whose default key is `path`."""
    options: dict[str, str] = {}
    error = ""
    for part in value.split(","):
        key, equals, given = part.partition("=")
        key, given = (key, given) if equals else ("path", key)
        if not part.strip():
            continue
        if key in options:
            error = f"{key} is given twice"
        elif key not in _OPTIONS:
            error = f"{key!r} is not an option of a device"
        elif not re.fullmatch(_OPTIONS[key], given):
            error = f"{key}={given} is not valid{_HINTS.get(key, '')}"
        options[key] = given
    path = options.pop("path", "")
    if not path:
        error = error or "it names no path"
    return Passed(number, path, place, options, error)


_OPTIONS = {
    "path": r"/dev/(?!\.\.?(/|$))((?!/\.\.?(/|$)).)+",
    "mode": r"0[0-7]{3}",
    "uid": r"[0-9]{1,10}",
    "gid": r"[0-9]{1,10}",
    "deny-write": r"(?i)1|0|on|off|yes|no|true|false",
}
_HINTS = {"path": ", it must lie below /dev", "mode": ", it has four octal digits: 0666"}


def _lxc(file: str, lines: list[str]) -> Conf:
    settings: list[Setting] = []
    odd: list[tuple[Place, str]] = []
    for number, line in enumerate(lines, 1):
        row = line.strip()
        if not row.startswith("lxc."):
            # A comment, or what LXC passes over: a stray devN line of Proxmox's among them.
            if row and not row.startswith("#"):
                odd.append((Place(file, number), row))
            continue
        found = _LXC.fullmatch(row)
        if found is None:
            odd.append((Place(file, number), row))
            continue
        value = found[2]
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        settings.append(Setting(found[1], value, Place(file, number)))
    last = max((n for n, line in enumerate(lines, 1) if line.strip()), default=0)
    return Conf(file, False, tuple(settings), {}, {}, last, tuple(odd))


def _included(conf: Conf, read: Read) -> Conf:
    """The configuration with the settings of included files in their place."""
    settings: list[Setting] = []
    missing: list[Setting] = []
    odd = list(conf.odd)
    waiting = list(reversed(conf.settings))
    left = MOST_INCLUDES
    while waiting:
        setting = waiting.pop()
        if setting.key != "lxc.include" or not setting.value:
            settings.append(setting)
            continue
        text = read(setting.value) if left else None
        left -= 1
        if text is None:
            missing.append(setting)
            # Kept, so that what is known of LXC's own files takes effect here.
            settings.append(setting)
            continue
        inner = _lxc(setting.value, [line[:LONGEST_LINE] for line in text.split("\n")])
        # What LXC passes over in somebody else's file is not for us to show.
        odd += [(place, line) for place, line in inner.odd if line.startswith("lxc.")]
        waiting += reversed(inner.settings)
    return replace(conf, settings=tuple(settings), missing=tuple(missing), odd=tuple(odd))
