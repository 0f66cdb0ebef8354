"""Whether a GPU reaches the host whole: node, container, driver, libraries, CUDA. Pure.

Each finding says what to change and where, as the lines to put there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from deployctl.agent.wire.gpus import Cuda, DeviceFile, GpuState, Passthrough
from deployctl.steps.gpus.container_conf.conf import parse
from deployctl.steps.gpus.container_conf.findings import Judgement
from deployctl.steps.gpus.container_conf.remarks import MAKE_NODES, remarks
from deployctl.steps.gpus.finding import Finding

NEEDED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
"""Control files that CUDA opens beside those of the GPUs."""
OPTIONAL = ("nvidia-uvm-tools",)
MACHINE = "the machine with the GPU"
OUT_OF_MEMORY = 2
"""CUDA_ERROR_OUT_OF_MEMORY"""


def has_driver(machine: Passthrough) -> bool:
    """Whether an NVIDIA driver is loaded at all: without one, nothing else is worth telling."""
    return machine["module"] is not None or bool(machine["majors"])


def driver(node: Passthrough) -> Iterator[Finding]:
    """The kernel's driver on the machine that has the GPU."""
    if not has_driver(node):
        say = f"no NVIDIA driver is loaded on {MACHINE}"
        lines = ("modprobe nvidia", "modprobe nvidia-uvm")
        yield Finding("driver", "failed", None, "loaded", say, MACHINE, lines)
    elif "nvidia-uvm" not in node["majors"]:
        say = "nvidia-uvm is not loaded: nvidia-smi works, CUDA does not"
        yield Finding("driver", "failed", node["module"], "nvidia-uvm", say, MACHINE, MAKE_NODES)
    else:
        yield Finding("driver", "ok", node["module"], "loaded")


def nodes(machine: Passthrough, where: str) -> Iterator[Finding]:
    """Device files against the numbers that the kernel has given to the driver."""
    files = {device["path"]: device for device in machine["devices"]}
    gpus = [path for path in files if path[len("/dev/nvidia") :].isdigit()]
    missing = [f"/dev/{name}" for name in NEEDED if f"/dev/{name}" not in files]
    if not gpus:
        missing.insert(0, "/dev/nvidia0")
    for path in missing:
        verdict: Any = "warning" if path.rpartition("/")[2] in OPTIONAL else "failed"
        say = f"{path} is missing in the {where}"
        yield Finding("device", verdict, None, path, say, MACHINE, MAKE_NODES)
    for path, device in files.items():
        yield from _number(path, device, machine["majors"], where)


def _number(
    path: str, device: DeviceFile, majors: Mapping[str, int], where: str
) -> Iterator[Finding]:
    if device["kind"] != "device":
        say = (
            f"{path} in the {where} is an empty file: the node had no such device when the "
            "container started; make it on the node, then restart the container"
        )
        yield Finding("device", "failed", "a file", "a device", say, MACHINE, MAKE_NODES)
        return
    major = _major(path, majors)
    number = f"{device['major']}:{device['minor']}"
    if major is None or major == device["major"]:
        yield Finding("device", "ok", f"{path} {number}", major)
        return
    say = f"{path} in the {where} is {number}, the driver's major is {major}: it is of another boot"
    lines = (f"rm {path}", *MAKE_NODES) if where == "node" else ()
    cure = "" if where == "node" else "; restart the container"
    yield Finding("device", "failed", number, major, say + cure, where, lines)


def _major(path: str, majors: Mapping[str, int]) -> int | None:
    name = path[len("/dev/") :]
    if name.startswith("nvidia-uvm"):
        return majors.get("nvidia-uvm")
    if name.startswith("nvidia-caps/"):
        return majors.get("nvidia-caps")
    return majors.get("nvidia", majors.get("nvidia-frontend"))


def conf(
    node: Passthrough, wanted: frozenset[int] | None = None, inside: Passthrough | None = None
) -> Iterator[Finding]:
    """The container's configuration against the device files of its node.

    `wanted` are the minors of the profile's GPUs; where they are not known, one GPU that the
    configuration passes is enough. What `inside`, the container, has already decides: there the
    configuration can only explain, or say what the next start would change.
    """
    told = node["conf"]
    if told is None:
        say = "the node has no configuration of the container"
        yield Finding("conf", "unknown", None, "readable", say, MACHINE)
        return
    read = parse(told["text"], told["path"], told["includes"].get)
    judged = Judgement(read, node["devices"], node["cgroup"])
    for finding in (*judged.findings(wanted), *remarks(judged)):
        if finding.verdict == "failed" and inside is not None and _has(inside, node, finding):
            say = f"it is there now; after the next start: {finding.say}"
            yield replace(finding, verdict="warning", say=say)
        else:
            yield finding


