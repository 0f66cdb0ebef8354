"""What a machine or container has of a GPU: device files, driver, libraries, CUDA itself."""

from __future__ import annotations

import glob
import json
import os
import re
import stat
import sys
from typing import List, Optional

from ..core import programs
from ..core.archive import import_root
from ..core.interface import Call
from ..processes import namespaces
from ..wire.gpus import Cuda, DeviceFile, Passthrough
from . import container_files
from .devices import read_devices

MODULE_VERSIONS = ("/sys/module/nvidia/version", "/proc/driver/nvidia/version")
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
PLACES = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
)


def look(
    call: Call, container: Optional[str] = None, lxc_path: str = "/var/lib/lxc"
) -> Passthrough:
    """Facts about GPUs on this machine; with `container`, also that container's configuration.

    `devices` are the files /dev/nvidia*, with `kind` device or file (a bind mount of a device
    that was not there leaves an empty file); `module` and `libraries` are full versions; `shm`
    in bytes.
    """
    shm = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None
    return {
        "majors": read_devices().majors,
        "devices": _device_files(),
        "module": _module_version(),
        "libraries": {name: _library_version(call, name) for name in LIBRARIES},
        "shm": None if shm is None else shm.f_blocks * shm.f_frsize,
        "uid": os.geteuid(),
        "contained": namespaces.contained(),
        "cgroup": container_files.cgroup_version(),
        "conf": None if container is None else container_files.read(container, lxc_path),
    }


def _device_files() -> List[DeviceFile]:
    found: List[DeviceFile] = []
    for path in sorted(glob.glob("/dev/nvidia*") + glob.glob("/dev/nvidia-caps/*")):
        try:
            status = os.stat(path)
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode):
            continue
        device = stat.S_ISCHR(status.st_mode)
        found.append(
            {
                "path": path,
                "kind": "device" if device else "file",
                "major": os.major(status.st_rdev) if device else None,
                "minor": os.minor(status.st_rdev) if device else None,
                "mode": stat.S_IMODE(status.st_mode),
                "uid": status.st_uid,
                "gid": status.st_gid,
            }
        )
    return found


def _module_version() -> Optional[str]:
    for path in MODULE_VERSIONS:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found = re.search(r"\b\d+(\.\d+)+\b", file.read())
        except OSError:
            continue
        if found:
            return found.group(0)
    return None


def _library_version(call: Call, name: str) -> Optional[str]:
    """The full version in the name of the file that the linker would take; None: not there."""
    places = [os.path.join(place, name) for place in PLACES]
    ldconfig = programs.find(call, "ldconfig")
    if ldconfig is not None:
        told = programs.ask(call, [ldconfig, "-p"], 10.0)
        pattern = r"^\s*%s .*=> (\S+)$" % re.escape(name)
        places = re.findall(pattern, told.stdout, re.MULTILINE) + places
    for path in places:
        version = re.search(r"\.so\.(\d+(?:\.\d+)+)$", os.path.realpath(path))
        if version and os.path.exists(path):
            return version.group(1)
    return None


def cuda(call: Call, indices: Optional[List[int]] = None, timeout: float = 30.0) -> Cuda:
    """Open every device file and make a CUDA context on GPUs (all for None), in a child process.

    `error` names the first driver call that failed, with its code; `unknown` says why the child
    gave no answer, None where it did.
    """
    code = "import sys; sys.path.insert(0, sys.argv[1]); from %s import cuda_probe; " % __package__
    argv = [sys.executable, "-I", "-c", code + "cuda_probe.main()", import_root()]
    argv.append(json.dumps(indices))
    from .cuda_probe import no_answer  # slow to import

    told = programs.ask(call, argv, timeout, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    if told.status is None:
        return no_answer("CUDA did not answer within %g s" % timeout)
    try:
        answer: Cuda = json.loads(told.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        words = (told.stderr.strip() or told.stdout.strip())[-400:]
        return no_answer("the process that asked CUDA ended with %d: %s" % (told.status, words))
    return answer


OPERATIONS = (look, cuda)
