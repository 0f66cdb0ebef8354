from __future__ import annotations

import pkgutil
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, get_args

import pytest

from deployctl.config.host import ContainerSettings, HostSettings
from deployctl.hosts import ways
from deployctl.hosts.interface import Transport
from deployctl.hosts.transports import node_transport, transport
from deployctl.hosts.ways.container import PROGRAMS, ContainerTransport
from deployctl.hosts.ways.local import LocalTransport
from deployctl.hosts.ways.ssh import SshTransport

NODE = {"name": "pve", "ssh": {"address": "pve"}}


@pytest.mark.parametrize(
    ("settings", "kind", "node"),
    [
        ({"local": True}, LocalTransport, None),
        ({"ssh": {"address": "gpu"}}, SshTransport, None),
        ({"ssh": {"address": "gpu"}, "node": NODE}, SshTransport, "pve"),
        ({"container": {"id": "129"}, "node": NODE}, ContainerTransport, "pve"),
        (
            {"container": {"id": "129"}, "node": {"name": "here", "local": True}},
            ContainerTransport,
            "here",
        ),
    ],
)
def test_the_way_to_a_host_and_its_node(
    settings: dict[str, Any], kind: type[Transport], node: str | None
) -> None:
    host = HostSettings(name="gpu", **settings)
    way, under = transport(host), node_transport(host)
    assert isinstance(way, kind) and way.name == "gpu"
    assert (under.name if under is not None else None) == node


def test_a_way_is_a_file_that_a_key_of_a_host_file_names(monkeypatch: pytest.MonkeyPatch) -> None:
    class Exec(HostSettings):
        """A host file with one key more."""

        alternatives = (*HostSettings.alternatives, ("docker",))  # type: ignore[assignment]
        docker: str | None = None

    reached: list[HostSettings] = []

    def way(host: Exec, reach: Callable[[HostSettings | None], Transport]) -> Transport:
        reached.append(host)
        return reach(host.node)

    file = ModuleType("deployctl.hosts.ways.docker")
    monkeypatch.setattr(file, "way", way, raising=False)
    monkeypatch.setitem(sys.modules, file.__name__, file)
    node = HostSettings(name="node", local=True)
    host = Exec.model_construct(name="gpu", docker="vllm", node=node)
    assert isinstance(transport(host), LocalTransport) and reached == [host]


def test_every_way_of_a_host_file_has_its_file() -> None:
    files = {name for _, name, _ in pkgutil.iter_modules(ways.__path__)}
    assert {key for (key,) in HostSettings.alternatives} <= files


def test_every_program_that_a_host_file_may_name_enters_a_container() -> None:
    assert {*get_args(ContainerSettings.model_fields["via"].annotation)} == {*PROGRAMS}


def test_a_local_host_needs_no_ssh_library() -> None:
    script = (
        "import sys; from deployctl.config.host import HostSettings; "
        "from deployctl.hosts.transports import transport; "
        "transport(HostSettings(name='x', local=True)); "
        "print(sorted({'paramiko', 'fabric', 'invoke'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
