"""doctor's judgement as data: case 9 and the other kinds that people met on Proxmox and LXC."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.wire.gpus import Passthrough
from deployctl.steps.gpus import passthrough
from deployctl.steps.gpus.container_conf.conf import parse
from deployctl.steps.gpus.finding import Finding
from tests.unit.whole import whole

CASES = Path(__file__).parents[2] / "cases/lxc"
NODE_LINE = re.compile(r"crw[-rw]+ .*?(\d+),\s+(\d+) .*?(/dev/\S+)")
CONF = "/etc/pve/lxc/129.conf"


def devices(text: str) -> list[dict[str, Any]]:
    return [
        {"path": path, "kind": "device", "major": int(major), "minor": int(minor), "mode": 0o666}
        for major, minor, path in NODE_LINE.findall(text)
    ]


def look(text: str = "", **facts: Any) -> Any:
    """What `passthrough.look` would answer on a machine with these device files."""
    found = devices(text)
    uvm = next((d["major"] for d in found if d["path"] == "/dev/nvidia-uvm"), 511)
    told = {
        "majors": {"nvidia": 195, "nvidia-uvm": uvm, "nvidia-caps": 241},
        "devices": found,
        "module": "570.148.08",
        "libraries": {"libcuda.so.1": "570.148.08"},
        "shm": 8 << 30,
        "contained": None,
        "conf": {"path": CONF, "text": text},
        **facts,
    }
    return whole(Passthrough, told)


def said(findings: Iterable[Finding], verdict: str = "failed") -> list[str]:
    return [finding.say for finding in findings if finding.verdict == verdict]


def case(name: str) -> str:
    return (CASES / name).read_text()


def test_case_9_a_conf_of_another_boot() -> None:
    node = look(case("dev_nodes_and_conf_major_mismatch.txt"))
    failed = [f for f in passthrough.conf(node) if f.verdict == "failed"]
    assert [f.say for f in failed] == [
        "the conf allows 508, /dev/nvidia-uvm is 511; nvidia-smi may pass, CUDA will not",
        "the conf allows 508, /dev/nvidia-uvm-tools is 511; nvidia-smi may pass, CUDA will not",
    ]
    assert failed[0].where == f"{CONF}:9"
    assert failed[0].lines == ("dev0: /dev/nvidia-uvm",)


def test_case_9_matching_numbers_raise_no_such_complaint() -> None:
    node = look(case("dev_nodes_plus_caps_509.txt"))
    assert not [text for text in said(passthrough.conf(node)) if "allows" in text and "; " in text]


def test_a_device_that_is_allowed_and_not_mounted() -> None:
    findings = passthrough.conf(look(case("dev_nodes_plus_caps_509.txt")))
    assert said(findings) == [
        f"the conf allows /dev/{name} and does not bring it into the container"
        for name in ("nvidia0", "nvidiactl", "nvidia-uvm")
    ]


@pytest.mark.parametrize(
    ("conf", "complaints"),
    [
        ("dev0: /dev/nvidia0,mode=0666\ndev1: /dev/nvidiactl\ndev2: /dev/nvidia-uvm\n", 0),
        ("dev0: /dev/nvidia0,mode=0666\ndev1: /dev/nvidiactl\n", 1),
        ("lxc.cgroup2.devices.allow: a\nlxc.mount.entry: /dev dev none rbind 0 0\n", 0),
        ("lxc.cgroup.devices.allow = c *:* rwm\nlxc.mount.entry = /dev dev none rbind\n", 0),
        ("lxc.cgroup2.devices.allow: b 195:* rwm\n", 3),
        ("[before-upgrade]\ndev0: /dev/nvidia0\ndev1: /dev/nvidiactl\ndev2: /dev/nvidia-uvm", 3),
        ("# dev0: /dev/nvidia0\n", 3),
    ],
)
def test_ways_to_pass_a_device(conf: str, complaints: int) -> None:
    shown = case("dev_nodes_and_conf_major_mismatch.txt").partition("# container")[0]
    node = look(shown.replace("/dev/nvidia-uvm-tools", "/dev/other"))
    node["conf"] = {"path": CONF, "text": conf, "includes": {}}
    assert len(said(passthrough.conf(node))) == complaints


def test_the_next_free_entry_is_proposed_and_lxc_gets_its_own_syntax() -> None:
    read = parse("dev0: /dev/dri/card1,gid=44,uid=0\ndev2: /dev/nvidia0\n")
    assert {n: p.path for n, p in read.passed.items()} == {0: "/dev/dri/card1", 2: "/dev/nvidia0"}
    assert next(read.free) == 1
    node = look(case("dev_nodes_and_conf_major_mismatch.txt").partition("# container")[0])
    node["conf"] = {"path": "/var/lib/lxc/ct/config", "text": "", "includes": {}}
    first = next(iter(passthrough.conf(node)))
    assert first.lines == (
        "lxc.cgroup2.devices.allow = c 195:* rwm",
        "lxc.mount.entry = /dev/nvidia0 dev/nvidia0 none bind,optional,create=file",
    )


def test_the_entries_of_proxmox_9_are_read() -> None:
    text = case("pve9_dev_entries.txt")
    entries = re.findall(r"-(dev\d+) (\S+)", text)
    conf = "".join(f"{key}: {value}\n" for key, value in entries)
    passed = parse(conf).passed
    assert [passed[n].path for n in (0, 1)] == ["/dev/dri/card1", "/dev/dri/renderD128"]
    assert passed[0].options == {"gid": "44", "uid": "0"} and not passed[0].error


def test_a_gpu_that_the_profile_does_not_use_need_not_be_passed() -> None:
    text = "".join(
        f"crw-rw-rw- 1 root root {number} {path}\n"
        for number, path in (("195, 0", "/dev/nvidia0"), ("195, 1", "/dev/nvidia1"))
    )
    node = look(text, conf={"path": CONF, "text": "dev0: /dev/nvidia1\n"})
    assert said(passthrough.conf(node)) == []
    assert said(passthrough.conf(node, frozenset({1}))) == []
    assert said(passthrough.conf(node, frozenset({0}))) == [
        "the conf allows no /dev/nvidia0 (195); nvidia-smi may pass, CUDA will not"
    ]
    node["conf"]["text"] = ""
    assert len(said(passthrough.conf(node))) == 2


def test_no_configuration_is_unknown() -> None:
    assert said(passthrough.conf(look(conf=None)), "unknown")


def test_devices_that_vanished_until_nvidia_modprobe() -> None:
    findings = list(passthrough.nodes(look(""), "node"))
    assert said(findings) == [
        f"{path} is missing in the node"
        for path in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm")
    ]
    assert {f.lines for f in findings} == {("nvidia-modprobe -c 0 -u",)}


def test_a_device_file_of_another_boot_inside_the_container() -> None:
    inside = look("crw-rw-rw- 1 root root 508, 0 /dev/nvidia-uvm", majors={"nvidia-uvm": 511})
    assert (
        "/dev/nvidia-uvm in the container is 508:0, the driver's major is 511: "
        "it is of another boot; restart the container"
    ) in said(passthrough.nodes(inside, "container"))


def test_an_empty_file_instead_of_a_device() -> None:
    inside = look("crw-rw-rw- 1 root root 195, 0 /dev/nvidia0")
    inside["devices"][0].update(kind="file", major=None, minor=None)
    assert any("is an empty file" in text for text in said(passthrough.nodes(inside, "container")))


@pytest.mark.parametrize(
    ("library", "says"),
    [
        ("570.148.08", ""),
        ("570.148.06", "libcuda.so.1 is 570.148.06, the kernel module is 570.148.08"),
        ("570.148", "libcuda.so.1 is 570.148, the kernel module is 570.148.08"),
        (None, "libcuda.so.1 is not there"),
    ],
)
def test_all_parts_of_a_version_count(library: str | None, says: str) -> None:
    host = look(libraries={"libcuda.so.1": library})
    (finding,) = passthrough.versions(look(), host)
    assert finding.verdict == ("failed" if says else "ok")
    assert finding.say.startswith(says)
    if says:
        assert finding.lines == ("sh NVIDIA-Linux-x86_64-570.148.08.run --no-kernel-modules",)


def test_a_driver_that_is_not_loaded() -> None:
    bare = look(majors={}, module=None)
    assert said(passthrough.driver(bare)) == [
        "no NVIDIA driver is loaded on the machine with the GPU"
    ]
    half = look(majors={"nvidia": 195})
    assert said(passthrough.driver(half)) == [
        "nvidia-uvm is not loaded: nvidia-smi works, CUDA does not"
    ]


@pytest.mark.parametrize(
    ("size", "parallel", "verdict"),
    [
        (64 << 20, 1, "ok"),
        (64 << 20, 2, "failed"),
        (8 << 30, 8, "ok"),
        (None, 1, "failed"),
    ],
)
def test_shared_memory(size: int | None, parallel: int, verdict: str) -> None:
    (finding,) = passthrough.shm(look(shm=size), parallel, in_container=True)
    assert finding.verdict == verdict
    assert (finding.where == "the container's conf") == (verdict == "failed")


OPENED = {"/dev/nvidia0": None, "/dev/nvidia-uvm": None}


@pytest.mark.parametrize(
    ("probe", "verdict", "words"),
    [
        ({"count": 1}, "ok", ""),
        ({"count": 0}, "failed", "CUDA sees no GPU"),
        ({"unknown": "CUDA did not answer within 30 s"}, "unknown", "did not answer"),
        (
            {"error": {"call": "cuInit", "code": 999, "name": "CUDA_ERROR_UNKNOWN"}},
            "failed",
            "cuInit: CUDA_ERROR_UNKNOWN (999): nvidia-smi may pass all the same",
        ),
        (
            {"error": {"call": "cuCtxCreate_v2", "code": 2, "name": "CUDA_ERROR_OUT_OF_MEMORY"}},
            "warning",
            "CUDA works, but a GPU has no memory left",
        ),
        (
            {"error": {"call": "dlopen", "code": None, "name": "libcuda.so.1: no such file"}},
            "failed",
            "dlopen: libcuda.so.1: no such file",
        ),
    ],
)
def test_cuda_itself(probe: dict[str, Any], verdict: str, words: str) -> None:
    answer: Any = {"unknown": None, "opened": OPENED, "count": None, "version": 13000}
    (finding,) = passthrough.cuda(answer | {"error": None} | probe, CONF)
    assert finding.verdict == verdict and words in finding.say


@pytest.mark.parametrize(
    ("error", "where", "line"),
    [
        ("EPERM", CONF, "devN: /dev/nvidia-uvm"),
        ("EACCES", CONF, "devN: /dev/nvidia-uvm,mode=0666"),
        ("ENXIO", passthrough.MACHINE, "nvidia-modprobe -c 0 -u"),
    ],
)
def test_a_device_that_cannot_be_opened(error: str, where: str, line: str) -> None:
    answer: Any = {"unknown": None, "opened": {"/dev/nvidia-uvm": error}, "count": 1, "version": 1}
    first = next(iter(passthrough.cuda(answer | {"error": None}, CONF)))
    assert (first.check, first.verdict, first.where) == ("permission", "failed", where)
    assert first.lines == (line,)


def test_persistence_is_advice() -> None:
    gpus: Any = {"gpus": [{"index": 0, "persistence": False}, {"index": 1, "persistence": True}]}
    (finding,) = passthrough.persistence(gpus)
    assert finding.verdict == "warning" and "nvidia-smi -pm 1" in finding.lines
