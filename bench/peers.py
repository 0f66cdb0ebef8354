"""What finding nothing to do costs on many hosts, beside other programs that keep hosts as wanted.

    python bench/peers.py --peers VENV [--hosts 1,5,10,20] [--repeats 3] [--delay 0.04]

VENV is an environment with ansible-core, mitogen and pyinfra. Every host is an sshd of its own on
this machine that serves a stand-in for vLLM. Each program is asked, in turn, whether its hosts are
as wanted: deployctl by `up`, which finds nothing to do; the others by what somebody would write by
hand for the same server: the environment's Python and the model are there, the drafter's
config.json has the wanted content, the port listens, /health answers. Ansible runs with pipelining,
a connection that is kept and as many forks as hosts, pyinfra with as many connections. The floor is
one paramiko script that runs `true` on each host at once.

`--delay` holds back what goes through each host's port, in seconds there and back. One JSON
document: medians in seconds of wall time and of processor time, here and on the hosts, and how
often the floor and deployctl go into each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.many_hosts import FLOOR, hosts, seconds
from tests.hosts.lab.ports import free_port
from tests.hosts.served.many import ManyHosts

CONFIG = '{"architectures": ["DFlashDraftModel"]}\n'
PLAYBOOK = """\
- hosts: all
  gather_facts: false
  tasks:
    - name: environment
      stat: {path: "{{ root }}/python"}
      register: python
      failed_when: not python.stat.exists
    - name: model
      stat: {path: "{{ root }}/model"}
      register: model
      failed_when: not model.stat.exists
    - {name: drafter, copy: {src: config.json, dest: "{{ root }}/model/config.json"}}
    - {name: port, wait_for: {host: 127.0.0.1, port: "{{ port }}", timeout: 10}}
    - {name: health, uri: {url: "http://127.0.0.1:{{ port }}/health"}}
