"""The agent's conversation: JSON lines in, JSON lines out, one thread a request.

In:  ``{"id": 1, "calls": [{"op": "files.read", "args": {…}}, …]}`` · ``{"cancel": 1}`` ·
``{"feed": 1, "data": …}`` · ``{"ping": 7}``.
Out: ``{"id": 1, "results": [{"value": …} | {"error": {"kind", "message", "detail"}}, …]}`` ·
``{"id": 1, "call": 0, "event": {…}}`` · ``{"pong": 7}``; first of all ``{"ready": {…}}``.

When the input ends, or stays silent for longer than `silence` seconds, the agent ends, and with
it every lock it holds. Jobs and servers that it started are processes of their own and stay.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import socket
import sys
import threading
import time
from typing import Any, BinaryIO, Callable, Dict, List, Sequence, TextIO

from .core.atomic_files import boot_id
from .core.interface import USUAL_UMASK, AgentError, Call
from .wire.messages import LONGEST_LINE

FAMILIES = {
    "adoption": "supervision",
    "environment": "build",
    "files": "store",
    "garbage": "store",
    "gpu": "gpu",
    "hooks": "core",
    "hub": "store",
    "jobs": "supervision",
    "release_status": "store",
    "machine": "processes",
    "models": "store",
    "modules": "core",
    "network": "network",
    "outside": "build",
    "passthrough": "gpu",
    "ranks": "network",
    "processes": "processes",
    "releases": "store",
    "shipping": "shipping",
    "sleeping": "supervision",
    "units": "supervision",
}
"""Each family of operations by the package that has it."""


def operations() -> Dict[str, Callable[..., Any]]:
    """Every operation by its full name."""
    return {name: run for family in FAMILIES for name, run in of_family(family).items()}


def of_family(family: str) -> Dict[str, Callable[..., Any]]:
    """The operations of a family by their full names; it lists them in `OPERATIONS`.

    A family is imported when it is first asked for: all of them take half of an agent's start.
    """
    module = importlib.import_module("." + FAMILIES[family] + "." + family, __package__)
    return {family + "." + function.__name__: function for function in module.OPERATIONS}


class Conversation:
    """One controller's requests, from the first line to the last."""

    def __init__(self, writer: TextIO, root: str, umask: int) -> None:
        self._writer = writer
        self._umask = umask
        self._writing = threading.Lock()
        self._root = root
        self._running: Dict[int, Call] = {}

    def say(self, message: Dict[str, Any]) -> None:
        line = json.dumps(message, separators=(",", ":"), default=str)
        if len(line) >= LONGEST_LINE:
            raise ValueError("the answer has %d bytes, more than may be sent" % len(line))
        with self._writing:
            try:
                self._writer.write(line + "\n")
                self._writer.flush()
            except OSError:
                # The controller is gone; no answer can be delivered.
                os._exit(0)

    def hear(self, message: Dict[str, Any]) -> None:
        if "ping" in message:
            self.say({"pong": message["ping"]})
        elif "cancel" in message:
            call = self._running.get(message["cancel"])
            if call is not None:
                call.cancelled.set()
                call.inbox.put(None)
        elif "feed" in message:
            call = self._running.get(message["feed"])
            if call is not None:
                call.inbox.put(message["data"])
        elif "calls" in message:
            number = message["id"]
            # Registered before the thread starts: a feed or cancel may be the next line.
            call = Call(self._root, lambda event: None, self._umask)
            self._running[number] = call
            threading.Thread(
                target=self._answer, args=(number, call, message["calls"]), daemon=True
            ).start()

    def _answer(self, number: int, call: Call, calls: Sequence[Dict[str, Any]]) -> None:
        results: List[Dict[str, Any]] = []
        for index, wanted in enumerate(calls):
            if call.cancelled.is_set():
                given_up = {"kind": "cancelled", "message": "given up", "detail": None}
                results.append({"error": given_up})
                continue
            call.emit = lambda event, index=index: self.say(  # type: ignore[misc]
                {"id": number, "call": index, "event": event}
            )
            results.append(self._one(call, wanted["op"], wanted.get("args") or {}))
            call.beat()
        self._running.pop(number, None)
        try:
            self.say({"id": number, "results": results})
        except (TypeError, ValueError) as error:
            # Silence would leave the controller waiting.
            failed = {"error": {"kind": "not-sent", "message": str(error), "detail": None}}
            self.say({"id": number, "results": [failed for _ in calls]})

    def _one(self, call: Call, op: str, args: Dict[str, Any]) -> Dict[str, Any]:
        family = op.partition(".")[0]
        function = of_family(family).get(op) if family in FAMILIES else None
        if function is None:
            return {"error": {"kind": "no-such-operation", "message": op, "detail": None}}
        try:
            return {"value": function(call, **args)}
        except AgentError as error:
            return {"error": {"kind": error.kind, "message": str(error), "detail": error.detail}}
        except OSError as error:
            kind = type(error).__name__
            return {"error": {"kind": kind, "message": str(error), "detail": error.errno}}
        except Exception as error:
            import traceback

            return {
                "error": {
                    "kind": type(error).__name__,
                    "message": str(error),
                    "detail": traceback.format_exc(limit=-6),
                }
            }


