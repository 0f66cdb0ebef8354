"""What `plan`, and an `up` that finds nothing to do, cost on many hosts, beside one bare script.

    python bench/many_hosts.py [--hosts 1,5,10,20] [--repeats 3] [--up]

Every host is an sshd of its own on this machine, with a root of its own. The floor is one Python
program that connects to all of them at once with paramiko and runs `true` on each. Commands run in
turn with the floor, each as a process of its own; medians. With `--up` a stand-in for vLLM serves
on every host. Prints one JSON document.

`processor` are the processor seconds of a command and of everything that it started on its hosts:
on a machine that others use as well, their ratio is what wall time would show on an idle one.
`--python` is the hosts' Python; a `python3` that is a shell script (pyenv's) costs as much as the
agent.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.hosts.served.many import ManyHosts

FLOOR = """\
import json, sys, threading
import paramiko
def one(host):
    client = paramiko.SSHClient()
    client.load_host_keys(host["known_hosts"])
    client.connect(host["address"], host["port"], host["user"], key_filename=host["identity_file"],
                   look_for_keys=False, allow_agent=False)
    _, out, _ = client.exec_command("true")
    out.read()
    assert out.channel.recv_exit_status() == 0
    client.close()
threads = [threading.Thread(target=one, args=(host,)) for host in json.load(sys.stdin)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def processor(many: ManyHosts) -> float:
    """Processor seconds until now of what this process started and of what the hosts ran."""
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = own.ru_utime + own.ru_stime
    for machine in many.machines:
        stat = Path(f"/proc/{machine.sshd.pid}/stat").read_text()
        total += sum(map(int, stat.rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


def settled(many: ManyHosts) -> None:
    """Wait until every sshd has reaped its sessions: their time counts from then on."""
    for machine in many.machines:
        children = Path(f"/proc/{machine.sshd.pid}/task/{machine.sshd.pid}/children")
        while children.read_text().strip():
            time.sleep(0.05)


def seconds(
    many: ManyHosts, argv: list[str], environment: dict[str, str], text: str = ""
) -> tuple[float, float]:
    """The wall and processor seconds of a command as a process of its own; it must pass."""
    before, began = processor(many), time.monotonic()
    done = subprocess.run(argv, input=text, text=True, capture_output=True, env=environment)
    took = time.monotonic() - began
    assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
    settled(many)
    return took, processor(many) - before


@contextmanager
def hosts(count: int, serving: bool, python: str) -> Iterator[ManyHosts]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="many-hosts-")))
        many = stack.enter_context(ManyHosts(folder, count))
        many.write_hosts([{**m.host_settings(), "python": python} for m in many.machines])
        if serving:
            assert many.up().exit_code == 0
        yield many


def measure(count: int, repeats: int, serving: bool, python: str) -> dict[str, Any]:
    with hosts(count, serving, python) as many:
        environment = {**os.environ, "XDG_STATE_HOME": str(many.directory / "state")}
        reach = json.dumps([machine.sshd.settings() for machine in many.machines])
        command = [sys.executable, "-m", "deployctl"]
        asked = ["-p", str(many.profile_file), "--json"]
        commands = {
            "floor": ([sys.executable, "-c", FLOOR], reach),
            "plan": ([*command, "plan", *asked], ""),
            **({"up": ([*command, "up", *asked, "--quiet"], "")} if serving else {}),
        }
        seconds(many, *commands["plan"][:1], environment)  # every agent is there from now on
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(repeats):
            for name, (argv, text) in commands.items():
                took[name].append(seconds(many, argv, environment, text))
    return {
        "hosts": count,
        **{
            kind: compared({name: [one[i] for one in values] for name, values in took.items()})
            for i, kind in enumerate(("wall", "processor"))
        },
    }


def compared(took: dict[str, list[float]]) -> dict[str, Any]:
    """Medians in seconds, and how often the floor goes into each."""
    medians = {name: statistics.median(values) for name, values in took.items()}
    others = {name: value for name, value in medians.items() if name != "floor"}
    return {
        **{name: round(value, 2) for name, value in medians.items()},
        "ratio": {name: round(value / medians["floor"], 2) for name, value in others.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", default="1,5,10,20")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--up", action="store_true")
    parser.add_argument("--python", default="/usr/bin/python3")
    given = parser.parse_args()
    counts = [int(part) for part in given.hosts.split(",")]
    print(
        json.dumps(
            [measure(count, given.repeats, given.up, given.python) for count in counts], indent=1
        )
    )


if __name__ == "__main__":
    main()