"""
DEPLOY = """\
from pyinfra import host
from pyinfra.operations import files, server
root, port = host.data.checked, host.data.serves
files.link(name="environment", path=f"{root}/python", target="/usr/bin/python3")
files.directory(name="model", path=f"{root}/model")
files.put(name="drafter", src="config.json", dest=f"{root}/model/config.json")
ask = "import sys, urllib.request as u; u.urlopen(sys.argv[1])"
server.shell(
    name="health", commands=[f"/usr/bin/python3 -c '{ask}' http://127.0.0.1:{port}/health"]
)
"""


class Delayed:
    """A port in front of another one that holds back every piece by half of a round trip."""

    def __init__(self, port: int, delay: float) -> None:
        self.behind, self.delay = port, delay
        self.port = free_port()
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(asyncio.start_server(self._take, "127.0.0.1", self.port))
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", self.behind)
        await asyncio.gather(self._pass(reader, forth), self._pass(back, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def write() -> None:
            while True:
                at, piece = await due.get()
                await asyncio.sleep(max(0.0, at - self._loop.time()))
                if not piece:
                    writer.close()
                    return
                writer.write(piece)

        task = asyncio.ensure_future(write())
        piece = b"-"
        while piece:
            try:
                piece = await reader.read(1 << 16)
            except OSError:
                piece = b""
            due.put_nowait((self._loop.time() + self.delay / 2, piece))
        await task


def delayed(many: ManyHosts, delay: float) -> None:
    """From now on every host is reached through a slow port."""
    for machine in many.machines:
        near, machine.sshd.port = machine.sshd.port, Delayed(machine.sshd.port, delay).port
        keys = Path(machine.sshd.settings()["known_hosts"])
        keys.write_text(keys.read_text().replace(f"]:{near} ", f"]:{machine.sshd.port} "))
    known = [{**m.host_settings(), "python": "/usr/bin/python3"} for m in many.machines]
    many.write_hosts(known)


def write(many: ManyHosts, folder: Path) -> None:
    """Inventories, and what the other programs check; brought to the hosts by a first run."""
    (folder / "config.json").write_text(CONFIG)
    (folder / "site.yaml").write_text(PLAYBOOK)
    (folder / "deploy.py").write_text(DEPLOY)
    ansible, pyinfra = {}, []
    for machine in many.machines:
        ssh = machine.sshd.settings()
        checked = machine.root / "checked"
        (checked / "model").mkdir(parents=True)
        (checked / "python").symlink_to("/usr/bin/python3")
        data = {"ssh_hostname": ssh["address"], "ssh_port": ssh["port"], "ssh_user": ssh["user"]}
        data |= {"ssh_key": ssh["identity_file"], "ssh_known_hosts_file": ssh["known_hosts"]}
        pyinfra.append((machine.name, {**data, "checked": str(checked), "serves": many.port}))
        ansible[machine.name] = {
            "ansible_host": ssh["address"],
            "ansible_port": ssh["port"],
            "ansible_user": ssh["user"],
            "ansible_ssh_private_key_file": ssh["identity_file"],
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={ssh['known_hosts']}",
            "ansible_python_interpreter": "/usr/bin/python3",
            "root": str(checked),
            "port": many.port,
        }
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": ansible}}))
    (folder / "inventory.py").write_text(f"hosts = {pyinfra!r}\n")


def commands(many: ManyHosts, peers: Path, folder: Path) -> dict[str, tuple[list[str], str]]:
    """A command line and its input by name."""
    count = str(len(many.machines))
    ansible = [str(peers / "bin/ansible-playbook"), "-i", "hosts.json", "-f", count, "site.yaml"]
    up = [sys.executable, "-m", "deployctl", "up", "-p", str(many.profile_file), "--json"]
    pyinfra = [str(peers / "bin/pyinfra"), "-y", "--parallel", count, "inventory.py", "deploy.py"]
    reach = json.dumps([machine.sshd.settings() for machine in many.machines])
    strategies = next(peers.glob("lib/python*/site-packages/ansible_mitogen/plugins/strategy"))
    mitogen = [f"ANSIBLE_STRATEGY_PLUGINS={strategies}", "ANSIBLE_STRATEGY=mitogen_linear"]
    there = ["env", f"--chdir={folder}"]
    return {
        "floor": ([sys.executable, "-c", FLOOR], reach),
        "deployctl": ([*up, "--quiet"], ""),
        "ansible": ([*there, *ansible], ""),
        "ansible with mitogen": ([*there, *mitogen, *ansible], ""),
        "pyinfra": ([*there, *pyinfra], ""),
    }


def measure(count: int, given: argparse.Namespace) -> dict[str, Any]:
    """Medians of each on so many hosts."""
    with hosts(count, True, "/usr/bin/python3") as many:
        if given.delay:
            delayed(many, given.delay)
        folder = many.directory / "peers"
        folder.mkdir()
        write(many, folder)
        environment = {
            **os.environ,
            "XDG_STATE_HOME": str(many.directory / "state"),
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s",
            "ANSIBLE_HOME": str(folder / "ansible"),
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }
        asked = commands(many, given.peers.absolute(), folder)
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in asked}
        for number in range(given.repeats + 1):
            for name, (argv, text) in asked.items():
                one = seconds(many, argv, environment, text)
                # The first brings what is to be found from then on.
                took[name] += [one] if number else []
    return {
        "hosts": count,
        **{
            kind: compared({name: [one[i] for one in values] for name, values in took.items()})
            for i, kind in enumerate(("wall", "processor"))
        },
    }


def compared(took: dict[str, list[float]]) -> dict[str, Any]:
    """Medians in seconds, and how often the floor and deployctl go into each."""
    medians = {name: statistics.median(values) for name, values in took.items()}
    return {
        "seconds": {name: round(value, 2) for name, value in medians.items()},
        "of floor": {n: round(v / medians["floor"], 2) for n, v in medians.items()},
        "of deployctl": {n: round(v / medians["deployctl"], 2) for n, v in medians.items()},
    }


def versions(peers: Path) -> dict[str, str]:
    """What is compared."""
    program = "from importlib.metadata import version as v; print(*map(v, {!r}))"
    names = ("ansible-core", "mitogen", "pyinfra", "paramiko")
    argv = [str(peers / "bin/python"), "-c", program.format(names)]
    return dict(zip(names, subprocess.check_output(argv, text=True).split(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=Path, required=True)
    parser.add_argument("--hosts", default="1,5,10,20")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--delay", type=float, default=0.0)
    given = parser.parse_args()
    found = [measure(int(count), given) for count in given.hosts.split(",")]
    print(json.dumps({"versions": versions(given.peers), "measured": found}, indent=1))


if __name__ == "__main__":
    main()
