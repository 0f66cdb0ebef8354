"""A lab of whole machines: network namespaces on a switch, each with a root of its own, a real
sshd and real LXC containers. Nothing of this machine's own network is changed, and everything
ends with the test run, even one that is killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from tests.hosts.lab import processes
from tests.hosts.lab.machines import SUBNET, Container, Node
from tests.hosts.lab.namespaces import enter_network, in_namespaces, wait_for
from tests.hosts.lab.sshd import make_key, public

RUN = Path("/run")
TRACES = "deployctl-lab-"


class Lab:
    """Machines `h1` and `h2` on a switch, and container 129 on h1.

    Who wants to reach them is `inside`: the lab's network is not this machine's.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.user_key = make_key(directory / "user_key")
        self.known_hosts = directory / "known_hosts"
        self.config_file = directory / "ssh_config"
        self.h1, self.h2 = (Node(directory, number, self.switch) for number in (1, 2))
        self._groups = f"{TRACES}{os.getpid()}"
        self.container = self.make_container(self.h1, 129)
        self._switch: subprocess.Popen[bytes] | None = None

    def make_container(self, node: Node, number: int, **conf: str) -> Container:
        """A container of `node`, not started yet; `conf` are lines of its Proxmox conf."""
        network = f"name=eth0,bridge=vmbr0,ip={SUBNET}.{number}/24,type=veth"
        lines = {"hostname": f"ct{number}", "net0": network, **conf}
        lines["lxc.cgroup.dir"] = f"{self._groups}/{node.name}-{number}"
        return Container(node, number, lines)

    def make_systemd_container(self, node: Node, number: int) -> Container:
        """One with systemd as its PID 1, which needs systemd on this machine."""
        init = {"lxc.init.cmd": "/lib/systemd/systemd --unit=basic.target"}
        return self.make_container(node, number, **init)

    def switch(self, *argv: str) -> None:
        """Run a program in the network that the cables end in."""
        assert self._switch is not None
        command = ["nsenter", "-t", str(self._switch.pid), "-n", "--", *argv]
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=60)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """This thread, and whatever it starts, is in the lab's network meanwhile."""
        assert self._switch is not None
        # Held open: once inside, this thread's own entry in /proc names the lab's network.
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            enter_network(f"/proc/{self._switch.pid}/ns/net")
            try:
                yield
            finally:
                enter_network(f"/proc/self/fd/{home}")
        finally:
            os.close(home)

    def start(self) -> None:
        """Bring up everything."""
        self._switch = in_namespaces(
            ["sleep", "infinity"], ["--net"], self.directory / "switch.log"
        )
        ours = Path("/proc/self/ns/net").readlink()
        theirs = Path(f"/proc/{self._switch.pid}/ns/net")
        wait_for("a network of its own", lambda: theirs.readlink() != ours)
        self.switch("ip", "link", "set", "lo", "up")
        self.switch("ip", "link", "add", "switch", "type", "bridge")
        self.switch("ip", "address", "add", f"{SUBNET}.254/24", "dev", "switch")
        self.switch("ip", "link", "set", "switch", "up")
        for node in (self.h1, self.h2):
            node.start()
        self.write_files()
        self.container.start()

    def write_files(self) -> None:
        """known_hosts and an ssh_config in which the machines have their names."""
        nodes = (self.h1, self.h2)
        self.known_hosts.write_text(
            "".join(f"{node.address} {public(node.host_key)}\n" for node in nodes)
        )
        common = (
            f"Host *\n  User root\n  IdentityFile {self.user_key}\n  IdentitiesOnly yes\n"
            f"  IdentityAgent none\n  UserKnownHostsFile {self.known_hosts}\n"
            "  GlobalKnownHostsFile none\n"
        )
        names = "".join(f"Host {node.name}\n  HostName {node.address}\n" for node in nodes)
        self.config_file.write_text(names + common)

    def restore(self) -> None:
        """Undo whatever a test did."""
        for node in (self.h1, self.h2):
            node.restore()
        self.container.restore()
        self.write_files()

    def stop(self) -> None:
        """Take everything down; nothing is left."""
        for node in (self.h1, self.h2):
            node.stop()
        if self._switch is not None:
            self._switch.kill()
            self._switch.wait()
        remove_traces(os.getpid())


def new_directory() -> Path:
    """A place for a lab's files, named after this process."""
    return Path(tempfile.mkdtemp(prefix=f"{TRACES}{os.getpid()}-", dir=RUN))


def remove_traces(pid: int) -> None:
    """Remove the control groups and files of the lab that a process made."""
    name = f"{TRACES}{pid}"
    # Not by glob: other control groups of this machine come and go meanwhile.
    tops = [Path(at, name) for at, below, _ in os.walk("/sys/fs/cgroup") if name in below]
    for top in tops:
        for group, _, _ in os.walk(top, topdown=False):
            wait_for(f"{group} empty", partial(_remove_group, Path(group)))
    for directory in RUN.glob(f"{TRACES}{pid}-*"):
        # Another test run may sweep the same.
        with suppress(FileNotFoundError):
            shutil.rmtree(directory)


def sweep() -> None:
    """Remove what test runs left that were killed: their machines have ended with them."""
    for directory in RUN.glob(f"{TRACES}*-*"):
        pid = int(directory.name.removeprefix(TRACES).partition("-")[0])
        if not processes.is_alive(pid):
            remove_traces(pid)


def _remove_group(directory: Path) -> bool:
    with suppress(OSError):
        directory.rmdir()
    return not directory.exists()
