"""The machines of the lab, and the containers on them."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from tests.hosts.lab import processes
from tests.hosts.lab.namespaces import in_namespaces, wait_for
from tests.hosts.lab.sshd import SSHD, make_key, sshd_config

HERE = Path(__file__).parent
SUBNET = "10.99.0"
AT_REST = ("RUNNING", "FROZEN", "STOPPED")
"""States of a container that is not on its way to another."""


class Node:
    """One machine of the lab: `name` is its host name, `pid` its PID 1 as seen from here.

    `directory` is the lab's; `switch` runs a program where the cables end.
    """

    def __init__(self, directory: Path, number: int, switch: Callable[..., None]) -> None:
        self.name = f"h{number}"
        self.address = f"{SUBNET}.{number}"
        self.directory = directory / self.name
        self.config_file = directory / "ssh_config"
        self.user_key = directory / "user_key"
        self.host_key = self.directory / "host_key"
        self._switch = switch
        self._link = f"port{number}"
        # A bridge without one of its own takes the lowest of its ports', and changes it as
        # containers come and go: who knew the old one would wait for it.
        self._hardware_address = f"02:00:00:00:01:{number:02x}"
        self._process: subprocess.Popen[bytes] | None = None
        self.pid = 0

    # -- what tests use ----------------------------------------------------------------------

    def settings(self, **changes: Any) -> dict[str, Any]:
        """The `ssh:` section of a host file that reaches this machine from inside the lab."""
        known = {"address": self.name, "config_file": str(self.config_file)}
        # However busy this machine is.
        return {**known, "connect_timeout": 60, **changes}

    def host_settings(self, **changes: Any) -> dict[str, Any]:
        """A whole host file, as `HostSettings` takes it; `changes` go into its `ssh:`."""
        return {"name": self.name, "ssh": self.settings(**changes)}

    def run(self, *argv: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program on this machine, beside any SSH."""
        return subprocess.run(
            ["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "--", *argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=check,
            timeout=120,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        )

    def cut(self, how: Literal["drop", "reset", "link"] = "drop") -> None:
        """Part it from everyone: packets vanish, connections are reset, or the cable is out."""
        if how == "link":
            self._switch("ip", "link", "set", self._link, "down")
            return
        verdict = "drop" if how == "drop" else "meta l4proto tcp reject with tcp reset"
        for hook in ("input", "output"):
            chain = f"{{ type filter hook {hook} priority 0; }}"
            self.run("nft", "add", "table", "inet", "cut")
            self.run("nft", "add", "chain", "inet", "cut", hook, chain)
            self.run("nft", "add", "rule", "inet", "cut", hook, verdict)

    def heal(self) -> None:
        """Undo `cut`."""
        self._switch("ip", "link", "set", self._link, "up")
        self.run("nft", "delete", "table", "inet", "cut", check=False)

    def freeze(self) -> None:
        """Stop every sshd with SIGSTOP: the host is there and does not answer."""
        self._signal_sshd(signal.SIGSTOP)

    def thaw(self) -> None:
        """Undo `freeze`."""
        self._signal_sshd(signal.SIGCONT)

    def kill_sessions(self) -> None:
        """Kill what serves connections with SIGKILL; the listener stays."""
        for pid in self.sshd_processes():
            if "[listener]" not in processes.command(pid):
                processes.send(pid, signal.SIGKILL)

    def stop_sshd(self) -> None:
        """End sshd altogether: the port refuses connections."""

        def ended() -> bool:
            # Again and again: one that is killed may have started another meanwhile.
            self._signal_sshd(signal.SIGKILL)
            return not self.sshd_processes()

        wait_for(f"{self.name} without sshd", ended)

    def start_sshd(self) -> None:
        """Start sshd and wait until it listens."""
        config = self.directory / "sshd_config"
        config.write_text(sshd_config(f"{self.address}:22", self.host_key, self.user_key))
        self.run(SSHD, "-f", config, "-E", self.directory / "sshd.log")
        wait_for(f"sshd of {self.name}", self._listens)

    def rekey(self) -> None:
        """Give it a new host key, as a machine that was installed anew has."""
        self.stop_sshd()
        for path in (self.host_key, Path(f"{self.host_key}.pub")):
            path.unlink()
        make_key(self.host_key)
        self.start_sshd()

    def sshd_processes(self) -> list[int]:
        """Every living sshd of this machine, the listener among them."""
        below = processes.descendants(self.pid)
        return [p for p in below if processes.name_of(p) == "sshd" and processes.is_alive(p)]

    # -- its life ----------------------------------------------------------------------------

    def start(self) -> None:
        """Bring it up: its namespaces, its cable, its sshd."""
        for place in ("root", "disk"):
            (self.directory / place).mkdir(parents=True)
        make_key(self.host_key)
        init = ["sh", str(HERE / "node_init.sh"), str(self.directory), self.name]
        unshared = ["--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child"]
        log = self.directory / "init.log"
        self._process = in_namespaces(
            [*init, str(HERE / "pct_stand_in")], [*unshared, "--propagation", "private"], log
        )
        outer = self._process
        try:
            wait_for(f"{self.name} up", (self.directory / "ready").exists)
        except TimeoutError as error:
            raise RuntimeError(f"{error}: {log.read_text()}") from error
        (self.pid,) = processes.children(outer.pid)
        self._switch(
            *["ip", "link", "add", self._link, "type", "veth"],
            *["peer", "name", "eth0", "netns", str(self.pid)],
        )
        self._switch("ip", "link", "set", self._link, "master", "switch", "up")
        # As on a Proxmox node: the address is the bridge's, containers join the bridge.
        self.run("ip", "link", "set", "lo", "up")
        bridge = ("link", "add", "vmbr0", "address", self._hardware_address, "type", "bridge")
        self.run("ip", *bridge)
        self.run("ip", "link", "set", "eth0", "master", "vmbr0", "up")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "vmbr0")
        self.run("ip", "link", "set", "vmbr0", "up")
        self.start_sshd()

    def stop(self) -> None:
        """Kill its PID 1, and with it every process, mount and link it has."""
        if self._process is not None:
            if self.pid:
                processes.send(self.pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
            wait_for(f"the end of {self.name}", lambda: not processes.is_alive(self.pid))

    def restore(self) -> None:
        """Undo whatever a test did to its connections."""
        self.heal()
        self.thaw()
        if not self._listens():
            self.start_sshd()

    def _signal_sshd(self, number: signal.Signals) -> None:
        for pid in self.sshd_processes():
            processes.send(pid, number)

    def _listens(self) -> bool:
        return f"{self.address}:22" in self.run("ss", "-ltnH").stdout


class Container:
    """An LXC container of a node, known to its stand-in for pct by number."""

    def __init__(self, node: Node, number: int, conf: dict[str, str]) -> None:
        self.node = node
        self.id = str(number)
        self._conf = conf

    def host_settings(
        self, via: Literal["pct", "lxc-attach"] = "pct", **changes: Any
    ) -> dict[str, Any]:
        """A whole host file that enters it through its node; `changes` go to the top."""
        return {
            "name": f"ct{self.id}",
            "container": {"id": self.id, "via": via},
            "node": self.node.host_settings(),
            **changes,
        }

    def start(self) -> None:
        """Write its configuration and start it."""
        text = "".join(f"{key}: {value}\n" for key, value in self._conf.items())
        self.node.run(
            "sh", "-c", 'printf %s "$1" >"$2"', "sh", text, f"/etc/pve/lxc/{self.id}.conf"
        )
        done = self.node.run("pct", "start", self.id, check=False)
        if done.returncode:
            raise RuntimeError(f"container {self.id}: {done.stdout}{done.stderr}")
        if "lxc.init.cmd" in self._conf:
            wait_for(f"systemd in container {self.id}", self._booted)

    def stop(self) -> None:
        """Stop it at once."""
        self.node.run("pct", "stop", self.id)

    def freeze(self) -> None:
        """Freeze every process in it."""
        self.node.run("pct", "suspend", self.id)

    def thaw(self) -> None:
        """Undo `freeze`."""
        self.node.run("pct", "resume", self.id)

    def run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program in it, beside any SSH."""
        return self.node.run("pct", "exec", self.id, "--", *argv, check=check)

    def state(self) -> str:
        """LXC's word for its state."""
        return self.node.run("lxc-info", "-n", self.id, "-s", "-H", check=False).stdout.strip()

    def restore(self) -> None:
        """Undo whatever a test did to it."""
        wait_for(f"container {self.id} at rest", lambda: self.state() in AT_REST)
        if self.state() == "FROZEN":
            self.thaw()
        if self.state() == "STOPPED":
            self.start()

    def _booted(self) -> bool:
        """Whether its systemd has come up: before, it is asked in vain."""
        said = self.run("systemctl", "is-system-running", check=False).stdout
        return said.strip() in ("running", "degraded")
