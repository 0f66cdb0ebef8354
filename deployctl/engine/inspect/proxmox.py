"""A Proxmox cluster's running containers as an inventory, asked of one of its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from deployctl.config.base import NAME
from deployctl.config.inventories.interface import EVERY, Inventory, InventoryError, Reader
from deployctl.config.inventories.registry import READERS
from deployctl.config.inventory import ProxmoxInventory
from deployctl.errors import DeployError, RemoteError
from deployctl.hosts.operations import modules
from deployctl.hosts.session import Session
from deployctl.hosts.transports import transport


def readers() -> Mapping[str, Reader]:
    """Every kind of inventory, those that need a connection too."""
    return {**READERS, "proxmox": read}


def read(settings: ProxmoxInventory, folder: Path) -> Inventory:
    """The running containers with the wanted tag or pool; raises `InventoryError`."""
    node = settings.node
    source = resources.files("deployctl.engine.inspect").joinpath("pvesh.py").read_text("utf-8")
    try:
        with Session(transport(node), root=node.root, python=node.python) as session:
            answer = session.call(modules.run, source=source, function="resources")
    except RemoteError as error:
        raise InventoryError(f"node {node.name}: pvesh: {error}") from error
    except DeployError as error:
        raise InventoryError(f"node {node.name}: {error.what}: {error.why}") from error
    if answer["error"]:
        raise InventoryError(f"node {node.name}: {answer['error']}")
    found = select(answer, settings)
    if not found.hosts:
        wanted = [
            f"{word} {value}"
            for word, value in (("tag", settings.tag), ("pool", settings.pool))
            if value
        ]
        condition = f" with {' and '.join(wanted)}" if wanted else ""
        raise InventoryError(f"node {node.name} lists no running container{condition}")
    return found


def select(answer: Mapping[str, Any], settings: ProxmoxInventory) -> Inventory:
    """The inventory of what a node answered: its `hostname`, and `rows` as `pvesh get
    /cluster/resources --type vm` prints them."""
    hosts: dict[str, dict[str, Any]] = {}
    groups: dict[str, list[str]] = {EVERY: []}
    asked = settings.node.model_dump(exclude_unset=True)
    rows = [row for row in answer["rows"] if _wanted(row, settings)]
    for row in sorted(rows, key=lambda row: int(row["vmid"])):
        name = _name(row, hosts)
        here = row.get("node") == answer["hostname"]
        hosts[name] = {
            "name": name,
            "container": {"id": str(row["vmid"])},
            "node": asked if here else str(row.get("node")),
        }
        for group in dict.fromkeys([EVERY, *_tags(row), *_pool(row)]):
            groups.setdefault(group, []).append(name)
    return Inventory(f"inventory proxmox {settings.node.name}", hosts, groups)


def _wanted(row: Mapping[str, Any], settings: ProxmoxInventory) -> bool:
    running = row.get("type") == "lxc" and row.get("status") == "running"
    template = str(row.get("template", 0)) in ("1", "True", "true")
    tagged = settings.tag is None or settings.tag.lower() in _tags(row)
    pooled = settings.pool is None or settings.pool == row.get("pool")
    return running and not template and tagged and pooled


def _tags(row: Mapping[str, Any]) -> list[str]:
    """Proxmox keeps tags as one string; it writes `;` and takes `,` and blanks as well."""
    return [tag.lower() for tag in re.split(r"[;,\s]+", str(row.get("tags") or "")) if tag]


def _pool(row: Mapping[str, Any]) -> Iterable[str]:
    return [str(row["pool"])] if row.get("pool") else []


def _name(row: Mapping[str, Any], taken: Mapping[str, Any]) -> str:
    """A container's name where it can be one of ours and is free, else with its number."""
    name = str(row.get("name") or "").lower()
    if not re.fullmatch(NAME, name):
        name = f"ct{row['vmid']}"
    return name if name not in taken else f"{name}-{row['vmid']}"
