"""What an inventory is, and how one that cannot be used says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EVERY = "all"
"""The group of all hosts."""


@dataclass(frozen=True)
class Inventory:
    """Hosts as host files would have them, by name, and groups of their names.

    `source` says for people where they come from.
    """

    source: str
    hosts: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, Sequence[str]]


class InventoryError(Exception):
    """An inventory cannot be read, or has a host that cannot be reached as it says."""


Reader = Callable[[Any, Path], Inventory]
"""Reads one kind of inventory: its settings, and the folder that relative paths count from.
Raises `InventoryError`."""
