"""Runs one node of a Ray cluster, and on its head the server in that cluster; both end as one.

Lies beside a release and is run by the environment's Python, with the standard library and the Ray
that was installed there::

    python ray_node.py node OPTIONS               # joins the head's cluster
    python ray_node.py node OPTIONS -- vllm serve …  # the head: its cluster, and the server in it

The folder in DEPLOYCTL_SCRATCH is this run's own: Ray keeps there what it would share with others
on the machine, and the token of the cluster, which comes in DEPLOYCTL_RAY_TOKEN and goes no further
but as a file that no other user reads. `ray stop` is never run: it ends the clusters of others.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import FrameType

SCRATCH, TOKEN = "DEPLOYCTL_SCRATCH", "DEPLOYCTL_RAY_TOKEN"
RAY_ENDS = 5.0
"""Seconds in which `ray start --block` ends its node after SIGTERM (measured: 3)."""
POLL = 0.2
LOOK = 1.0
"""Seconds between two looks at what runs, and at who has joined."""
CONNECT = 3.0
"""Seconds of one attempt to connect to the head."""


class Failed(Exception):
    """This node does not come to be, for the reason that its message states."""


def say(text: str) -> None:
    """A line of ours in the server's log."""
    print(f"deployctl: Ray: {text}", flush=True)


class Node:
    """One node, from its start to its end."""

    def __init__(self, options: argparse.Namespace, server: list[str]) -> None:
        self._options, self._server = options, server
        self._stopped = threading.Event()
        self._running: list[subprocess.Popen[bytes]] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        self._env = self._environment()

    def run(self) -> int:
        """Start, follow and end; the status to leave with."""
        try:
            return self._run()
        except Failed as error:
            print(f"deployctl: Ray failed: {error}", flush=True)
            return 1
        finally:
            for process in reversed(self._running):
                end(process, RAY_ENDS)

    def _run(self) -> int:
        one, ray = self._options, None
        if one.rank:
            say(f"connecting to the head at {one.cluster}")
            self._until(lambda: answers(one.cluster), f"the head at {one.cluster} does not answer")
        if not one.there:
            ray = self._start([*ray_command(one)], self._env)
        if self._server and not self._stopped.is_set():
            self._await_nodes(ray)
        if self._stopped.is_set():
            return 0
        server = self._serve() if self._server else None
        while not self._stopped.wait(POLL):
            if server is not None and server.poll() is not None:
                return int(server.returncode)
            if ray is not None and ray.poll() is not None:
                raise Failed(f"this node of the cluster ended, status {ray.returncode}")
        if server is not None:
            # While it waits for GPUs, its API server ignores SIGTERM.
            end(server, max(1.0, one.grace - RAY_ENDS))
        return 0

    def _serve(self) -> subprocess.Popen[bytes]:
        return self._start(self._server, {**self._env, "RAY_ADDRESS": self._options.cluster})

    def _await_nodes(self, ray: subprocess.Popen[bytes] | None) -> None:
        """Until every node has joined, as a program of its own sees it."""
        cluster = self._options.cluster
        self._until(lambda: answers(cluster), f"the cluster at {cluster} does not answer", ray)
        looks = self._start([sys.executable, __file__, "nodes", *sys.argv[2:]], self._env)
        while looks.poll() is None and not self._stopped.wait(POLL):
            if ray is not None and ray.poll() is not None:
                raise Failed(f"this node of the cluster ended, status {ray.returncode}")
        if looks.poll():
            raise SystemExit(1)

    def _until(
        self, so: Callable[[], bool], what: str, ray: subprocess.Popen[bytes] | None = None
    ) -> None:
        """Look until it is so; raises `Failed` after the bound, or where Ray has ended."""
        end = time.monotonic() + self._options.within
        while not so() and not self._stopped.wait(POLL):
            if ray is not None and ray.poll() is not None:
                raise Failed(f"this node of the cluster ended, status {ray.returncode}")
            if time.monotonic() > end:
                raise Failed(f"{what}, for {self._options.within:g} s")

    def _start(self, argv: list[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL)
        self._running.append(process)
        return process

    def _environment(self) -> dict[str, str]:
        """Without the token's value, and with what keeps this cluster to itself."""
        env, folder = dict(os.environ), Path(os.environ[SCRATCH])
        token = env.pop(TOKEN, "")
        env["RAY_USAGE_STATS_ENABLED"] = "0"
        if not self._options.there:
            env["RAY_TMPDIR"] = str(folder)
        if not token and not self._options.there:
            raise SystemExit("deployctl: Ray failed: the token of the cluster is missing")
        if token:
            path = folder / "token"
            path.touch(0o600, exist_ok=False)
            path.write_text(token, encoding="ascii")
            env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(path)}
        return env

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopped.set()


