"""A cluster's containers, asked of a node by a real agent; `pvesh` itself is a stand-in."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from deployctl.config.inventories.interface import InventoryError
from deployctl.config.inventory import ProxmoxInventory
from deployctl.engine.inspect.proxmox import read

ROW = {"type": "lxc", "vmid": 129, "name": "ct", "status": "running", "tags": "gpu"}


def settings(root: Path, **wanted: str) -> ProxmoxInventory:
    node = {"name": "node", "local": True, "root": str(root)}
    return ProxmoxInventory.model_validate({"node": node, **wanted})


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (folder / "pvesh").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "pvesh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_running_containers_with_a_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = socket.gethostname().partition(".")[0]
    wanted = 'test "$*" = "get /cluster/resources --type vm --output-format json" || exit 9'
    rows = json.dumps([{**ROW, "node": here}, {**ROW, "vmid": 130, "tags": ""}])
    stand_in(tmp_path, monkeypatch, f"{wanted}\necho '{rows}'")
    found = read(settings(tmp_path / "root", tag="gpu"), tmp_path)
    assert found.hosts["ct"]["container"] == {"id": "129"}
    assert found.hosts["ct"]["node"]["name"] == "node"
    with pytest.raises(InventoryError, match="no running container with tag cpu"):
        read(settings(tmp_path / "root", tag="cpu"), tmp_path)


def test_a_refusal_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "echo 'permission denied' >&2; exit 2")
    with pytest.raises(InventoryError, match="pvesh ended with 2: permission denied"):
        read(settings(tmp_path / "root"), tmp_path)
