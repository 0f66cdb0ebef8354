"""The inventory of a profile's `inventory:` section, by the kind that it names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from deployctl.config.document import Value
from deployctl.config.inventories import ansible
from deployctl.config.inventories.interface import Inventory, Reader
from deployctl.config.inventory import InventorySettings
from deployctl.config.origins import Origin
from deployctl.config.shape import fitted

READERS: Mapping[str, Reader] = {"ansible": ansible.read}
"""Those that need no connection; the caller brings the others."""


def read(section: Value, folder: Path, readers: Mapping[str, Reader]) -> Inventory | None:
    """The inventory that a section names; None where the section is invalid, which validation
    reports, and where no reader of its kind was brought. Raises `InventoryError`."""
    try:
        settings = InventorySettings.model_validate(fitted(section, InventorySettings).plain())
    except ValidationError:
        return None
    for kind in (names[0] for names in InventorySettings.alternatives):
        given, reader = getattr(settings, kind), readers.get(kind)
        if given is not None and reader is not None:
            return reader(given, folder)
    return None


def value(data: Any, origin: Origin) -> Value:
    """Plain data as a document's value; all of it comes from one place."""
    if isinstance(data, Mapping):
        return Value({str(key): value(child, origin) for key, child in data.items()}, origin)
    if isinstance(data, list | tuple):
        return Value(tuple(value(child, origin) for child in data), origin)
    return Value(data, origin)
