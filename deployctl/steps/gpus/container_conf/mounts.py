"""Which files a container's configuration brings to its /dev, and from where. Pure.

Sources: lxc.container.conf(5), MOUNT POINTS; LXC's `conf.c` (`mount_file_entries`,
`mount_entry_create_dir_file`); fstab(5); pve-container's autodev hook.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

from deployctl.steps.gpus.container_conf.conf import Conf, Place, Setting

MAY_BRING = (
    "lxc.mount.fstab",
    "lxc.mount",
    "lxc.hook.pre-start",
    "lxc.hook.pre-mount",
    "lxc.hook.mount",
    "lxc.hook.autodev",
    "lxc.hook.start-host",
    "lxc.hook.start",
)
"""Keys by which other programs or files bring devices: what these do is not in the conf."""


@dataclass(frozen=True)
class Mount:
    """One mount entry: `source` of the node appears as `target`, relative to the container's root.
    `fault` says why it brings nothing, whatever the node has."""

    source: str
    target: str
    options: frozenset[str]
    place: Place
    fault: str = ""

    def source_of(self, path: str) -> str | None:
        """What of the node appears as this file of the container; None where it does not lie
        below the target."""
        inside = path.lstrip("/")
        if inside == self.target:
            return self.source
        if inside.startswith(self.target + "/") or not self.target:
            return posixpath.normpath(self.source + "/" + inside[len(self.target) :])
        return None


def entries(conf: Conf) -> tuple[list[Mount], list[Setting]]:
    """The mount entries in order, an empty one clearing those before it; and those that are no
    entries."""
    found: list[Mount] = []
    odd: list[Setting] = []
    for setting in conf.values("lxc.mount.entry"):
        words = [_unescaped(word) for word in setting.value.split()]
        if not words:
            found, odd = [], []
        elif len(words) < 4 or not words[1].strip("/"):
            odd.append(setting)
        else:
            found.append(_mount(conf, words, setting.place, found))
    return found, odd


def _mount(conf: Conf, words: list[str], place: Place, earlier: list[Mount]) -> Mount:
    source, target = posixpath.normpath("/" + words[0].lstrip("/")), words[1]
    options = frozenset(option for option in words[3].split(",") if option)
    fault = ""
    if target.startswith("/"):
        root = _root_prefix(conf, target)
        if root is None:
            fault = (
                f"the target {target} begins with a slash and does not lie below the container's "
                "root: LXC ignores the entry"
            )
        target = target if root is None else target[len(root) :]
    target = posixpath.normpath("/" + target).lstrip("/")
    mount = Mount(source, target, options, place, fault)
    return mount if fault else Mount(source, target, options, place, _fault(conf, mount, earlier))


def _root_prefix(conf: Conf, target: str) -> str | None:
    """The part of an absolute target that LXC takes for the container's root; empty where the
    container has no root of its own."""
    roots = [s.value.split(":", 1)[-1] for s in conf.values("lxc.rootfs.path", "lxc.rootfs")]
    if not roots and not conf.proxmox:
        return ""
    own = re.match(r"/var/lib/lxc/[^/]+/rootfs(?=/)", target)
    if own:
        return own[0]
    return next((root for root in roots if root and target.startswith(root + "/")), None)


def _fault(conf: Conf, mount: Mount, earlier: list[Mount]) -> str:
    if not mount.options & {"bind", "rbind"}:
        return "the entry has no option bind: nothing of the node is mounted"
    if "relative" in mount.options:
        return f"the option relative takes {mount.source} from the container's root, not the node"
    if "nodev" in mount.options:
        return "the option nodev keeps device files below it from being opened"
    exists = any(mount.target.startswith(other.target + "/") for other in earlier)
    made = mount.options & {"create=file", "create=dir"}
    empty_dev = not any(s.value == "0" for s in conf.values("lxc.autodev")[-1:])
    if mount.target.startswith("dev/") and not made and empty_dev and not exists:
        return "the entry has no create=file or create=dir: its target is not there to mount on"
    return ""


def _unescaped(word: str) -> str:
    r"""A field of fstab(5): `\040` is a space."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda found: chr(int(found[1], 8)), word)


def misfit(mount: Mount, is_device: bool, is_folder: bool) -> str:
    """Why an entry cannot be mounted, from what its source is on the node; empty where it can."""
    made = mount.options & {"create=file", "create=dir"}
    if is_device and made == {"create=dir"}:
        return f"create=dir makes a folder, and {mount.source} is a file"
    if is_folder and made == {"create=file"}:
        return f"create=file makes a file, and {mount.source} is a folder"
    return ""


def unmodelled(conf: Conf) -> Iterator[Setting]:
    """Settings by which devices may come that the conf itself does not show."""
    for key in MAY_BRING:
        kept: list[Setting] = []
        for setting in conf.values(key):
            kept = [*kept, setting] if setting.value else []
        yield from kept
    yield from (s for s in conf.values("lxc.autodev")[-1:] if s.value == "0")
    yield from (s for s in conf.missing if not s.value.startswith("/usr/share/lxc/config/"))
