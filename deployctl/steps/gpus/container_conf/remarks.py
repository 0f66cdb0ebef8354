"""What is remarkable about a container's configuration beside its devices. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from deployctl.steps.gpus.container_conf.conf import Place
from deployctl.steps.gpus.container_conf.findings import Judgement
from deployctl.steps.gpus.finding import Finding, Verdict

MAKE_NODES = ("nvidia-modprobe -c 0 -u",)


def remarks(judged: Judgement) -> Iterator[Finding]:
    """Entries that keep the container from starting, lines that have no effect, lines that are
    not understood."""
    yield from _replaced(judged)
    yield from _passed(judged)
    yield from _odd(judged)
    yield from _without_effect(judged)


def _remark(verdict: Verdict, what: str, place: Place | None, *lines: str) -> Finding:
    return Finding("conf", verdict, None, None, what, str(place or ""), lines)


def _replaced(judged: Judgement) -> Iterator[Finding]:
    lines = sorted({place.line for place in judged.replaced})
    if lines:
        numbers = ", ".join(map(str, lines))
        what = f"the lines to add bring the same files as lines {numbers}: remove these"
        yield _remark("warning", what, judged.replaced[0])


def _passed(judged: Judgement) -> Iterator[Finding]:
    no_start = "Proxmox does not start the container"
    for entry in judged.conf.passed.values():
        if entry.error:
            what = f"dev{entry.number} is not valid, {entry.error}: {no_start}"
            yield _remark("failed", what, entry.place)
        elif entry.path.startswith("/dev/nvidia") and entry.path not in judged.devices:
            what = f"the node has no {entry.path}, which dev{entry.number} names: {no_start}"
            yield _remark("failed", what, entry.place, *MAKE_NODES)
        for mount in judged.mounts:
            if "/" + mount.target == entry.path and not judged.mount_fault(mount):
                what = f"dev{entry.number} brings {entry.path} as well: keep one of the two"
                yield _remark("warning", what, mount.place)


def _odd(judged: Judgement) -> Iterator[Finding]:
    for setting in next(iter(judged.programs.values())).odd:
        what = f"LXC does not understand the rule {setting.value[:200]!r}"
        yield _remark("unknown", what, setting.place)
    for setting in judged.odd_mounts:
        what = f"no mount entry (source, target, type, options): {setting.value[:200]!r}"
        yield _remark("unknown", what, setting.place)
    if judged.conf.odd:
        place, text = judged.conf.odd[0]
        reader = "Proxmox" if judged.conf.proxmox else "LXC"
        others = len(judged.conf.odd) - 1
        more = f" (and {others} more)" if others else ""
        what = f"{reader} does not understand this line{more}: {text[:200]!r}"
        yield _remark("unknown", what, place)


def _without_effect(judged: Judgement) -> Iterator[Finding]:
    if judged.version is None:
        return
    for setting in judged.programs[judged.version].ignored:
        if setting.place.file != judged.conf.file:
            continue  # LXC's own files name both versions
        good = setting.key.replace("cgroup2" if judged.version == 1 else "cgroup", "cgroup")
        good = good if judged.version == 1 else good.replace("lxc.cgroup.", "lxc.cgroup2.")
        what = f"{setting.key} has no effect under cgroup v{judged.version}, use {good}"
        yield _remark("warning", what, setting.place)
    if judged.conf.proxmox and judged.conf.unprivileged:
        for rule in judged.stale:
            what = (
                f"no device of this node has major {rule.major}; Proxmox lets an unprivileged "
                "container use every device, so the rule changes nothing"
            )
            yield _remark("warning", what, rule.place)