def ray_command(one: argparse.Namespace) -> list[str]:
    """`ray start` with every port that it can be given."""
    first, last = (int(port) for port in one.ports.split("-"))
    named = {
        "node-manager-port": first,
        "object-manager-port": first + 1,
        "runtime-env-agent-port": first + 2,
        "dashboard-agent-listen-port": first + 3,
        "dashboard-agent-grpc-port": first + 4,
        "metrics-export-port": first + 5,
        "ray-client-server-port": first + 6,
        "min-worker-port": first + 10,
        "max-worker-port": last,
        "num-gpus": one.gpus,
        "object-store-memory": one.objects,
        "node-ip-address": one.node,
    }
    if one.rank:
        head = [f"--address={one.cluster}"]
    else:
        port = one.cluster.rpartition(":")[2]
        head = ["--head", f"--port={port}", "--include-dashboard=false", "--disable-usage-stats"]
    options = [f"--{name}={value}" for name, value in named.items()]
    return [one.ray, "start", "--block", *head, *options]


def answers(address: str) -> bool:
    """Whether something listens there."""
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), CONNECT):
        return True
    return False


def end(process: subprocess.Popen[bytes], patience: float) -> None:
    """Ask a process to end, and kill it where it does not."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def await_nodes(one: argparse.Namespace) -> int:
    """Look at the cluster until all of its nodes are there with their GPUs; 0 then."""
    ray = import_module("ray")
    ray.init(address=one.cluster, log_to_driver=False, logging_level="ERROR")
    wanted = dict(pair.split("=", 1) for pair in one.nodes)
    until, before = time.monotonic() + one.within, ""
    while True:
        missing = (
            lacking_gpus(ray, one.total) if one.there else lacking_nodes(ray, wanted, one.gpus)
        )
        if not missing:
            say("all nodes have joined")
            ray.shutdown()
            return 0
        if time.monotonic() > until:
            print(f"deployctl: Ray failed: {missing}, within {one.within:g} s", flush=True)
            return 1
        if missing != before:
            say(f"waiting: {missing}")
            before = missing
        time.sleep(LOOK)


def lacking_nodes(ray: object, wanted: Mapping[str, str], gpus: int) -> str:
    """Which of the wanted nodes, by address and name, have not joined with their GPUs."""
    there = {
        node["NodeManagerAddress"]: node["Resources"].get("GPU", 0)
        for node in ray.nodes()  # type: ignore[attr-defined]
        if node["Alive"]
    }
    absent = [f"{name}, {at}" for at, name in wanted.items() if at not in there]
    if absent:
        return f"{'; '.join(absent)} did not join the cluster"
    short = [f"{name} has {there[at]:g}" for at, name in wanted.items() if there[at] < gpus]
    return f"each node needs {gpus} GPUs: {'; '.join(short)}" if short else ""


def lacking_gpus(ray: object, total: int) -> str:
    """What a cluster that is there already lacks."""
    free = ray.available_resources().get("GPU", 0)  # type: ignore[attr-defined]
    return f"the cluster has {free:g} free GPUs, and {total} are needed" if free < total else ""


def parsed(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options, and the server's command line."""
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("word", choices=["node", "nodes"])
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ray", required=True, help="the program")
    parser.add_argument("--node", required=True, help="this node's address")
    parser.add_argument("--cluster", required=True, help="the head's address and port")
    parser.add_argument("--ports", required=True, help="FIRST-LAST")
    parser.add_argument("--gpus", type=int, required=True, help="of each node")
    parser.add_argument("--objects", type=int, default=256 << 20, help="bytes of shared memory")
    parser.add_argument("--total", type=int, required=True, help="GPUs of all nodes")
    parser.add_argument("--nodes", nargs="*", default=[], help="ADDRESS=NAME of each")
    parser.add_argument("--within", type=float, required=True, help="seconds until all are there")
    parser.add_argument("--grace", type=float, required=True, help="seconds that a stop may take")
    parser.add_argument("--there", action="store_true", help="the cluster is not ours")
    return parser.parse_args(words[:at]), words[at + 1 :]


def main() -> int:
    """Run a node, or look at the cluster."""
    options, server = parsed(sys.argv[1:])
    return await_nodes(options) if options.word == "nodes" else Node(options, server).run()


if __name__ == "__main__":
    sys.exit(main())
