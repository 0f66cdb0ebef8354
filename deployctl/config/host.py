"""Where to serve: a machine reached by SSH, this machine, or a container through its node."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from deployctl.config.base import NAME, Duration, Settings
from deployctl.config.ssh_address import SCHEME, split

SEPARATOR = "/"
"""Between the name of a host and the number of one of its replicas: no host's name has it."""


class SshSettings(Settings):
    """How to reach a machine by SSH; what is absent comes from the user's ssh_config (`ssh -G`)."""

    address: str
    """Host alias, name or IP address, as one would give it to `ssh`; USER@HOST:PORT and
    ssh://USER@HOST:PORT as well, an IPv6 address with a port in brackets."""
    user: str | None = None
    """The user to log in as; ssh_config's when absent."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """The SSH server's port; ssh_config's when absent."""
    identity_file: str | None = None
    """A private key to offer before the configured ones."""
    known_hosts: str | None = None
    """A known_hosts file to use instead of the configured ones."""
    config_file: str | None = None
    """An ssh_config to read instead of the user's (`ssh -F`)."""
    accept_new: bool = False
    """Store the key of a host never seen before. A changed key is refused all the same."""
    connect_timeout: Duration = 10.0
    """Longest wait for each part of connecting: the link, its greeting, a key, a channel."""

    @model_validator(mode="before")
    @classmethod
    def _in_parts(cls, given: Any) -> Any:
        """An address with a port has its parts under keys of their own."""
        address = given.get("address") if isinstance(given, dict) else None
        if not isinstance(address, str) or not (address.startswith(SCHEME) or ":" in address):
            return given
        parts = split(address)
        made = {**given, "address": parts.host}
        for name, value in (("user", parts.user), ("port", parts.port)):
            if value is None:
                continue
            if given.get(name) not in (None, value):
                raise ValueError(f"address and {name} name different ones; write {name} once")
            made[name] = value
        return made


class ContainerSettings(Settings):
    """A container on `node`, entered through the node."""

    id: str
    """Container number (Proxmox) or name (LXC)."""
    via: Literal["pct", "lxc-attach"] = "pct"
    """The program on the node that enters it: pct (Proxmox) or lxc-attach (LXC without it)."""
    lxc_path: str | None = None
    """lxc-attach's `-P`, where the containers do not lie in the default place."""


class HostSettings(Settings):
    """A host file: `profiles/hosts/NAME.yaml`.

    Exactly one way in: `local: true`, `ssh:`, or `container:` together with `node:`. A container
    with an SSH server of its own has both `ssh:` and `node:`: it is reached by SSH, and the node
    is asked about the GPUs.
    """

    alternatives = (("local",), ("ssh",), ("container",))

    name: str = Field(pattern=NAME)
    """The host's name in reports and for `--host`; in a host file the file's own when absent."""
    description: str = ""
    """A line about the host for `deployctl profile list`."""
    local: bool = False
    """It is this machine, without SSH."""
    ssh: SshSettings | None = None
    """How to reach it by SSH."""
    container: ContainerSettings | None = None
    """It is a container, entered through `node`."""
    address: str | None = None
    """Where the other hosts reach it, such as its address in a private network; that of `ssh` when
    absent."""
    interface: str | None = None
    """The network interface that has `address`, for a group; found by the address when absent."""
    node: HostSettings | None = None
    """The machine under a container, such as a Proxmox host; in a file also the name of a host
    file."""
    root: str = ""
    """Directory of everything deployctl keeps there; default /var/lib/deployctl for root,
    ~/.local/share/deployctl for others."""
    python: str = "python3"
    """The Python (3.9 or newer) that runs the agent; `python3` on `local` is deployctl's own."""

    @property
    def way(self) -> str:
        """The key that says how it is reached; `hosts/ways` has a file for each."""
        return next(key for (key,) in self.alternatives if getattr(self, key))

    @property
    def machine(self) -> str:
        """The host's own name, where this is one of several replicas on it."""
        return self.name.partition(SEPARATOR)[0]

    @property
    def replica(self) -> int:
        """Which of the host's replicas this is, counted from 1."""
        return int(self.name.partition(SEPARATOR)[2] or 1)

    @property
    def member_address(self) -> str | None:
        """The IP address at which the other ranks of a group reach it; None where no key has one,
        or only that of the loopback, at which each machine reaches itself."""
        given = self.address or (self.ssh.address if self.ssh is not None else "")
        try:
            address = ip_address(given)
        except ValueError:
            return None
        return None if address.is_loopback or address.is_unspecified else str(address)

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        ways = [self.local, self.ssh is not None, self.container is not None]
        if sum(ways) == 0:
            raise ValueError("give one of local: true, ssh: or container:")
        if self.local and (self.ssh or self.container):
            raise ValueError("local: true excludes ssh: and container:")
        if self.container is not None and self.ssh is not None:
            raise ValueError("give ssh: or container:, not both; node: alone names the node")
        if self.container is not None and self.node is None:
            raise ValueError("a container needs node: the machine it runs on")
        return self
