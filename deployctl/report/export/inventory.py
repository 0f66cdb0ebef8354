"""An Ansible inventory in its YAML form, from a profile's hosts."""

from __future__ import annotations

from typing import Any

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.report.export.interface import dump


def render(profile: Profile) -> str:
    """One group, named by the profile, with the variables by which Ansible reaches each host."""
    group = profile.name.replace("-", "_").replace(".", "_")
    hosts = {host.name: _variables(host) for host in profile.hosts}
    return dump({"all": {"children": {group: {"hosts": hosts}}}})


def _variables(host: HostSettings) -> dict[str, Any]:
    if host.local:
        return {"ansible_connection": "local"}
    if host.container is not None and host.node is not None:
        return _container(host, host.node)
    return _ssh(host)


def _ssh(host: HostSettings) -> dict[str, Any]:
    assert host.ssh is not None
    found: dict[str, Any] = {
        "ansible_host": host.ssh.address,
        "ansible_user": host.ssh.user,
        "ansible_port": host.ssh.port,
        "ansible_ssh_private_key_file": host.ssh.identity_file,
    }
    more = []
    if host.ssh.config_file:
        more.append(f"-F {host.ssh.config_file}")
    if host.ssh.known_hosts:
        more.append(f"-o UserKnownHostsFile={host.ssh.known_hosts}")
    found["ansible_ssh_common_args"] = " ".join(more) or None
    return {name: value for name, value in found.items() if value is not None}


def _container(host: HostSettings, node: HostSettings) -> dict[str, Any]:
    """A container is entered through its node, by the plug-in that runs `pct` there."""
    assert host.container is not None
    reached = _ssh(node) if node.ssh is not None else {}
    return {
        **reached,
        "ansible_connection": "community.proxmox.proxmox_pct_remote",
        "proxmox_vmid": host.container.id,
    }
