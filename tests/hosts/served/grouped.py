"""A group: hosts on one private network here, each with an sshd, a root and an address of its own.
What serves on them is the stand-in, rank by rank."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.hosts.lab.namespaces import in_namespaces, wait_for
from tests.hosts.served.many import Machine, ManyHosts

RAY = Path(__file__).parent / "ray_stand_in.py"
NETWORK = "10.97.0"
"""Of the hosts among each other; it exists between their namespaces alone."""


class Cable:
    """A switch in a network of its own, to which machines are connected."""

    def __init__(self, directory: Path) -> None:
        self._process = in_namespaces(["sleep", "infinity"], ["--net"], directory / "switch.log")
        ours, theirs = (Path(f"/proc/{pid}/ns/net") for pid in ("self", self._process.pid))
        wait_for("a network of its own", lambda: theirs.readlink() != ours.readlink())
        self._ip("link", "add", "switch", "type", "bridge")
        self._ip("link", "set", "switch", "up")

    def connect(self, machine: Machine, number: int) -> str:
        """Give a machine an interface on the switch; its address."""
        port, card = f"port{number}", f"card{number}"
        self._ip(
            *("link", "add", port, "type", "veth"),
            *("peer", "name", card, "netns", str(machine.pid)),
        )
        self._ip("link", "set", port, "master", "switch", "up")
        address = f"{NETWORK}.{number}"
        machine.inside("ip", "address", "add", f"{address}/24", "dev", card)
        machine.inside("ip", "link", "set", card, "up")
        return address

    def cut(self, number: int) -> None:
        """Pull a machine's cable."""
        self._ip("link", "set", f"port{number}", "down")

    def mend(self, number: int) -> None:
        """Put it back."""
        self._ip("link", "set", f"port{number}", "up")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _ip(self, *words: str) -> None:
        enter = ["nsenter", f"--net=/proc/{self._process.pid}/ns/net", "ip"]
        subprocess.run([*enter, *words], check=True, stdin=subprocess.DEVNULL)


class GroupedHosts(ManyHosts):
    """A profile with one group over so many hosts, the first its head."""

    def __init__(self, directory: Path, count: int = 2) -> None:
        super().__init__(directory, count)
        self.cable = Cable(directory)
        self._stack.callback(self.cable.stop)
        self.addresses = [
            self.cable.connect(machine, number) for number, machine in enumerate(self.machines, 1)
        ]
        hosts = zip(self.machines, self.addresses, strict=True)
        self.write_hosts([{**one.host_settings(), "address": there} for one, there in hosts])
        self.write(group={"tensor_parallel_size": count, "rendezvous": "120s"})

    def write(self, **sections: Any) -> None:
        """The profile with these sections."""
        content = yaml.safe_load(self.profile_file.read_text("utf-8"))
        self.profile_file.write_text(yaml.safe_dump({**content, **sections}), encoding="utf-8")

    def processes(self) -> list[int]:
        """How many processes each host's unit has."""
        return [len(unit["members"]) for unit in self.units()]

    def until(self, what: str, so: Callable[[list[dict[str, Any]]], bool]) -> None:
        """Wait until that is so of the units, in the order of the ranks."""
        wait_for(what, lambda: so(self.units()))


def install_ray(environment: Path) -> None:
    """Put the stand-in for Ray into an environment."""
    program, text = environment / "bin" / "ray", RAY.read_text("utf-8")
    program.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
    program.chmod(0o755)
    (package := environment / "lib/python3.11/site-packages/ray").mkdir()
    (package / "__init__.py").write_text(text, encoding="utf-8")


class RayHosts(GroupedHosts):
    """The same by Ray, which is a stand-in as well."""

    one_root = True

    def __init__(self, directory: Path, count: int = 2) -> None:
        super().__init__(directory, count)
        self.write(
            group={"engine": "ray", "tensor_parallel_size": count, "rendezvous": "120s"},
            serve={**self._serve(), "stop_grace": "8s"},
        )
        environment = self.root / "environments" / self.make_environment()
        install_ray(environment)
        for machine in self.machines:
            copy = machine.root / "environments" / environment.name
            shutil.copytree(environment, copy, symlinks=True)

    def _serve(self) -> dict[str, Any]:
        content: dict[str, Any] = yaml.safe_load(self.profile_file.read_text("utf-8"))
        return dict(content["serve"])
