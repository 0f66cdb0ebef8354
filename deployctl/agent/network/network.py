"""The host's own view of its network: who listens, what an HTTP server answers; and a relay."""

from __future__ import annotations

import errno
import os
import re
import socket
import sys
import threading
import time
from typing import Any, Dict, List, Optional, Set, Tuple
from urllib.parse import urlsplit

from ..core.interface import AgentError, Call
from ..processes.processes import describe_process, everyone
from ..wire.answers import HttpAnswer, Listener, Process
from .relaying import connect as connect
from .relaying import shut

LISTEN = "0A"
"""TCP_LISTEN in /proc/net/tcp, as the kernel's Documentation/networking/proc_net_tcp.rst says."""
SETTINGS = "/proc/sys/net/ipv4"
BODY_LIMIT, LONG_BODY = 64 * 1024, 8 << 20


def listener(call: Call, port: int) -> Listener:
    """Who listens on a TCP port of this network namespace, on any address.

    `holders` are described as processes are. `unknown` says why a holder could not be named
    (None where all were). `outgoing` is the range of ports, first and last, that the kernel gives
    to outgoing connections and this one is of; None where it is of none. Error `unknown` where
    the kernel's tables cannot be read.
    """
    sockets = listening_sockets(port)
    holders, unreadable = _holders(set(sockets))
    held = {inode for _, inodes in holders for inode in inodes}
    unknown: Optional[str] = None
    if set(sockets) - held:
        unknown = (
            f"a socket on port {port} is held by a process that cannot be seen from here "
            f"({unreadable} processes could not be looked into)"
        )
    return {
        "port": port,
        "listening": bool(sockets),
        "addresses": sorted(set(sockets.values())),
        "holders": [description for description, _ in holders],
        "unknown": unknown,
        "outgoing": outgoing_range(port),
    }


def outgoing_range(port: int) -> Optional[List[int]]:
    """The range of ports for outgoing connections that a port lies in, unless it is reserved;
    the kernel's Documentation/networking/ip-sysctl.rst says how both are written."""
    try:
        with open(f"{SETTINGS}/ip_local_port_range", encoding="ascii") as file:
            first, last = (int(word) for word in file.read().split())
        with open(f"{SETTINGS}/ip_local_reserved_ports", encoding="ascii") as file:
            spans = [span.split("-") for span in file.read().strip().split(",") if span]
    except (OSError, ValueError):
        return None
    reserved = any(int(span[0]) <= port <= int(span[-1]) for span in spans)
    return [first, last] if first <= port <= last and not reserved else None


def listening_sockets(port: int) -> Dict[int, str]:
    """Socket inodes that listen on a port, with their address; /proc/net/tcp and tcp6."""
    found: Dict[int, str] = {}
    for table in ("tcp", "tcp6"):
        try:
            with open("/proc/net/" + table, encoding="ascii") as file:
                lines = file.read().splitlines()[1:]
        except FileNotFoundError:
            if table == "tcp6":
                continue  # a kernel without IPv6
            raise AgentError("unknown", "there is no /proc/net/tcp to look into") from None
        except OSError as error:
            raise AgentError("unknown", f"/proc/net/{table} cannot be read: {error}") from error
        for line in lines:
            fields = line.split()
            address, number = fields[1].split(":")
            if fields[3] == LISTEN and int(number, 16) == port:
                found[int(fields[9])] = _address(address)
    return found


def _address(text: str) -> str:
    """An address of /proc/net/tcp: 32-bit words in the host's byte order."""
    words = [int(text[i : i + 8], 16) for i in range(0, len(text), 8)]
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def _holders(inodes: Set[int]) -> Tuple[List[Tuple[Process, Set[int]]], int]:
    """Processes that hold any of these sockets, and how many processes could not be read."""
    holders = []
    unreadable = 0
    for stat in everyone() if inodes else []:
        directory = f"/proc/{stat.pid}/fd"
        held: Set[int] = set()
        try:
            for name in os.listdir(directory):
                try:
                    match = re.match(r"socket:\[(\d+)\]$", os.readlink(f"{directory}/{name}"))
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if error.errno != errno.ENAMETOOLONG:
                        raise
                    continue  # a file's path, longer than any name of a socket
                if match and int(match[1]) in inodes:
                    held.add(int(match[1]))
        except PermissionError:
            unreadable += 1
        except (FileNotFoundError, ProcessLookupError):
            continue
        if held:
            holders.append((describe_process(stat), held))
    return holders, unreadable


def http(
    call: Call,
    method: str,
    url: str,
    headers: Optional[Dict[str, str]] = None,
    body: Optional[str] = None,
    timeout: float = 5.0,
    lines: Optional[List[str]] = None,
) -> HttpAnswer:
    """Ask an HTTP server as this host sees it: `status`, `body` (text), `seconds`; `error` says
    why there is no answer (refused, out of time), and then `status` is None. It goes straight to
    the address in the URL: no proxy, no redirect. `timeout` bounds the whole of it; the body is
    cut at 64 KiB. With `lines` it is the lines that begin with one of these, of up to 8 MiB."""
    if lines is None:
        return exchange(method, url, headers, body, timeout)
    answer = exchange(method, url, headers, body, timeout, LONG_BODY)
    kept = [line for line in answer["body"].split("\n") if line.startswith(tuple(lines))]
    answer["body"] = "".join(line + "\n" for line in kept)
    return answer


def exchange(
    method: str,
    url: str,
    headers: Optional[Dict[str, str]] = None,
    body: Optional[str] = None,
    timeout: float = 5.0,
    limit: int = BODY_LIMIT,
) -> HttpAnswer:
    """Ask an HTTP server, as `http` does; the body is cut at `limit` bytes."""
    # Half of an agent's start: where nothing is asked, it costs no time.
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    parts = urlsplit(url)
    kinds = {"http": HTTPConnection, "https": HTTPSConnection}
    if parts.scheme not in kinds or not parts.hostname:
        raise AgentError("bad-arguments", f"not an http URL: {url}")
    connection = kinds[parts.scheme](parts.hostname, parts.port, timeout=timeout)
    late = threading.Event()
    began = time.monotonic()
    answer: HttpAnswer = {"status": None, "body": "", "error": None, "seconds": 0.0}
    try:
        connection.connect()
        with _Deadline(connection.sock, timeout - (time.monotonic() - began), late):
            target = (parts.path or "/") + ("?" + parts.query if parts.query else "")
            data = body.encode("utf-8") if body is not None else None
            connection.request(method, target, body=data, headers=headers or {})
            with connection.getresponse() as response:
                text = response.read(limit).decode("utf-8", "replace")
                answer["status"], answer["body"] = response.status, text
    except socket.timeout:
        late.set()
    except (OSError, HTTPException) as error:
        answer["error"] = str(error) or type(error).__name__
    finally:
        connection.close()
    if late.is_set():
        answer["status"], answer["body"] = None, ""
        answer["error"] = f"no complete answer within {timeout:g} s"
    answer["seconds"] = round(time.monotonic() - began, 4)
    return answer


class _Deadline:
    """Ends a connection after `seconds`, however slowly it drips; `late` says that it did."""

    def __init__(self, connection: socket.socket, seconds: float, late: threading.Event) -> None:
        def end() -> None:
            late.set()
            shut(connection, socket.SHUT_RDWR)

        self._timer = threading.Timer(max(0.0, seconds), end)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: Any) -> None:
        self._timer.cancel()
        self._timer.join()


OPERATIONS = (listener, http, connect)
