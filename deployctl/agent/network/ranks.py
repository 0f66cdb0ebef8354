"""Whether the ranks of a group can reach each other: each host listens, and each tries the others.

vLLM itself says nothing where they cannot: it waits, for tens of minutes.
"""

from __future__ import annotations

import errno
import platform
import queue
import socket
import struct
import threading
import time
from contextlib import ExitStack, suppress
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..core.interface import BEAT, AgentError, Call
from ..wire.ranks import Answered, Place, Reached

RTM_NEWADDR, RTM_GETADDR = 20, 22
NLMSG_DONE, DUMP = 3, 0x301
MORE = b"+"
MEASURED = 0.3
"""What asks for bytes to be counted, and for how many seconds they are sent."""
IFA_ADDRESS, IFA_LOCAL = 1, 2
"""As linux/rtnetlink.h and linux/if_addr.h have them."""


def place(call: Call, address: str, interface: str = "") -> Place:
    """Which interface has this address; `interface` None where none has, or not the one that is
    named. `interfaces` are all, as `name address`; `time` is the host's clock."""
    found = list(_addresses())
    own = [name for name, held in found if held == address and interface in ("", name)]
    return {
        "address": address,
        "interface": own[0] if own else None,
        "interfaces": ["%s %s" % pair for pair in found],
        "time": time.time(),
        "python": platform.python_version(),
    }


def _addresses() -> Iterator[Tuple[str, str]]:
    """Every address of this network by its interface, asked of the kernel (rtnetlink(7))."""
    request = struct.pack("=IHHIIBBBBI", 24, RTM_GETADDR, DUMP, 1, 0, 0, 0, 0, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.settimeout(10)
        kernel.bind((0, 0))
        kernel.send(request)
        while True:
            data = kernel.recv(1 << 16)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                if kind == NLMSG_DONE:
                    return
                if kind == RTM_NEWADDR:
                    yield from _of_message(data[16:length])
                data = data[(length + 3) & ~3 :]


def _of_message(body: bytes) -> Iterator[Tuple[str, str]]:
    family, index = body[0], struct.unpack_from("=I", body, 4)[0]
    held: Dict[int, bytes] = {}
    rest = body[8:]
    while len(rest) >= 4:
        length, kind = struct.unpack_from("=HH", rest)
        held[kind] = rest[4:length]
        rest = rest[max(4, (length + 3) & ~3) :]
    # Of a link between two points, IFA_ADDRESS is the other end's.
    value = held.get(IFA_LOCAL) or held.get(IFA_ADDRESS)
    with suppress(OSError, ValueError):
        if value:
            yield socket.if_indextoname(index), socket.inet_ntop(family, value)


def answer(call: Call, address: str, ports: List[int], token: str) -> Answered:
    """Listen on these ports (0: one that the kernel chooses) and say `token` to whoever connects,
    until it is fed or given up. Emits `{"ports": […]}`, with None in place of one that is in use.
    Error `no-address` where this host cannot listen there."""
    with ExitStack() as stack:
        found = [_listen(stack, address, port) for port in ports]
        counts = [0]
        for listener in filter(None, found):
            threading.Thread(target=_serve, args=(listener, token, counts), daemon=True).start()
        call.emit({"ports": [one and one.getsockname()[1] for one in found]})
        while not call.cancelled.is_set():
            try:
                call.inbox.get(timeout=BEAT)
                break
            except queue.Empty:
                call.beat()
        return {"callers": counts[0]}


def _listen(stack: ExitStack, address: str, port: int) -> Any:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen(64)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return None
        said = "cannot listen on %s: %s" % (address, error.strerror or error)
        raise AgentError("no-address", said) from error
    stack.callback(_end, listener)
    return listener


def _end(listener: socket.socket) -> None:
    """Closing alone would leave a thread in `accept` waiting."""
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket, token: str, counts: List[int]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        counts[0] += 1
        with connection, suppress(OSError):
            connection.settimeout(5)
            connection.sendall(token.encode())
            if connection.recv(1) == MORE:
                _pour(connection)


def _pour(connection: socket.socket) -> None:
    """Send as much as goes through within `MEASURED`."""
    end, piece = time.monotonic() + MEASURED, bytes(1 << 16)
    connection.sendall(piece)
    while time.monotonic() < end:
        connection.sendall(piece)


def reach(call: Call, targets: List[List[Any]], source: str, timeout: float = 5.0) -> List[Reached]:
    """Connect from the address `source` to each `[address, port, token, measured]`, all at once,
    and hear its token (any answer where that is empty). `seconds` is what the connection took,
    `rate` the bytes a second that then came, where that was to be measured."""
    answers: List[Any] = [None] * len(targets)

    def one(index: int) -> None:
        address, port, token, measured = targets[index]
        answers[index] = _reached(address, port, token, source, timeout, measured)

    threads = [threading.Thread(target=one, args=(index,)) for index in range(len(targets))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def _reached(
    address: str, port: int, token: str, source: str, timeout: float, measured: bool
) -> Reached:
    began, error = time.monotonic(), None
    seconds, rate = 0.0, None
    try:
        with socket.create_connection((address, port), timeout, (source, 0)) as connection:
            seconds = time.monotonic() - began
            heard = b""
            while len(heard) < len(token):
                data = connection.recv(256)
                if not data:
                    break
                heard += data
            if heard.decode("ascii", "replace") != token:
                error = "something else answers there"
            elif measured:
                rate = _rate(connection)
    except socket.timeout:
        error = "no answer within %g s" % timeout
    except OSError as refused:
        error = refused.strerror or str(refused)
    return {
        "address": address,
        "port": port,
        "seconds": round(seconds, 5),
        "rate": rate,
        "error": error,
    }


def _rate(connection: socket.socket) -> Optional[float]:
    """Bytes a second of what the other end sends until it has enough; None where nothing came."""
    connection.sendall(MORE)
    began, count = time.monotonic(), 0
    while data := connection.recv(1 << 16):
        count += len(data)
    return round(count / max(1e-6, time.monotonic() - began)) if count else None


OPERATIONS = (place, answer, reach)
