"""The lab's machine with GPUs, for a whole test run and for one test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts.gpu.machine import GpuMachine
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
