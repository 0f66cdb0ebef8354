"""Groups of hosts, and hosts from the inventories of Ansible and Proxmox."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deployctl.config.catalogue import check, entries
from deployctl.config.inventories import ansible
from deployctl.config.inventories.interface import Inventory, InventoryError
from deployctl.config.inventory import ProxmoxInventory
from deployctl.config.loader import load_host, load_profile
from deployctl.config.show import as_yaml
from deployctl.engine.inspect.proxmox import select
from deployctl.errors import ConfigError, UsageError
from tests.unit.config.conftest import SMALLEST, Folder

BARE = SMALLEST.partition("\n")[2]
"""The smallest profile without its hosts."""


def hosts_of(folder: Folder, text: str) -> list[str]:
    folder.write("work/profiles/p.yaml", text + "\n" + BARE)
    return [host.name for host in folder.load("p").profile.hosts]


@pytest.fixture
def racks(folder: Folder) -> Folder:
    for name in ("a", "b", "c"):
        folder.write(f"work/profiles/hosts/{name}.yaml", f"ssh: {{address: {name}.example}}\n")
    folder.write("work/profiles/hosts/rack1.yaml", "members: [a, b]\n")
    folder.write("work/profiles/hosts/both.yaml", "members: [rack1, c, a]\n")
    return folder


def test_a_group_stands_for_its_members(racks: Folder) -> None:
    assert hosts_of(racks, "hosts: [rack1]") == ["a", "b"]
    assert hosts_of(racks, "hosts: [both]") == ["a", "b", "c"]
    assert hosts_of(racks, "hosts: [a, both]") == ["a", "b", "c"]
    loaded = racks.load("p")
    assert loaded.groups == {"both": ("a", "b", "c"), "rack1": ("a", "b")}


def test_hosts_in_place_in_a_group(racks: Folder) -> None:
    text = "members: [{name: x, local: true}, a]\n"
    racks.write("work/profiles/hosts/mixed.yaml", text)
    assert hosts_of(racks, "hosts: [mixed]") == ["x", "a"]


def test_a_host_written_twice_stays_a_mistake(racks: Folder) -> None:
    with pytest.raises(ConfigError, match="invalid"):
        hosts_of(racks, "hosts: [a, a]")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("[round]", "members.0: circular reference: "),
        ("[rack1, nobody]", "no host is named nobody"),
        ("[]", "hosts"),
    ],
)
def test_groups_that_cannot_be(racks: Folder, members: str, message: str) -> None:
    racks.write("work/profiles/hosts/round.yaml", f"members: {members}\n")
    with pytest.raises(ConfigError) as caught:
        hosts_of(racks, "hosts: [round]")
    assert message in caught.value.why


def test_a_group_file_is_validated_as_one_and_is_no_host(racks: Folder) -> None:
    racks.write("work/profiles/hosts/odd.yaml", "members: [a, lost]\ncolour: red\n")
    verdicts = {entry.name: check(entry, {}, racks.search) for entry in entries(racks.search)}
    assert verdicts["rack1"] == "" and verdicts["a"] == ""
    assert "colour" in verdicts["odd"] and "lost" in verdicts["odd"]
    with pytest.raises(UsageError, match="rack1 is a group"):
        load_host("rack1", search=racks.search)


ANSIBLE = {
    "_meta": {
        "hostvars": {
            "GPU01": {"ansible_host": "10.0.0.1", "ansible_user": "root", "ansible_port": 2222},
            "here": {
                "ansible_connection": "local",
                "ansible_python_interpreter": "/opt/python3",
            },
            "ct": {
                "ansible_connection": "community.proxmox.proxmox_pct_remote",
                "ansible_host": "pve1",
                "ansible_user": "root",
                "proxmox_vmid": 129,
            },
            "far": {"ansible_ssh_common_args": "-F conf -o ControlMaster=auto"},
        }
    },
    "all": {"children": ["gpu", "ungrouped"]},
    "gpu": {"children": ["rack"], "hosts": ["GPU01"]},
    "rack": {"hosts": ["ct", "far"]},
    "ungrouped": {"hosts": ["here"]},
}


@pytest.fixture
def program(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in for ansible-inventory that prints a document and exits with a code."""

    def make(document: Any, code: int = 0, words: str = "") -> None:
        (folder.root / "answer").write_text(
            document if isinstance(document, str) else json.dumps(document)
        )
        script = folder.write(
            "bin/ansible-inventory",
            f"#!/bin/sh\necho '{words}' >&2\ncat {folder.root}/answer\nexit {code}\n",
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
        folder.write("work/profiles/hosts.ini", "")

    return make


def test_an_ansible_inventory(folder: Folder, program: Any) -> None:
    program(ANSIBLE)
    text = "inventory: {ansible: hosts.ini}"
    assert hosts_of(folder, text) == ["gpu01", "ct", "far", "here"]
    hosts = {host.name: host for host in folder.load("p").profile.hosts}
    ssh = hosts["gpu01"].ssh
    assert ssh is not None and (ssh.address, ssh.user, ssh.port) == ("10.0.0.1", "root", 2222)
    assert hosts["here"].local and hosts["here"].python == "/opt/python3"
    container, node = hosts["ct"].container, hosts["ct"].node
    assert container is not None and container.id == "129"
    assert node is not None and node.ssh is not None and node.ssh.address == "pve1"
    far = hosts["far"].ssh
    assert far is not None and (far.address, far.config_file) == ("far", "conf")
    assert hosts_of(folder, text + "\nhosts: [gpu]") == ["gpu01", "ct", "far"]
    assert hosts_of(folder, text + "\nhosts: [here, rack]") == ["here", "ct", "far"]
    assert "# inventory hosts.ini" in as_yaml(folder.load("p"), with_origin=True)


@pytest.mark.parametrize(
    ("document", "code", "words", "message"),
    [
        ({"_meta": {"hostvars": {}}, "all": {"children": ["ungrouped"]}}, 0, "", "has no host"),
        ("", 1, "Unable to parse hosts.ini", "ended with 1: Unable to parse"),
        ("[]", 0, "", "printed no object"),
        ("nothing", 0, "", "printed no JSON"),
    ],
)
def test_an_inventory_that_cannot_be_read(
    folder: Folder, program: Any, document: Any, code: int, words: str, message: str
) -> None:
    program(document, code, words)
    with pytest.raises(ConfigError) as caught:
        hosts_of(folder, "inventory: {ansible: hosts.ini}")
    assert message in caught.value.why and "profiles/p.yaml:1" in caught.value.why


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"ansible_host": "{{ address }}"}, "ansible_host is a template"),
        ({"ansible_become": True}, "ansible_become is unsupported"),
        ({"ansible_connection": "winrm"}, "connection winrm is unsupported"),
        ({"ansible_ssh_common_args": "-o ProxyJump=bastion"}, "ProxyJump=bastion is unsupported"),
        ({"ansible_password": "canary"}, "a password is unsupported"),
    ],
)
def test_what_would_silently_be_done_otherwise_is_refused(
    folder: Folder, program: Any, variables: dict[str, Any], message: str
) -> None:
    program({"_meta": {"hostvars": {"x": variables}}, "all": {"hosts": ["x"]}})
    with pytest.raises(InventoryError, match=message) as caught:
        ansible.read("hosts.ini", folder.work / "profiles")
    assert "canary" not in str(caught.value)


