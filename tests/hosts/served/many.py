"""Many hosts in one profile, each with an sshd, a root and a network of its own here."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import yaml

from deployctl.config.host import HostSettings
from deployctl.engine.connections.connect import connect
from deployctl.engine.connections.pool import Slots, each
from deployctl.hosts.session import Call
from tests.hosts.lab.namespaces import in_namespaces, wait_for
from tests.hosts.lab.sshd import Sshd
from tests.hosts.served.host import ServedHost

ENTER = 'nsenter --net=/proc/{pid}/ns/net {more} sh -c "$SSH_ORIGINAL_COMMAND"'


class Machine:
    """One host: what is started through its sshd has its network, where all ports are free.
    `options` are further lines of its sshd_config. With `seen` its root lies at that path for
    what runs there, as it may for other machines, whose roots are others."""

    def __init__(
        self,
        directory: Path,
        name: str,
        options: Mapping[str, str] | None = None,
        seen: Path | None = None,
    ) -> None:
        self.name = name
        directory.mkdir()
        self.root = directory / "root"
        self.root.mkdir(mode=0o700)
        self._seen = seen
        own = ["--net", *(["--mount"] if seen else [])]
        self._network = in_namespaces(["sleep", "infinity"], own, directory / "network.log")
        ours, theirs = (Path(f"/proc/{pid}/ns/net") for pid in ("self", self._network.pid))
        wait_for("a network of its own", lambda: theirs.readlink() != ours.readlink())
        self._mount = [f"--mount=/proc/{self.pid}/ns/mnt"] if seen else []
        self.inside("ip", "link", "set", "lo", "up")
        if seen is not None:
            seen.mkdir(exist_ok=True)
            self.inside("mount", "--bind", str(self.root), str(seen))
        enter = ENTER.format(pid=self.pid, more=" ".join(self._mount))
        self.sshd = Sshd(directory, {"ForceCommand": enter, **(options or {})})
        self.sshd.start()

    @property
    def pid(self) -> int:
        """A process that has its network."""
        return self._network.pid

    def enter(self, argv: Sequence[str]) -> list[str]:
        """A command line that runs another one in its network."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", *self._mount, *argv]

    def inside(self, *argv: str) -> None:
        """Run a program in its network."""
        subprocess.run(self.enter(argv), check=True)

    def host_settings(self, **changes: Any) -> dict[str, Any]:
        """A whole host file; `changes` go into its `ssh:`."""
        root = str(self._seen or self.root)
        return {**self.sshd.host_settings(self.name, **changes), "root": root}

    def ask(self, *calls: Call[Any]) -> Sequence[Any]:
        """Questions to the host's agent."""
        with connect(HostSettings(**self.host_settings())) as connected:
            return connected.session.ask(calls)

    def stop(self) -> None:
        """Stop all that was started, and end the machine."""
        (found,) = self.ask(Call("units.listing", profile="stand"))
        self.ask(*(Call("units.stop", profile="stand", unit=unit, grace=0.5) for unit in found))
        self.sshd.stop()
        self._network.kill()
        self._network.wait()


class ManyHosts(ServedHost):
    """A profile with so many hosts. What serves on each is the stand-in."""

    one_root = False
    """Whether all of them have their root at the same path."""

    def __init__(self, directory: Path, count: int) -> None:
        super().__init__(directory)
        self.directory = directory
        self._stack = ExitStack()
        self.machines: list[Machine] = []
        for number in range(count):
            name = f"host{number:02}"
            seen = directory / "seen" if self.one_root else None
            machine = Machine(directory / name, name, seen=seen)
            self._stack.callback(machine.stop)
            self.machines.append(machine)
            source = self.root / "environments"
            shutil.copytree(source, machine.root / "environments", symlinks=True)
        self.write_hosts([machine.host_settings() for machine in self.machines])

    def write_hosts(self, hosts: Sequence[dict[str, Any]]) -> None:
        """The profile with these hosts."""
        content = yaml.safe_load(self.profile_file.read_text("utf-8"))
        content["hosts"] = list(hosts)
        self.profile_file.write_text(yaml.safe_dump(content), encoding="utf-8")

    def units(self) -> list[dict[str, Any]]:
        """What serves on each of them."""
        call = Call("units.state", profile="stand", unit="server")
        return each(self.machines, lambda machine: machine.ask(call)[0], Slots())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self.leave()
        shutil.rmtree(self.root, ignore_errors=True)


def needs_root() -> bool:
    """Whether such hosts cannot be made here."""
    return os.geteuid() != 0
