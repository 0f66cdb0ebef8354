"""What `plan`, and an `up` that finds nothing to do, cost on many hosts, beside one bare script.

    python bench/many_hosts.py [--hosts 1,5,10,20] [--repeats 3] [--up]

Every host is an sshd of its own on this machine, with a root of its own. The floor is one Python
program that connects to all of them at once with paramiko and runs `true` on each. Commands run in
turn with the floor, each as a process of its own; medians. With `--up` a stand-in for vLLM serves
on every host. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
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


def seconds(argv: list[str], code: int, environment: dict[str, str], text: str = "") -> float:
    """How long a command takes as a process of its own; it must end with `code`."""
    began = time.monotonic()
    done = subprocess.run(argv, input=text, text=True, capture_output=True, env=environment)
    took = time.monotonic() - began
    assert done.returncode == code, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
    return took


@contextmanager
def hosts(count: int, serving: bool) -> Iterator[ManyHosts]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="many-hosts-")))
        many = stack.enter_context(ManyHosts(folder, count))
        if serving:
            assert many.up().exit_code == 0
        yield many


def measure(count: int, repeats: int, serving: bool) -> dict[str, Any]:
    with hosts(count, serving) as many:
        environment = {**os.environ, "XDG_STATE_HOME": str(many.directory / "state")}
        reach = json.dumps([machine.sshd.settings() for machine in many.machines])
        command = [sys.executable, "-m", "deployctl"]
        asked = ["-p", str(many.profile_file), "--json"]
        commands = {
            "floor": ([sys.executable, "-c", FLOOR], reach),
            "plan": ([*command, "plan", *asked], ""),
            **({"up": ([*command, "up", *asked, "--quiet"], "")} if serving else {}),
        }
        seconds([*command, "plan", *asked], 0, environment)  # every agent is there from now on
        took: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(repeats):
            for name, (argv, text) in commands.items():
                took[name].append(seconds(argv, 0, environment, text))
    medians = {name: statistics.median(values) for name, values in took.items()}
    return {
        "hosts": count,
        **{name: round(value, 2) for name, value in medians.items()},
        "ratio": {
            name: round(value / medians["floor"], 2)
            for name, value in medians.items()
            if name != "floor"
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", default="1,5,10,20")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--up", action="store_true")
    given = parser.parse_args()
    counts = [int(part) for part in given.hosts.split(",")]
    print(json.dumps([measure(count, given.repeats, given.up) for count in counts], indent=1))


if __name__ == "__main__":
    main()