def _has(inside: Passthrough, node: Passthrough, finding: Finding) -> bool:
    """Whether the running container has the device that a finding is about."""
    there = {f"{d['major']}:{d['minor']}" for d in inside["devices"] if d["kind"] == "device"}
    return finding.needed in there & {f"{d['major']}:{d['minor']}" for d in node["devices"]}


def versions(node: Passthrough, host: Passthrough) -> Iterator[Finding]:
    """The driver's libraries on the host against the kernel's module, in all parts."""
    module = host["module"] or node["module"]
    for name, version in host["libraries"].items():
        check = f"library {name}"
        if version is None:
            say = f"{name} is not there: install the driver's libraries, version {module}"
            yield Finding(check, "failed", None, module, say, "host", _install(module))
        elif module is None:
            say = f"{name} is {version}, the kernel module's version is not reported"
            yield Finding(check, "unknown", version, None, say)
        elif version != module:
            say = f"{name} is {version}, the kernel module is {module}: they must be the same"
            yield Finding(check, "failed", version, module, say, "host", _install(module))
        else:
            yield Finding(check, "ok", version, module)


def _install(module: str | None) -> tuple[str, ...]:
    return (f"sh NVIDIA-Linux-x86_64-{module}.run --no-kernel-modules",) if module else ()


def persistence(gpus: GpuState) -> Iterator[Finding]:
    """Without persistence mode each first use loads the driver again, for seconds."""
    for gpu in gpus["gpus"]:
        if gpu["persistence"] is False:
            say = f"GPU {gpu['index']} is not in persistence mode: every start loads the driver"
            lines = ("nvidia-smi -pm 1", "systemctl enable --now nvidia-persistenced")
            yield Finding("persistence", "warning", False, True, say, MACHINE, lines)


def shm(host: Passthrough, parallel: int, in_container: bool) -> Iterator[Finding]:
    """Shared memory for NCCL and for vLLM's own messages between processes."""
    needed = (1 << 30) if parallel > 1 else (64 << 20)
    size = host["shm"]
    if size is None or size < needed:
        shown = "missing" if size is None else f"{size >> 20} MiB"
        say = f"/dev/shm is {shown}, {needed >> 20} MiB are needed"
        entry = "lxc.mount.entry: tmpfs dev/shm tmpfs rw,nosuid,nodev,size=8g,create=dir 0 0"
        lines = (entry,) if in_container else ("mount -o remount,size=8g /dev/shm",)
        where = "the container's conf" if in_container else "host"
        yield Finding("shm", "failed", size, needed, say, where, lines)
    else:
        yield Finding("shm", "ok", size, needed)


def cuda(probe: Cuda, conf_path: str) -> Iterator[Finding]:
    """CUDA itself: device files opened, driver initialised, a context on every GPU."""
    if probe["unknown"]:
        yield Finding("cuda", "unknown", None, "a context on every GPU", probe["unknown"])
        return
    for path, refused in probe["opened"].items():
        if refused is not None:
            yield _refused(path, refused, conf_path)
    error = probe["error"]
    if error is None and not probe["count"]:
        yield Finding("cuda", "failed", 0, "a GPU", "CUDA sees no GPU")
    elif error is None:
        yield Finding(
            "cuda",
            "ok",
            f"{probe['count']} GPUs, CUDA {cuda_version(probe['version'])}",
            "a context",
        )
    elif error["code"] == OUT_OF_MEMORY:
        say = "CUDA works, but a GPU has no memory left for a context: see deployctl clean --plan"
        yield Finding("cuda", "warning", error, "a context on every GPU", say)
    else:
        code = "" if error["code"] is None else f" ({error['code']})"
        say = f"{error['call']}: {error['name']}{code}"
        if error["code"] == 999:
            say += ": nvidia-smi may pass all the same; see nvidia-uvm and the devices above"
        yield Finding("cuda", "failed", error, "a context on every GPU", say)


def _refused(path: str, error: str, conf_path: str) -> Finding:
    reasons = {
        "EPERM": ("the container may not use it", (f"devN: {path}",)),
        "EACCES": ("its mode keeps this user out", (f"devN: {path},mode=0666",)),
        "ENXIO": ("no driver answers behind it", MAKE_NODES),
        "ENODEV": ("no driver answers behind it", MAKE_NODES),
        "EIO": ("the driver cannot reach the GPU: look at dmesg on the node", ()),
    }
    why, lines = reasons.get(error, ("", ()))
    where = MACHINE if error in ("ENXIO", "ENODEV", "EIO") else conf_path
    say = f"{path} cannot be opened: {error}{', ' + why if why else ''}"
    return Finding("permission", "failed", error, "readable and writable", say, where, lines)


def cuda_version(number: int | None) -> str:
    """CUDA's version as people write it, from cuDriverGetVersion: 13000 is 13.0, 12080 is 12.8."""
    return "unknown" if number is None else f"{number // 1000}.{number % 1000 // 10}"
