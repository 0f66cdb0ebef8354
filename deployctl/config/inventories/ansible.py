"""Ansible's inventories of every kind, through the user's own `ansible-inventory --list`.

Its INI form, ranges, group variables and plug-ins are a language of their own, and its library
needs a newer Python than ours; the program prints all of it as one JSON document.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deployctl.config.base import NAME, NAME_RULE
from deployctl.config.inventories.interface import EVERY, Inventory, InventoryError

PROGRAM = "ansible-inventory"
LIMIT = 60.0
"""Seconds for the program; a dynamic inventory may ask a cloud."""
SSH = ("smart", "ssh", "paramiko", "paramiko_ssh", "ansible.builtin.ssh")
LOCAL = ("local", "ansible.builtin.local")
PCT = ("community.general.proxmox_pct_remote", "community.proxmox.proxmox_pct_remote")


def read(path: str, folder: Path) -> Inventory:
    """Every host and group of an inventory's file, folder or script.

    Raises `InventoryError` with Ansible's own words. A file that Ansible does not understand is an
    error here: by itself it would print an empty list and exit with 0.
    """
    place = Path(os.path.normpath(folder / Path(path).expanduser()))
    if not place.exists():
        raise InventoryError(f"there is no inventory {place}")
    document = _listed(place)
    groups = {name: _members(document, name, ()) for name in (EVERY, *document) if name != "_meta"}
    groups[EVERY] = list(dict.fromkeys(host for members in groups.values() for host in members))
    if not groups[EVERY]:
        raise InventoryError(f"{place} has no host")
    variables = document.get("_meta", {}).get("hostvars", {})
    names = {host: _name(host, place) for host in groups[EVERY]}
    hosts = {names[host]: _settings(host, variables.get(host, {})) for host in groups[EVERY]}
    if len(hosts) < len(names):
        raise InventoryError(f"{place}: two hosts have one name but for case")
    in_groups = {name: [names[host] for host in members] for name, members in groups.items()}
    return Inventory(f"inventory {path}", hosts, in_groups)


def _listed(place: Path) -> dict[str, Any]:
    environ = {**os.environ, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true"}
    command = [PROGRAM, "-i", str(place), "--list"]
    try:
        done = subprocess.run(
            command,
            env=environ,
            cwd=place.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT,
        )
    except FileNotFoundError:
        raise InventoryError(f"{PROGRAM} is not installed here: install ansible-core") from None
    except subprocess.TimeoutExpired:
        raise InventoryError(f"{PROGRAM} took longer than {LIMIT:g} s") from None
    words = " ".join(done.stderr.split())[-800:]
    if done.returncode != 0:
        raise InventoryError(f"{PROGRAM} ended with {done.returncode}: {words}")
    try:
        document = json.loads(done.stdout)
    except ValueError as error:
        raise InventoryError(f"{PROGRAM} printed no JSON: {error}") from error
    if not isinstance(document, dict):
        raise InventoryError(f"{PROGRAM} printed no object")
    return document


def _members(document: Mapping[str, Any], name: str, above: tuple[str, ...]) -> list[str]:
    """A group's hosts in their order, those of its children too."""
    group = document.get(name) or {}
    found = list(group.get("hosts") or ())
    for child in group.get("children") or ():
        if child not in above:
            found += _members(document, child, (*above, name))
    return list(dict.fromkeys(found))


def _name(host: str, place: Path) -> str:
    name = host.lower()
    if not re.fullmatch(NAME, name):
        raise InventoryError(f"{place}: host {host}: a name has {NAME_RULE}")
    return name


def _settings(host: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """One host's settings; refuses what deployctl would silently do otherwise."""
    for name, value in variables.items():
        if name.startswith("ansible_") and "{{" in str(value):
            raise InventoryError(f"host {host}: {name} is a template, which is not rendered here")
    if str(variables.get("ansible_become", "")).lower() in ("true", "yes", "1"):
        raise InventoryError(f"host {host}: ansible_become is unsupported: name a user that may")
    connection = str(variables.get("ansible_connection", "ssh"))
    settings: dict[str, Any] = {"name": host.lower()}
    if connection in LOCAL:
        settings["local"] = True
    elif connection in SSH:
        settings["ssh"] = _ssh(host, variables)
    elif connection in PCT:
        node = _ssh(host, variables)
        settings["container"] = {"id": str(variables.get("proxmox_vmid", ""))}
        settings["node"] = {"name": str(node["address"]).lower(), "ssh": node}
    else:
        raise InventoryError(f"host {host}: connection {connection} is unsupported")
    python = str(variables.get("ansible_python_interpreter", "auto"))
    if not python.startswith("auto"):
        settings["python"] = python
    return settings


def _ssh(host: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    def first(*names: str) -> Any:
        return next((variables[name] for name in names if variables.get(name)), None)

    port = first("ansible_port", "ansible_ssh_port")
    found = {
        "address": first("ansible_host", "ansible_ssh_host") or host,
        "user": first("ansible_user", "ansible_ssh_user"),
        "port": int(port) if str(port or "").isdecimal() else port,
        "identity_file": first("ansible_ssh_private_key_file", "ansible_private_key_file"),
        **dict(_arguments(host, variables)),
    }
    if first("ansible_password", "ansible_ssh_pass", "ansible_ssh_password"):
        raise InventoryError(f"host {host}: a password is unsupported: use a key")
    return {name: value for name, value in found.items() if value is not None}


def _arguments(host: str, variables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The options of ssh that a host file can say, too; any other is refused by name."""
    for variable in ("ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_args"):
        words = iter(shlex.split(str(variables.get(variable) or "")))
        for word in words:
            option = word if len(word) == 2 else word[:2]
            value = word[2:] or next(words, "")
            key, _, content = value.partition("=")
            if option == "-F":
                yield "config_file", value
            elif option == "-i":
                yield "identity_file", value
            elif option == "-o" and key.lower() == "userknownhostsfile":
                yield "known_hosts", content
            elif not (option == "-o" and key.lower() in _HARMLESS):
                raise InventoryError(
                    f"host {host}: {variable}: {word} {value if word == option else ''}".rstrip()
                    + " is unsupported: put it into your ssh_config"
                )


_HARMLESS = ("controlmaster", "controlpersist", "controlpath")
"""Options about sharing connections: they change neither the way nor whom to trust."""
