"""Where a profile's hosts come from besides host files."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from deployctl.config.base import Settings
from deployctl.config.host import HostSettings


class ProxmoxInventory(Settings):
    """Running containers of a Proxmox cluster, as `pvesh` on one of its nodes lists them."""

    node: HostSettings
    """A node of the cluster: a host file's name, or the settings in place."""
    tag: str | None = Field(default=None, min_length=1)
    """Only containers with this tag."""
    pool: str | None = Field(default=None, min_length=1)
    """Only containers of this pool."""


class InventorySettings(Settings):
    """Exactly one of `ansible` and `proxmox`."""

    alternatives = (("ansible",), ("proxmox",))

    ansible: str | None = None
    """An inventory file, folder or script of Ansible; a path counts from the profile."""
    proxmox: ProxmoxInventory | None = None
    """Containers of a Proxmox cluster."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [name for name in ("ansible", "proxmox") if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) if given else "none"
            raise ValueError(f"give exactly one of ansible, proxmox; found {found}")
        return self


class GroupSettings(Settings):
    """A group file, `profiles/hosts/NAME.yaml` with `members:` in place of a way in."""

    name: str
    """The group's name, by which profiles and `--limit` name it; the file's when absent."""
    description: str = ""
    """A line about the group for `deployctl profile list`."""
    members: list[HostSettings] = Field(min_length=1)
    """Names of host files and of other groups, or hosts in place."""
