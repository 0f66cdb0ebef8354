"""Which devices a container's control group lets it use, as its configuration's rules say. Pure.

Sources: lxc.container.conf(5), CONTROL GROUPS; LXC's `cgfsng.c` (`device_cgroup_rule_parse`) and
`cgroup2_devices.c`; the configurations that LXC and pve-container ship (common.conf, userns.conf,
01-pve.conf).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from deployctl.steps.gpus.container_conf.conf import Conf, Passed, Place, Setting

Version = int | None
"""Of the node's control groups: 1, 2, or None where it is not known."""

_RULE = re.compile(r"([abc])\s([0-9]{1,9}|\*):([0-9]{1,9}|\*)\s(?:([rwm]{3}).*|([rwm]{1,2}))")
"""LXC reads three letters of access and no further, so a comment may follow them."""
_BY_PATH = re.compile(r"(/\S+) +([rwm]{1,3})(\s.*)?")
SHIPPED = "/usr/share/lxc/config/"
DYNAMIC_MAJORS = (range(234, 255), range(384, 512))
"""What the kernel gives out to drivers without a number of their own, such as nvidia-uvm."""


@dataclass(frozen=True)
class Rule:
    """One rule; None is any number. `whole` is LXC's `a` alone, which begins the list again."""

    allow: bool
    kind: str
    major: int | None
    minor: int | None
    access: str
    place: Place | None = None
    whole: bool = False
    path: str = ""
    """Of a rule that names a file: LXC takes its number at the start."""

    def covers(self, major: int, minor: int, path: str) -> bool:
        """Whether it speaks of a character device."""
        if self.path:
            return self.path == path
        return self.kind in "ac" and self.major in (None, major) and self.minor in (None, minor)


@dataclass(frozen=True)
class Answer:
    """Whether a device may be used for reading and writing; the rule that says so, where one
    does; what the rule allows of it."""

    allowed: bool
    rule: Rule | None
    access: str = ""


@dataclass(frozen=True)
class Program:
    """The rules that hold in the end, the latest first; `default` is for what none is about."""

    prefix: str
    rules: tuple[Rule, ...]
    default: bool
    odd: tuple[Setting, ...] = ()
    """Rules that LXC's parser refuses: the container does not start with them."""
    ignored: tuple[Setting, ...] = ()
    """Rules for the other version of control groups."""

    def judge(self, major: int, minor: int, path: str, access: str = "rw") -> Answer:
        """Whether a device may be opened with all of `access` at once."""
        partly: Answer | None = None
        for rule in self.rules:
            if not rule.covers(major, minor, path):
                continue
            if not rule.allow and set(access) & set(rule.access):
                return Answer(False, rule)
            if rule.allow and set(access) <= set(rule.access):
                return Answer(True, rule, rule.access)
            if rule.allow and set(rule.access) & set(access):
                partly = partly or Answer(False, rule, rule.access)
        return partly or Answer(self.default, None)

    def stale(self, majors: Iterable[int]) -> list[Rule]:
        """Rules that allow a dynamic major which is not in `majors`: perhaps of another boot."""
        known = set(majors)
        return [
            rule
            for rule in self.rules
            if rule.allow
            and rule.kind == "c"
            and rule.major is not None
            and rule.major not in known
            and any(rule.major in span for span in DYNAMIC_MAJORS)
        ]


def program(conf: Conf, numbers: Mapping[str, tuple[int, int]], version: int) -> Program:
    """The rules of a configuration. `numbers` are the devices of the node by path: Proxmox writes
    a rule for each `devN` with the number that its device has at the start."""
    prefix = "lxc.cgroup2" if version == 2 else "lxc.cgroup"
    kept: list[Rule] = []
    odd: list[Setting] = []
    ignored: list[Setting] = []
    for setting in _settings(conf, numbers, version):
        head, _, controller = setting.key.partition(".devices.")
        if setting.key == prefix and not setting.value:
            kept = []
        elif controller not in ("allow", "deny") or not head.startswith("lxc.cgroup"):
            continue
        elif head != prefix:
            ignored.append(setting)
        elif not setting.value:
            kept = [rule for rule in kept if rule.allow != (controller == "allow")]
        elif (rule := _rule(setting, controller == "allow")) is None:
            odd.append(setting)
        else:
            kept.append(rule)
    begin = max((i for i, rule in enumerate(kept) if rule.whole), default=-1)
    default = kept[begin].allow if begin >= 0 else version == 1 or not kept
    rules = _flipped(kept[begin + 1 :])
    return Program(prefix, tuple(reversed(rules)), default, tuple(odd), tuple(ignored))


def _flipped(rules: list[Rule]) -> list[Rule]:
    """The rules, of several about exactly the same the last one alone."""
    last = {(r.kind, r.major, r.minor, r.access, r.path): r for r in rules}
    return [rule for rule in rules if rule in last.values()]


def _rule(setting: Setting, allow: bool) -> Rule | None:
    value = setting.value
    if value == "a":
        return Rule(allow, "a", None, None, "rwm", setting.place, whole=True)
    by_path = _BY_PATH.fullmatch(value)
    if by_path and allow:
        return Rule(True, "c", None, None, by_path[2], setting.place, path=by_path[1])
    found = _RULE.fullmatch(value)
    if found is None:
        return None
    major, minor = (None if n == "*" else int(n) for n in found.group(2, 3))
    return Rule(allow, found[1], major, minor, found[4] or found[5], setting.place)


def _settings(
    conf: Conf, numbers: Mapping[str, tuple[int, int]], version: int
) -> Iterator[Setting]:
    """A configuration's settings in the order in which LXC meets them."""
    if conf.proxmox:
        yield from _of_shipped("userns.conf" if conf.unprivileged else "common.conf", True)
        for passed in conf.passed.values():
            if passed.path in numbers:
                prefix = "lxc.cgroup2" if version == 2 else "lxc.cgroup"
                yield from _of_passed(passed, numbers[passed.path], f"{prefix}.devices")
    for setting in conf.settings:
        if setting.key == "lxc.include" and setting.value.startswith(SHIPPED):
            yield from _of_shipped(setting.value.rpartition("/")[2], conf.proxmox)
        else:
            yield setting


def _of_passed(passed: Passed, device: tuple[int, int], key: str) -> Iterator[Setting]:
    access = "r" if passed.read_only else "rw"
    rule = f"c {device[0]}:{device[1]}"
    yield Setting(f"{key}.allow", f"{rule} {access}", passed.place)
    if passed.read_only:
        yield Setting(f"{key}.deny", f"{rule} w", passed.place)


def _of_shipped(name: str, proxmox: bool) -> Iterator[Setting]:
    """What LXC's own configurations say of devices. An unprivileged container of Proxmox may use
    all devices since pve-container 4.0: its list begins with `allow = a`."""
    place = Place(SHIPPED + name, 1)
    prefixes = ("lxc.cgroup", "lxc.cgroup2")
    if name.endswith("common.conf"):
        for prefix in prefixes:
            yield Setting(f"{prefix}.devices.deny", "a", place)
            yield Setting(f"{prefix}.devices.allow", "c *:* m", place)
            yield Setting(f"{prefix}.devices.allow", "b *:* m", place)
    elif name.endswith("userns.conf"):
        for prefix in prefixes:
            yield Setting(f"{prefix}.devices.deny", "", place)
            yield Setting(f"{prefix}.devices.allow", "", place)
        if proxmox:
            yield Setting("lxc.cgroup2.devices.allow", "a", place)