def test_a_missing_file_and_a_missing_program(folder: Folder, monkeypatch: Any) -> None:
    with pytest.raises(InventoryError, match="there is no inventory"):
        ansible.read("none.ini", folder.work)
    folder.write("work/hosts.ini", "")
    monkeypatch.setenv("PATH", str(folder.root))
    with pytest.raises(InventoryError, match="install ansible-core"):
        ansible.read("hosts.ini", folder.work)


def guest(vmid: int, name: str, tags: str, **more: Any) -> dict[str, Any]:
    usual = {"type": "lxc", "node": "pve1", "status": "running", "template": 0}
    return {"vmid": vmid, "name": name, "tags": tags, **usual, **more}


ROWS = [
    guest(130, "Web", "prod"),
    guest(129, "CT129", "GPU;prod", pool="ml"),
    guest(131, "ct129", "gpu", node="pve2"),
    guest(132, "off", "gpu", status="stopped"),
    guest(133, "vm", "gpu", type="qemu"),
    guest(134, "t", "gpu", template=1),
]
NODE = {"name": "node", "ssh": {"address": "pve1.example"}}


def proxmox(**wanted: Any) -> Inventory:
    settings = ProxmoxInventory.model_validate({"node": NODE, **wanted})
    return select({"hostname": "pve1", "rows": ROWS}, settings)


def test_a_proxmox_cluster() -> None:
    found = proxmox(tag="gpu")
    assert list(found.hosts) == ["ct129", "ct129-131"]
    assert found.hosts["ct129"] == {"name": "ct129", "container": {"id": "129"}, "node": NODE}
    assert found.hosts["ct129-131"]["node"] == "pve2"
    assert found.groups["gpu"] == ["ct129", "ct129-131"]
    assert list(proxmox(pool="ml").hosts) == ["ct129"]
    assert list(proxmox().hosts) == ["ct129", "web", "ct129-131"]
    assert proxmox(tag="none").hosts == {}


def test_a_profile_over_a_proxmox_cluster(folder: Folder) -> None:
    folder.write("work/profiles/hosts/pve.yaml", "ssh: {address: pve1.example}\n")
    folder.write("work/profiles/hosts/pve2.yaml", "ssh: {address: pve2.example}\n")
    folder.write("work/profiles/p.yaml", "inventory: {proxmox: {node: pve, tag: gpu}}\n" + BARE)

    def reader(settings: ProxmoxInventory, where: Path) -> Inventory:
        assert settings.node.ssh is not None and settings.node.ssh.address == "pve1.example"
        return select({"hostname": "pve1", "rows": ROWS}, settings)

    loaded = load_profile("p", environ={}, search=folder.search, readers={"proxmox": reader})
    nodes = [host.node.name for host in loaded.profile.hosts if host.node]
    assert nodes == ["pve", "pve2"]
