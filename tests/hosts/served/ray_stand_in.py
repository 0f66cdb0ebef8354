"""A stand-in for Ray: `ray start --block` and the few functions of its module that are used.

The head's process listens; nodes connect to it and are there while the connection is. Whoever
comes must bring the token that RAY_AUTH_TOKEN_PATH names. Its words are the real one's (2.60).

RAY_STAND_IN_FAULT: `late` (a node that is not the head never joins), `version` (it is refused for
its version), `ignores` (SIGTERM is ignored).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

MISMATCH = """\
RuntimeError: Version mismatch: The cluster was started with:
    Ray: 2.60.0
    Python: 3.11.7
This process on node 10.0.0.2 was started with:
    Ray: 2.60.0
    Python: 3.11.9
"""
joined: dict[str, float] = {}
cluster: list[str] = []


def own_token() -> str:
    """The token; the file must be for its owner alone."""
    path = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
    assert os.environ["RAY_AUTH_MODE"] == "token" and path.stat().st_mode & 0o777 == 0o600
    return path.read_text("ascii")


def hear(connection: socket.socket, token: str) -> None:
    """A node that joins, or a question about all nodes."""
    stream = connection.makefile("rw")
    said = json.loads(stream.readline())
    if said.pop("token") != token:
        stream.write('"InvalidAuthToken"\n')
    elif "node" not in said:
        stream.write(json.dumps(joined) + "\n")
    else:
        joined[said["node"]] = said["gpus"]
        stream.write('"joined"\n')
        stream.flush()
        stream.read()
        joined.pop(said["node"])
    stream.close()


def send(address: str, **said: Any) -> tuple[Any, socket.socket]:
    """The head's answer, and the connection."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), 30)
    connection.sendall((json.dumps({"token": own_token(), **said}) + "\n").encode())
    connection.settimeout(None)
    return json.loads(connection.makefile("r").readline()), connection


def asked(address: str) -> Any:
    """The nodes that have joined, or a refusal."""
    answer, connection = send(address)
    connection.close()
    return answer


def init(address: str, **_: Any) -> None:
    """Connect to a cluster."""
    if asked(address) == "InvalidAuthToken":
        raise RuntimeError("InvalidAuthToken")
    cluster.append(address)


def nodes() -> list[dict[str, Any]]:
    """All nodes of the cluster."""
    found = asked(cluster[0])
    return [
        {"NodeManagerAddress": at, "Alive": True, "Resources": {"GPU": gpus}}
        for at, gpus in found.items()
    ]


def available_resources() -> dict[str, float]:
    """What is free of all nodes."""
    found = asked(cluster[0])
    return {"GPU": sum(found.values())}


def shutdown() -> None:
    """Leave the cluster."""
    cluster.clear()


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("word", choices=["start"])
    for name in ("block", "head"):
        parser.add_argument(f"--{name}", action="store_true")
    for name in ("port", "num-gpus"):
        parser.add_argument(f"--{name}", type=int)
    for name in ("node-ip-address", "address"):
        parser.add_argument(f"--{name}")
    one, _ = parser.parse_known_args()
    fault, token = os.environ.get("RAY_STAND_IN_FAULT"), own_token()
    if fault == "ignores":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if one.head:
        joined[one.node_ip_address] = one.num_gpus
        door = socket.create_server((one.node_ip_address, one.port))
        print("Ray runtime started.", flush=True)
        while True:
            connection, _ = door.accept()
            threading.Thread(target=hear, args=(connection, token), daemon=True).start()
    if fault == "late":
        threading.Event().wait()
    if fault == "version":
        print(MISMATCH, flush=True)
        return 1
    answer, connection = send(one.address, node=one.node_ip_address, gpus=one.num_gpus)
    if answer != "joined":
        print(answer, flush=True)
        return 1
    print("Ray runtime started.", flush=True)
    while connection.recv(1):
        time.sleep(0.1)
    return 1


if __name__ == "__main__":
    sys.exit(main())
