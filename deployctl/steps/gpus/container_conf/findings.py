"""What a container's configuration lacks of the GPUs of its node, and the lines that bring it.
Pure.

The configuration only explains: what a running container has is judged inside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployctl.steps.gpus.container_conf import mounts, permissions, rules
from deployctl.steps.gpus.container_conf.advice import Advice
from deployctl.steps.gpus.container_conf.conf import Conf, Passed, Place
from deployctl.steps.gpus.container_conf.mounts import Mount
from deployctl.steps.gpus.container_conf.rules import Answer, Program
from deployctl.steps.gpus.finding import Finding, Verdict

NEEDED = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
"""Control files that CUDA opens beside those of the GPUs."""
OPTIONAL = ("/dev/nvidia-uvm-tools",)
END = "nvidia-smi may pass, CUDA will not"

Device = Mapping[str, Any]
"""A device file as the agent's `passthrough.look` describes it."""


def is_gpu(path: str) -> bool:
    """Whether this is the file of a GPU and not of the driver's control."""
    number = path.removeprefix("/dev/nvidia")
    return path != number and number.isascii() and number.isdigit()


@dataclass(frozen=True)
class Bringing:
    """How a device file comes into the container: an entry, and what of the node it brings."""

    by: Passed | Mount
    source: str

    @property
    def place(self) -> Place:
        """The entry's line."""
        return self.by.place


