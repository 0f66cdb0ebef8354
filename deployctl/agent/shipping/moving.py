"""Moves pieces: ``python AGENT.pyz ship``, with what to do as JSON in an argument, or in a line on
standard input::

    {"from": "disk" | "stdin" | "listen", "folder", "note", "pieces": [[first, last], …], "port",
     "token", "next": null | "stdout" | {"address", "port"}}

From the disk the pieces of a described folder are sent. Otherwise pieces come, are compared with
their checksums, written to the folder, and passed on while others are still coming. What came is
reported on standard output: ``{"stored": number}`` and ``{"damaged": number}`` where the controller
listens, lines for a job's log where it is one.
"""

from __future__ import annotations

import functools
import json
import os
import queue
import sys
import threading
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Optional, Tuple, Union

from ..core.atomic_files import read_json, write_json
from ..core.interface import PRIVATE, AgentError
from ..wire import frames
from ..wire.frames import BrokenStream, Frame
from . import channel
from .incoming import Incoming
from .pieces import Layout

AHEAD = 4
"""Pieces that wait between reading, writing and passing on."""
LISTENING = "listening.json"

Sink = Tuple[Callable[[bytes], Any], Callable[[], Any]]
"""Takes bytes, and a notice that no more come."""


def main(argv: List[str]) -> int:
    """Do what is asked; 0 where the stream came to its end, whatever was damaged in it."""
    os.umask(PRIVATE)
    text = argv[0] if argv else sys.stdin.buffer.readline().decode("utf-8")
    asked: Dict[str, Any] = json.loads(text)
    try:
        if asked["from"] == "disk":
            return _send(asked)
        return _receive(asked)
    except (BrokenStream, AgentError, OSError) as error:
        print("failed: %s" % error, file=sys.stderr, flush=True)
        return 1


def _send(asked: Dict[str, Any]) -> int:
    folder = asked["folder"]
    pieces = [n for first, last in asked["pieces"] for n in range(first, last + 1)]
    layout = Layout((read_json(asked["note"]) or {})["manifest"])
    following = _Following(_opened(asked["next"]))
    for count, number in enumerate(pieces, 1):
        following.put((number, layout.read(folder, number)))
        if asked["next"] != "stdout":
            print("[%d/%d] pieces sent" % (count, len(pieces)), flush=True)
        if following.failure:
            break
    following.end()
    if following.failure:
        raise BrokenStream(following.failure)
    return 0


def _receive(asked: Dict[str, Any]) -> int:
    incoming = Incoming(asked["folder"])
    layout = incoming.layout()
    by_job = asked["from"] == "listen"
    with incoming.locked():
        # Whoever comes after us waits already: an address that leads nowhere is known at once.
        following = _Following(_opened(asked["next"])) if asked["next"] else None
        stream = _listened(incoming, asked) if by_job else sys.stdin.buffer
        lacking = set(incoming.lacking())
        tell = _Told(layout, by_job, len(lacking))
        try:
            for number, data in _ahead(stream):
                if number >= layout.count:
                    raise BrokenStream("there is no piece %d" % number)
                if not layout.matches(number, data):
                    incoming.note_damaged(number)
                    tell.damaged(number)
                    continue
                if following is not None:
                    following.put((number, data))
                if number in lacking:
                    incoming.store(layout, number, data)
                    lacking.discard(number)
                tell.stored(number)
        finally:
            incoming.close()
            if following is not None:
                following.end()
    if following is not None and following.failure:
        print("passed on no further: %s" % following.failure, flush=True)
    return 0


def _listened(incoming: Incoming, asked: Dict[str, Any]) -> BinaryIO:
    note = os.path.join(incoming.notes, LISTENING)
    listener = channel.listen(asked.get("port") or 0)
    write_json(note, {"port": listener.getsockname()[1], "token": asked["token"]})
    return channel.accept(listener, os.environ[channel.KEY])


def _opened(place: Union[str, Dict[str, Any]]) -> Sink:
    """Where pieces go on to."""
    if isinstance(place, str):
        # Our own words must not get among the pieces.
        file = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        return functools.partial(_all_of, file), file.close
    to = channel.connect(place["address"], place["port"], os.environ[channel.KEY])
    return to.sendall, functools.partial(channel.end, to)


def _all_of(file: Any, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


class _Following:
    """Whoever comes after us, in a thread of its own; its failure is a note, not our end."""

    def __init__(self, sink: Sink) -> None:
        self.failure = ""
        self._ended = False
        self._sink, self._close = sink
        self._queue: "queue.Queue[Optional[Frame]]" = queue.Queue(AHEAD)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def put(self, frame: Frame) -> None:
        self._queue.put(frame)

    def end(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        try:
            self._sink(frames.MAGIC)
            while True:
                frame = self._queue.get()
                if frame is None:
                    self._sink(frames.end())
                    self._ended = True
                    self._close()
                    return
                self._sink(frames.head(frame[0], len(frame[1])))
                self._sink(frame[1])
        except OSError as error:
            self.failure = str(error) or type(error).__name__
            while not self._ended and self._queue.get() is not None:
                pass


def _ahead(stream: BinaryIO) -> Iterator[Frame]:
    """The pieces of a stream, read while earlier ones are worked on; raises `BrokenStream`."""
    read: "queue.Queue[Union[Frame, None, str]]" = queue.Queue(AHEAD)

    def work() -> None:
        try:
            for frame in frames.read(stream):
                read.put(frame)
            read.put(None)
        except (BrokenStream, OSError) as error:
            read.put(str(error) or type(error).__name__)

    threading.Thread(target=work, daemon=True).start()
    while True:
        found = read.get()
        if found is None:
            return
        if isinstance(found, str):
            raise BrokenStream(found)
        yield found


class _Told:
    """Reports what came: to the controller by number, in a job's log by count."""

    def __init__(self, layout: Layout, by_job: bool, wanted: int) -> None:
        self._layout = layout
        self._by_job = by_job
        self._wanted = max(1, wanted)
        self._count = 0

    def stored(self, number: int) -> None:
        self._count += 1
        if self._by_job:
            print("[%d/%d] pieces received" % (min(self._count, self._wanted), self._wanted))
            sys.stdout.flush()
        else:
            self._say({"stored": number})

    def damaged(self, number: int) -> None:
        if not self._by_job:
            self._say({"damaged": number})
        else:
            print("damaged: piece %d: %s" % (number, self._layout.where(number)), flush=True)

    def _say(self, message: Dict[str, int]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
