"""A machine of the lab with two GPUs, of which the driver, nvidia-smi and the programs that use
them are stood in for; device files, processes, containers and control groups are real.

The GPUs' device files are those of /dev/cpu/N/cpuid under another name, for that is a character
device that may be opened by several and that nobody else uses; /proc/devices calls it `nvidia`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.hosts.session import Session
from deployctl.hosts.transports import node_transport, transport
from tests.hosts.lab.machines import Container, Node
from tests.hosts.lab.namespaces import wait_for
from tests.hosts.lab.network import Lab

HERE = Path(__file__).parent
MAJOR = 203
UVM_MAJOR = 511
UUIDS = ("GPU-00000000-aaaa-0000-0000-000000000000", "GPU-11111111-bbbb-0000-0000-000000000000")
DEVICES = f"Character devices:\n  1 mem\n{MAJOR} nvidia\n{UVM_MAJOR} nvidia-uvm\n\nBlock devices:\n"

Place = Node | Container

TRAINING = ("python3", "/stand_in/train.py")
SERVER = ("python3", "/stand_in/bin/vllm", "serve", "/models/m")
TRACKER = (
    "python3",
    "-c",
    "from multiprocessing.resource_tracker import main;"
    "exec(open('/stand_in/holder_stand_in.py').read())",
)
"""Command lines of programs that use GPUs, and of one that does not."""


class GpuMachine:
    """`node` with two GPUs, container `ours` with GPU 0 of its own making (`dev0:`), container
    `other` with GPU 0 bound in (the same inode)."""

    def __init__(self, lab: Lab) -> None:
        self.node = lab.h1
        entry = "lxc.mount.entry"
        shared = "/stand_in stand_in none bind,create=dir"
        inode = "/dev/nvidia0 dev/nvidia0 none bind,create=file"
        self.ours = lab.make_container(self.node, 201, **{entry: shared, "dev0": "/dev/nvidia0"})
        # A value of two lines: a key may come twice in a conf.
        self.other = lab.make_container(self.node, 202, **{entry: f"{shared}\n{entry}: {inode}"})
        self._started: list[tuple[Place, int]] = []

    def start(self) -> None:
        """Put the stand-ins in place and start the containers."""
        self.node.run("mkdir", "-p", "/stand_in/bin")
        self._copy(HERE / "holder_stand_in.py", "/stand_in/holder_stand_in.py")
        for program in ("bin/vllm", "train.py"):
            self._copy(HERE / "holder_stand_in.py", f"/stand_in/{program}")
        # This machine may be a container; the lab's is none.
        self.node.run("rm", "-f", "/.dockerenv")
        smi = HERE.parent / "lab" / "nvidia_smi_stand_in.py"
        self._copy(smi, "/usr/bin/nvidia-smi", "755")
        self.write("/stand_in/devices", DEVICES)
        for minor in (0, 1):
            node = f"/dev/nvidia{minor}"
            self.node.run("mknod", "-m", "666", node, "c", str(MAJOR), str(minor))
        self.set_gpus()
        self.node.run("mount", "--bind", "/stand_in/devices", "/proc/devices")
        for container in (self.ours, self.other):
            container.start()
            container.run("mount", "--bind", "/stand_in/devices", "/proc/devices")

    def stop(self) -> None:
        """Stop the containers and remove the stand-ins."""
        for container in (self.ours, self.other):
            container.restore()
            container.stop()
        self.node.run("umount", "/proc/devices")
        self.node.run(
            "rm", "-rf", "/stand_in", "/usr/bin/nvidia-smi", "/dev/nvidia0", "/dev/nvidia1"
        )

    def set_gpus(self, *changes: dict[str, Any], **more: Any) -> None:
        """What the stand-in for nvidia-smi says beside the real processes; `changes` by GPU."""
        gpus = [
            {"uuid": uuid, "minor": minor, "total": 143771, **change}
            for minor, (uuid, change) in enumerate(zip(UUIDS, [*changes, {}, {}], strict=False))
        ]
        state = {"driver": "580.159.04", "gpus": gpus, **more}
        self.write("/stand_in/gpus.json", json.dumps(state))

    def write(self, path: str, text: str) -> None:
        """A file on the node."""
        self.node.run("sh", "-c", 'printf %s "$1" >"$2"', "sh", text, path)

    def _copy(self, source: Path, path: str, mode: str = "644") -> None:
        self.write(path, source.read_text())
        self.node.run("chmod", mode, path)

    def hold(self, place: Place, *argv: str, **spec: Any) -> int:
        """Start a program that holds a GPU; its PID as the place numbers it."""
        spec = {"argv": list(argv), "devices": ["/dev/nvidia0"], "memory": 1000, **spec}
        started = place.run("python3", "/stand_in/holder_stand_in.py", "start", json.dumps(spec))
        pid = int(started.stdout)
        self.remember(place, pid)
        return pid

    def remember(self, place: Place, pid: int) -> None:
        """Have this process ended after the test."""
        self._started.append((place, pid))

    def on_node(self, place: Place, pid: int) -> int:
        """A PID as the node numbers it."""
        if isinstance(place, Node):
            return pid
        init = place.node.run("lxc-info", "-n", place.id, "-p", "-H").stdout.strip()
        for status in place.node.run(
            "sh",
            "-c",
            f"ns=$(readlink /proc/{init}/ns/pid); for p in /proc/[0-9]*; do "
            '[ "$(readlink $p/ns/pid)" = "$ns" ] && grep -h ^NSpid $p/status; done; true',
        ).stdout.splitlines():
            numbers = status.split()[1:]
            if int(numbers[-1]) == pid:
                return int(numbers[0])
        raise LookupError(f"no process {pid} in container {place.id}")

    def alive(self, place: Place, pid: int) -> bool:
        """Whether a process runs, zombies left out."""
        state = place.run("sh", "-c", f"cut -d' ' -f3 /proc/{pid}/stat", check=False).stdout
        return bool(state.strip()) and state.strip() not in "ZX"

    def end_all(self) -> None:
        """End whatever the test started; once it is gone the GPUs are idle."""
        for place in dict.fromkeys(place for place, _ in self._started):
            sessions = ",".join(str(pid) for started, pid in self._started if started is place)
            wait_for(f"the end of {sessions}", partial(self._ended, place, sessions))
        self._started.clear()

    def _ended(self, place: Place, sessions: str) -> bool:
        """Kill sessions, of which one may start others meanwhile; whether nobody lives in them."""
        kill = 'pkill -KILL -s "$1"; sleep 0.01; pgrep -r R,S,D,T -s "$1"'
        return not place.run("sh", "-c", kill, "sh", sessions, check=False).stdout

    # -- as deployctl sees it -----------------------------------------------------------------

    def host(self, container: bool = True) -> HostSettings:
        """The host file: container `ours` behind the node, or the node itself."""
        settings = self.ours.host_settings() if container else self.node.host_settings()
        return HostSettings.model_validate(settings)

    @contextmanager
    def agent(self, place: str = "node") -> Iterator[Session]:
        """A conversation with the agent on the node or in container `ours`."""
        host = self.host()
        way = node_transport(host) if place == "node" else transport(host)
        assert way is not None
        with Session(way) as session:
            yield session
