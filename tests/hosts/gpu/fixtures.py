"""The lab's machine with GPUs, for a whole test run and for one test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.gpu.machine import GpuMachine
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.network import Lab


@pytest.fixture(scope="session")
def whole_gpu_machine(whole_lab: Lab) -> Iterator[GpuMachine]:
    """For the whole run; tests take `gpus`."""
    machine = GpuMachine(whole_lab)
    machine.start()
    try:
        yield machine
    finally:
        machine.stop()


@pytest.fixture
def gpus(lab: Lab, whole_gpu_machine: GpuMachine) -> Iterator[GpuMachine]:
    """The machine with its GPUs idle, and idle again afterwards."""
    whole_gpu_machine.set_gpus()
    try:
        yield whole_gpu_machine
    finally:
        whole_gpu_machine.end_all()


@pytest.fixture
def frozen_disk(gpus: GpuMachine) -> Iterator[str]:
    """A real file system that takes no writes: who writes to it waits in the kernel."""
    disk = "/tmp/disk.img"
    gpus.node.run("truncate", "-s", "8M", disk)
    gpus.node.run("mkfs.ext4", "-q", disk)
    gpus.node.run("mkdir", "-p", "/mnt/disk")
    # Loop devices are this machine's, made where the lab's node can see them.
    for path in [Path("/dev/loop-control"), *Path("/dev").glob("loop[0-9]*")]:
        kind = "c" if path.name == "loop-control" else "b"
        number = path.stat().st_rdev
        major, minor = str(number >> 8), str(number & 0xFF)
        gpus.node.run("mknod", str(path), kind, major, minor, check=False)
    gpus.node.run("mount", "-o", "loop", disk, "/mnt/disk")
    gpus.node.run("fsfreeze", "-f", "/mnt/disk")
    try:
        yield "/mnt/disk/file"
    finally:
        gpus.node.run("fsfreeze", "-u", "/mnt/disk")
        gpus.end_all()
        wait_for(
            "the disk to be let go",
            lambda: gpus.node.run("umount", "/mnt/disk", check=False).returncode == 0,
        )
