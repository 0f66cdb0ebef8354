"""doctor on a real node and a real container: what is there, against the container's conf."""

from __future__ import annotations

import pytest

from deployctl.engine.inspect.doctor import examine
from tests.hosts.gpu.machine import MAJOR, UVM_MAJOR, GpuMachine
from tests.hosts.gpu.test_clean import profile

pytestmark = pytest.mark.lab

LIBRARY = "/usr/lib/libcuda.so.1"
HANGS = "unsigned sleep(unsigned); int cuInit(unsigned flags) { return sleep(600); }"


def test_the_way_to_the_gpu_of_a_container(gpus: GpuMachine) -> None:
    for path, minor in (("/dev/nvidiactl", 255), ("/dev/nvidia-uvm", 0)):
        major = MAJOR if minor else UVM_MAJOR
        gpus.node.run("mknod", "-m", "666", path, "c", str(major), str(minor))
    try:
        (host,) = examine(profile(gpus))["hosts"]
    finally:
        gpus.node.run("rm", "/dev/nvidiactl", "/dev/nvidia-uvm")
    findings = [(f["check"], f["verdict"], f["say"]) for f in host["findings"]]
    assert ("gpu", "ok", "") in findings
    assert ("conf", "ok", "") in findings, "nvidia0 is passed by dev0"
    conf = [f for f in host["findings"] if f["check"] == "conf" and f["verdict"] == "failed"]
    assert [f["say"] for f in conf] == [
        f"the conf allows no /dev/{name} ({major}); nvidia-smi may pass, CUDA will not"
        for name, major in (("nvidiactl", MAJOR), ("nvidia-uvm", UVM_MAJOR))
    ]
    assert [f["lines"] for f in conf] == [["dev1: /dev/nvidiactl"], ["dev2: /dev/nvidia-uvm"]]
    assert {f["where"].rpartition(":")[0] for f in conf} == {"/etc/pve/lxc/201.conf"}
    assert ("device", "failed", "/dev/nvidia-uvm is missing in the container") in findings
    cuda = next(f for f in host["findings"] if f["check"] == "cuda")
    assert cuda["verdict"] == "failed" and "libcuda.so.1" in cuda["say"]


def test_a_device_that_nobody_answers_behind(gpus: GpuMachine) -> None:
    with gpus.agent("ours") as agent:
        gpus.ours.run("mknod", "-m", "666", "/dev/nvidia-uvm", "c", str(UVM_MAJOR), "0")
        try:
            answer = agent.call("passthrough.cuda")
            looked = agent.call("passthrough.look")
        finally:
            gpus.ours.run("rm", "/dev/nvidia-uvm")
    assert answer["unknown"] is None
    assert answer["opened"] == {"/dev/nvidia-uvm": "ENXIO", "/dev/nvidia0": None}
    assert {d["path"]: (d["kind"], d["major"]) for d in looked["devices"]} == {
        "/dev/nvidia-uvm": ("device", UVM_MAJOR),
        "/dev/nvidia0": ("device", MAJOR),
    }
    assert looked["contained"] == "lxc" and looked["shm"] > 0


def test_a_probe_that_hangs_is_unknown(gpus: GpuMachine) -> None:
    """As in a driver whose first call does not come back."""
    make = f"printf %s '{HANGS}' | gcc -shared -x c -o {LIBRARY} -"
    gpus.node.run("sh", "-c", make)
    try:
        with gpus.agent() as agent:
            answer = agent.call("passthrough.cuda", timeout=1.0)
    finally:
        gpus.node.run("rm", LIBRARY)
    assert answer["unknown"] == "CUDA did not answer within 1 s"