class Judgement:
    """One configuration against the devices of its node, under control groups of `version`."""

    def __init__(self, conf: Conf, devices: Sequence[Device], version: rules.Version) -> None:
        self.conf = conf
        self.version = version
        self.devices = {d["path"]: d for d in devices if d["kind"] == "device"}
        self.mounts, self.odd_mounts = mounts.entries(conf)
        numbers = {path: (d["major"], d["minor"]) for path, d in self.devices.items()}
        versions = (version,) if version else (2, 1)
        self.programs: dict[int, Program] = {
            number: rules.program(conf, numbers, number) for number in versions
        }
        majors = {d["major"] for d in self.devices.values()}
        self.stale = [rule for p in self.programs.values() for rule in p.stale(majors)]
        self.replaced: list[Place] = []
        """Lines that the advice of `findings` takes the place of."""
        self._folders = {path.rpartition("/")[0] for path in self.devices} - {"/dev"}
        self._advice = Advice(conf, version or 2)

    def findings(self, wanted: frozenset[int] | None = None) -> Iterator[Finding]:
        """One for each device that matters. `wanted` are the minors of the GPUs in question; where
        they are not known, those that the configuration brings, or all where it brings none."""
        known = [self.devices[path] for path in sorted(self.devices)]
        gpus = [d for d in known if is_gpu(d["path"])]
        if wanted is None:
            chosen = [d for d in gpus if self.bringing(d["path"])] or gpus
        else:
            chosen = [d for d in gpus if d["minor"] in wanted]
        chosen += [self.devices[path] for path in NEEDED if path in self.devices]
        yield from (self.device(device) for device in chosen)
        for device in known:
            # Such as nvidia-caps: CUDA does without, unless somebody wants them there.
            if device not in chosen and device not in gpus and self.bringing(device["path"]):
                found = self.device(device)
                failed = found.verdict == "failed"
                yield replace(found, verdict="warning", lines=()) if failed else found

    def device(self, device: Device) -> Finding:
        """Whether one device of the node reaches the container, for reading and writing."""
        path, number = device["path"], f"{device['major']}:{device['minor']}"
        bringing = self.bringing(path)
        answers = {v: self._answer(v, device, bringing) for v in self.programs}
        allowed = [v for v, answer in answers.items() if answer.allowed]
        if not allowed:
            answer = next(iter(answers.values()))
            at = answer.rule.place if answer.rule else self._stale_place()
            return self._finding("failed", device, self._refusal(device, answer), at)
        if bringing is None:
            return self._not_brought(device)
        fault = self._fault(device, bringing)
        if fault is not None:
            return self._finding(fault[0], device, fault[1], bringing.place)
        if allowed[0] != next(iter(answers)):
            what = (
                f"the conf allows {path} ({number}) by keys that count under cgroup v1 alone; "
                "which the node has is not known"
            )
            return self._finding("unknown", device, what, bringing.place)
        return Finding("conf", "ok", f"{path} {number}", number, "", str(bringing.place))

    def bringing(self, path: str) -> Bringing | None:
        """How a file comes to be in the container; the last way where there are several."""
        for passed in self.conf.passed.values():
            if passed.path == path:
                return Bringing(passed, path)
        for mount in reversed(self.mounts):
            source = mount.source_of(path)
            if source is not None and not self.mount_fault(mount):
                return Bringing(mount, source)
        return None

    def mount_fault(self, mount: Mount) -> str:
        """Why an entry brings nothing; empty where it does."""
        is_device, is_folder = mount.source in self.devices, mount.source in self._folders
        return mount.fault or mounts.misfit(mount, is_device, is_folder)

    # -- inside ------------------------------------------------------------------------------

    def _answer(self, version: int, device: Device, bringing: Bringing | None) -> Answer:
        """By the number that the device file inside has, as far as it is known."""
        source = self.devices.get(bringing.source, device) if bringing else device
        return self.programs[version].judge(source["major"], source["minor"], source["path"])

    def _refusal(self, device: Device, answer: Answer) -> str:
        path, major, rule = device["path"], device["major"], answer.rule
        if rule is not None and rule.place is not None:
            passed = [p for p in self.conf.passed.values() if p.place == rule.place]
            if passed:
                return f"dev{passed[0].number} keeps {path} from being written to; {END}"
            if not rule.allow:
                what = f"the conf denies {path} ({major}:{device['minor']})"
                return f"{what}: remove line {rule.place.line}; {END}"
            return (
                f"the conf allows {path} ({major}) for {answer.access!r} alone, and CUDA opens it "
                "for reading and writing"
            )
        stale = sorted({r.major for r in self.stale if r.major is not None})
        if stale:
            return f"the conf allows {', '.join(map(str, stale))}, {path} is {major}; {END}"
        clears = self._clearing()
        if clears is not None:
            return f"the conf allows {path} ({major}) no more: remove line {clears.line}; {END}"
        return f"the conf allows no {path} ({major}); {END}"

    def _stale_place(self) -> Place | None:
        return self.stale[0].place if self.stale else self._clearing()

    def _clearing(self) -> Place | None:
        """The last line that takes back the rules before it. Proxmox's for `devN` entries are
        before any line of the conf, so advice alone would not help there."""
        key = next(iter(self.programs.values())).prefix
        found = [
            setting.place
            for setting in self.conf.values(key, f"{key}.devices.allow", f"{key}.devices.deny")
            if setting.value == ("a" if setting.key.endswith(".deny") else "")
        ]
        return found[-1] if found and self.conf.proxmox else None

    def _not_brought(self, device: Device) -> Finding:
        path = device["path"]
        for mount in reversed(self.mounts):
            fault = self.mount_fault(mount)
            if fault and mount.source_of(path) is not None:
                return self._finding("failed", device, f"{path}: {fault}", mount.place)
        unknown = next(mounts.unmodelled(self.conf), None)
        if unknown is not None:
            what = (
                f"the conf itself does not bring {path} into the container; whether "
                f"{unknown.key} = {unknown.value[:200]} does is not known: look inside"
            )
            return self._finding("unknown", device, what, unknown.place)
        verdict: Verdict = "warning" if path in OPTIONAL else "failed"
        what = f"the conf allows {path} and does not bring it into the container"
        return self._finding(verdict, device, what)

    def _fault(self, device: Device, bringing: Bringing) -> tuple[Verdict, str] | None:
        """What is wrong with a device that is allowed and brought."""
        if isinstance(bringing.by, Passed):
            return None
        path, source = device["path"], self.devices.get(bringing.source)
        if source is None:
            what = f"{path} is the node's {bringing.source}, whose number is not known: look inside"
            return "unknown", what
        if source["path"] != path:
            number = f"{source['major']}:{source['minor']}"
            return "unknown", f"{path} is the node's {source['path']} ({number}): look inside"
        return permissions.fault(self.conf, source)

    def _finding(
        self, verdict: Verdict, device: Device, what: str, place: Place | None = None
    ) -> Finding:
        needed = f"{device['major']}:{device['minor']}"
        lines: tuple[str, ...] = ()
        if verdict in ("failed", "warning"):
            lines = self._advice.lines(device)
            self.replaced += self._standing(device["path"])
        if place is None or place.file != self.conf.file:
            place = self.conf.end
        return Finding("conf", verdict, None, needed, what, str(place), lines)

    def _standing(self, path: str) -> list[Place]:
        """Mount entries for just this file: a second one must not stand beside them."""
        target = path.lstrip("/")
        return [
            m.place for m in self.mounts if m.target == target and m.place.file == self.conf.file
        ]
