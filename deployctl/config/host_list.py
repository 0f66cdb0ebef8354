"""A profile's hosts in place of their names: host files, groups and inventories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from deployctl.config.assembly import Assembly, among
from deployctl.config.document import Value, display
from deployctl.config.inventories.interface import EVERY, Inventory, InventoryError, Reader
from deployctl.config.inventories.registry import READERS, read, value
from deployctl.config.origins import Origin

MEMBERS = "members"
"""The key that makes a host file a group."""


class HostList:
    """Puts hosts, groups and nodes in place; `groups` are those that were met, each with the
    names of its hosts.

    Own files come first, beside the file that names them, then where files are searched for; then
    the profile's inventory.
    """

    def __init__(self, assembly: Assembly, readers: Mapping[str, Reader] = READERS) -> None:
        self._assembly = assembly
        self._readers = readers
        self._inventory: Inventory | None = None
        self._given_up: set[Origin] = set()
        self.groups: dict[str, tuple[str, ...]] = {}

    def of_profile(self, tree: Value, beside: Path) -> Value:
        """A profile with its hosts in place; without `hosts`, every host of its inventory.

        May be called again for names that were set since; what was lost is reported once. Names
        from the command line or the environment are looked up in `beside` first.
        """
        tree = self._with_inventory(tree, beside)
        hosts = tree.child("hosts")
        if hosts is None and self._inventory is not None:
            origin = Origin(self._inventory.source)
            hosts = value([EVERY], origin)
        if hosts is None or not hosts.items:
            return tree
        found: list[Value] = []
        for index, host in enumerate(hosts.items):
            members = self._standing_for(host, f"hosts.{index}", beside)
            # A host met again through a group counts once; written twice it is an error.
            grouped = isinstance(host.content, str) and host.content in self.groups
            known = {_name(one) for one in found} if grouped else set()
            found += [member for member in members if _name(member) not in known]
        return tree.with_entry("hosts", replace(hosts, content=tuple(found)))

    def group(self, path: Path) -> Value:
        """A group file with its members in place."""
        tree = self._assembly.document(path)
        members = self._of_group(tree, path.stem, path, MEMBERS, ())
        return tree.with_entry(MEMBERS, replace(tree.entries[MEMBERS], content=tuple(members)))

    def host(self, host: Value, path: str, beside: Path, above: tuple[Path, ...] = ()) -> Value:
        """A host with its file in place of its name, and its node likewise."""
        if isinstance(host.content, str):
            if host.origin in self._given_up:
                return host
            file = self._file(host, beside)
            if file is None:
                self._assembly.lost("profiles/hosts", host, path)
                self._given_up.add(host.origin)
                return host
            if self._circle(host, path, file, above):
                return host
            above = (*above, file)
            host = replace(self._assembly.document(file), key=host.key)
            beside = file.parent.parent if file.parent.name == "hosts" else file.parent
        node = host.child("node")
        if node is None:
            return host
        return host.with_entry("node", self.host(node, f"{path}.node", beside, above))

    def _standing_for(
        self, host: Value, path: str, beside: Path, above: tuple[Path, ...] = ()
    ) -> list[Value]:
        """The hosts that one item stands for: itself, a group's members, or the inventory's."""
        if not isinstance(host.content, str) or host.origin in self._given_up:
            return [self.host(host, path, beside, above)]
        file = self._file(host, beside)
        if file is None:
            return self._from_inventory(host, path, beside)
        tree = self._assembly.document(file)
        if MEMBERS not in tree.entries:
            return [self.host(host, path, beside, above)]
        if self._circle(host, path, file, above):
            return [host]
        return self._of_group(tree, host.content, file, path, above)

    def _of_group(
        self, tree: Value, name: str, file: Path, path: str, above: tuple[Path, ...]
    ) -> list[Value]:
        folder = file.parent.parent if file.parent.name == "hosts" else file.parent
        found: dict[str, Value] = {}
        for index, item in enumerate(tree.entries[MEMBERS].items):
            place = f"{path}.{index}" if path == MEMBERS else f"{path}.{MEMBERS}.{index}"
            for member in self._standing_for(item, place, folder, (*above, file)):
                found.setdefault(_name(member), member)
        self.groups[name] = tuple(found)
        return list(found.values())

    def _from_inventory(self, host: Value, path: str, beside: Path) -> list[Value]:
        inventory, name = self._inventory, str(host.content)
        if inventory is None or not (name in inventory.groups or name in inventory.hosts):
            return [self.host(host, path, beside)]
        self.groups |= {group: tuple(hosts) for group, hosts in inventory.groups.items()}
        names = inventory.groups.get(name, [name])
        origin = Origin(inventory.source)
        return [self.host(value(inventory.hosts[one], origin), path, beside) for one in names]

    def _with_inventory(self, tree: Value, beside: Path) -> Value:
        """Read the inventory, once; its node, where it has one, is put in place."""
        section = tree.child("inventory")
        node = tree.at(("inventory", "proxmox", "node"))
        if section is not None and node is not None:
            resolved = self.host(node, "inventory.proxmox.node", beside)
            proxmox = section.entries["proxmox"].with_entry("node", resolved)
            section = section.with_entry("proxmox", proxmox)
            tree = tree.with_entry("inventory", section)
        if section is None or section.origin in self._given_up:
            return tree
        self._given_up.add(section.origin)
        folder = beside if not section.origin.line else Path(section.origin.source).parent
        try:
            self._inventory = read(section, folder.absolute(), self._readers)
        except InventoryError as error:
            self._assembly.report(section.origin, "inventory", str(error))
        return tree

    def _file(self, host: Value, beside: Path) -> Path | None:
        """A host's file: beside the file that names it, then where it is searched for."""
        files = self._assembly.files
        named_in = next((f for f in files if display(f) == host.origin.source), None)
        folder = named_in.parent if named_in else beside
        folder = folder.parent if folder.name == "hosts" else folder
        return next(self._assembly.candidates("profiles/hosts", str(host.content), folder), None)

    def _circle(self, host: Value, path: str, file: Path, above: tuple[Path, ...]) -> bool:
        if not among(file, above):
            return False
        names = " → ".join(display(item) for item in (*above, file))
        self._assembly.report(host.origin, path, f"circular reference: {names}")
        self._given_up.add(host.origin)
        return True


def _name(host: Value) -> str:
    name = host.child("name")
    return str(host.content if name is None else name.content)