def describe(root: str) -> Dict[str, Any]:
    """Who and where this agent is: the first thing it says."""
    return {
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "pid": os.getpid(),
        "uid": os.geteuid(),
        "home": os.path.expanduser("~"),
        "root": root,
        "hostname": socket.gethostname(),
        "machine": os.uname().machine,
        "boot_id": boot_id(),
    }


def serve(
    reader: BinaryIO,
    writer: TextIO,
    root: str,
    silence: float,
    backlog: Sequence[bytes] = (),
    umask: int = USUAL_UMASK,
) -> None:
    """Answer requests until the controller is gone; called by the bootstrap, which has made the
    root and private files the rule. `umask` is what held before, and holds for what we start."""
    conversation = Conversation(writer, root, umask)
    conversation.say({"ready": describe(root)})
    ended = threading.Event()
    heard = [time.monotonic()]

    def read() -> None:
        try:
            for line in itertools.chain(backlog, reader):
                heard[0] = time.monotonic()
                if line.strip():
                    conversation.hear(json.loads(line))
        finally:
            ended.set()

    # The watch is kept apart from the reading: an answer may block for ever in a full pipe,
    # and then the silence must be noticed all the same.
    threading.Thread(target=read, name="read", daemon=True).start()
    last, now = heard[0], time.monotonic()
    while now < last + silence:
        due = min(last + silence, now + silence / 8)
        if ended.wait(due - now):
            break
        now = time.monotonic()
        # While this machine stood still, nothing was read: that does not count as silence.
        last = max(last + now - due, heard[0])
    # Threads may sit in a system call; the locks they hold must fall now.
    os._exit(0)


def main(argv: Sequence[str]) -> int:
    """Entry of the zip file when a job or a server is supervised rather than asked."""
    if argv[:1] == ["supervise"]:
        from .supervision.supervisor import supervise

        return supervise(argv[1])
    if argv[:1] == ["chore"]:
        from .build.build_tasks import main as chore

        return chore(argv[1:])
    if argv[:1] == ["pack"]:
        from .shipping.parcel import main as pack

        return pack(*argv[1:])
    if argv[:1] == ["ship"]:
        from .shipping.moving import main as ship

        return ship(list(argv[1:]))
    if argv[:1] == ["server"] and len(argv) > 2:
        from .supervision import waiting

        return waiting.supervise(argv[1], argv[2])
    if argv[:1] == ["server"]:
        from .supervision import server

        return server.supervise(argv[1])
    if argv[:1] == ["front"]:
        from .network import front

        return front.serve(argv[1])
    if argv[:1] == ["router"]:
        from .network import router

        return router.serve(argv[1])
    if argv[:1] == ["proxy"]:
        from .network import proxy

        return proxy.serve(argv[1])
    print("usage: supervise DIRECTORY | chore NAME ARGUMENT… | server DIRECTORY", file=sys.stderr)
    return 2
