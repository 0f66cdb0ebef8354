"""What of the user's ssh_config is honoured, harmless or refused for a host, without connecting."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from deployctl.config.host import HostSettings, SshSettings
from deployctl.config.loader import list_hosts, load_host
from deployctl.config.search import is_path
from deployctl.config.ssh_address import FORMS, SCHEME
from deployctl.errors import UsageError
from deployctl.hosts import known_hosts, ssh_options
from deployctl.hosts.ssh_config import defaults, resolve

SCHEMA = "deployctl.host/1"


def explain(name: str, config_file: str | None) -> dict[str, Any]:
    """Each way by SSH to a host: a host file's, its node's, or that of any name given to `ssh`.

    `way` is `deployctl` for a connection of our own, `ssh` where the program is the transport and
    `refused` where the host is not even tried; `because` names the options that decide.
    """
    ways = [_way(label, settings) for label, settings in _settings(name, config_file)]
    return {"schema": SCHEMA, "host": name, "ways": ways}


def _settings(name: str, config_file: str | None) -> list[tuple[str, SshSettings]]:
    known = {found.name for found in list_hosts()}
    if name.startswith(SCHEME) or (name not in known and not is_path(name)):
        try:
            return [(name, SshSettings(address=name, config_file=config_file))]
        except ValidationError as error:
            raise UsageError(f"invalid host {name}: write {FORMS}") from error
    found: list[tuple[str, SshSettings]] = []
    host: HostSettings | None = load_host(name)
    while host is not None:
        if host.ssh is not None:
            changed = {"config_file": config_file} if config_file else {}
            found.append((host.name, host.ssh.model_copy(update=changed)))
        host = host.node
    return found


def _way(label: str, settings: SshSettings) -> dict[str, Any]:
    endpoint = resolve(label, settings)
    judged = ssh_options.judge(endpoint.options, defaults())
    refused, beyond = ssh_options.refused(judged), ssh_options.beyond(judged)
    authorities = known_hosts.authorities(endpoint)
    because = [f"{one.option} {one.value}: {one.why}" for one in refused or beyond]
    if not refused:
        because += [f"{place}: paramiko takes no host certificate" for place in authorities]
    way = "refused" if refused else "ssh" if because else "deployctl"
    return {
        "host": label,
        "address": settings.address,
        "hostname": endpoint.hostname,
        "port": endpoint.port,
        "user": endpoint.user,
        "jumps": list(endpoint.jumps),
        "way": way,
        "because": because,
        "options": [one.tell() for one in judged],
    }
