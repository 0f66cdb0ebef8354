"""NVIDIA's device files by number: the same device has another inode in every container."""

from __future__ import annotations

import os
import stat
from typing import Dict, NamedTuple, Optional

DRIVER = "/proc/driver/nvidia"
CONTROL_MINORS = {255: "nvidiactl", 254: "nvidia-modeset"}


class Devices(NamedTuple):
    """The character device majors of the NVIDIA drivers, by the name in /proc/devices.

    195 is nvidia's own; those of nvidia-uvm, nvidia-caps and nvidia-nvswitch are given out by the
    kernel and may be others after the next boot.
    """

    majors: Dict[str, int]

    def name(self, number: int) -> Optional[str]:
        """What a device number stands for, as its file in /dev is called; None: not NVIDIA's."""
        major, minor = os.major(number), os.minor(number)
        for driver, own in self.majors.items():
            if own != major:
                continue
            if driver in ("nvidia", "nvidiactl", "nvidia-frontend"):
                return CONTROL_MINORS.get(minor, "nvidia%d" % minor)
            if driver == "nvidia-uvm":
                return "nvidia-uvm" if minor == 0 else "nvidia-uvm-tools"
            if driver == "nvidia-caps":
                return "nvidia-caps/nvidia-cap%d" % minor
            return "%s:%d" % (driver, minor)
        return None

    def of_file(self, path: str) -> Optional[str]:
        """The device that a path leads to; None where it is another device or is gone."""
        try:
            found = os.stat(path)
        except OSError:
            return None
        return self.name(found.st_rdev) if stat.S_ISCHR(found.st_mode) else None


def read_devices(path: str = "/proc/devices") -> Devices:
    """The majors that the running kernel uses; none where no NVIDIA driver is loaded."""
    majors: Dict[str, int] = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            if line.startswith("Block"):
                break
            number, _, name = line.strip().partition(" ")
            if number.isdigit() and name.startswith("nvidia"):
                majors[name] = int(number)
    return Devices(majors)


def gpu_count() -> int:
    """The GPUs that the kernel driver lists, whatever nvidia-smi says."""
    try:
        return len(os.listdir(DRIVER + "/gpus"))
    except OSError:
        return 0


def device_minor(bus: Optional[str]) -> Optional[int]:
    """N of /dev/nvidiaN for a PCI address; it need not be nvidia-smi's index. None: unknown."""
    if bus is None:
        return None
    domain, rest = bus.lower().split(":", 1)
    name = "%04x:%s" % (int(domain, 16), rest)
    try:
        with open("%s/gpus/%s/information" % (DRIVER, name), encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == "Device Minor" and value.strip().isdigit():
                    return int(value)
    except OSError:
        pass
    return None
