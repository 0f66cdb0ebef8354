"""A folder as one row of bytes, cut into pieces with checksums: what travels between hosts.

A manifest is a JSON object::

    {"files": [{"name", "size", "mode"}, …], "piece": bytes, "digests": [SHA-256, …]}

The files in the order of their names make the row; all pieces but the last have the same length,
and a piece may span several files. Names are relative, with `/`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from ..core.interface import AgentError
from ..core.regular_files import open_regular

PIECE = 8 << 20
MOST_THREADS = 8
NOTES = ".deployctl"
"""The folder of our own notes in one that is being received; no file of a manifest lies there."""

Step = Callable[[], None]
Manifest = Dict[str, Any]


class Span(NamedTuple):
    """A part of one file."""

    name: str
    offset: int
    length: int


class Layout:
    """Where the pieces of a manifest lie; error `bad-manifest` for one that cannot be used."""

    def __init__(self, manifest: Manifest) -> None:
        self.digests: List[str] = manifest["digests"]
        self.piece = int(manifest["piece"])
        self.files: List[Tuple[str, int, int]] = [
            (_checked(file["name"]), int(file["size"]), int(file["mode"]))
            for file in manifest["files"]
        ]
        ends = list(accumulate(size for _, size, _ in self.files))
        self.total = ends[-1] if ends else 0
        self._ends = ends
        wanted = -(-self.total // self.piece) if self.piece > 0 else -1
        if len(self.digests) != wanted or any(size < 0 for _, size, _ in self.files):
            raise AgentError("bad-manifest", "the pieces do not add up to the files")

    @property
    def count(self) -> int:
        return len(self.digests)

    def length(self, piece: int) -> int:
        """Bytes of a piece."""
        return min(self.piece, self.total - piece * self.piece)

    def spans(self, piece: int) -> Iterator[Span]:
        """The parts of files that make a piece, in order."""
        at, left = piece * self.piece, self.length(piece)
        index = bisect_right(self._ends, at)
        while left:
            name, size, _ = self.files[index]
            offset = at - (self._ends[index] - size)
            length = min(left, size - offset)
            if length:
                yield Span(name, offset, length)
            at, left, index = at + length, left - length, index + 1

    def where(self, piece: int) -> str:
        """A piece as people find it: files and bytes."""
        return ", ".join(
            "%s bytes %d-%d" % (one.name, one.offset, one.offset + one.length - 1)
            for one in self.spans(piece)
        )

    def read(self, folder: str, piece: int) -> bytes:
        """A piece's bytes as they lie on the disk; fewer where files are shorter or missing."""
        parts = []
        for span in self.spans(piece):
            try:
                with open_regular(os.path.join(folder, span.name)) as file:
                    file.seek(span.offset)
                    parts.append(file.read(span.length))
            except FileNotFoundError:
                break
        return b"".join(parts)

    def matches(self, piece: int, data: bytes) -> bool:
        """Whether these are the bytes of a piece."""
        return (
            len(data) == self.length(piece)
            and hashlib.sha256(data).hexdigest() == self.digests[piece]
        )


def describe(folder: str, step: Step = lambda: None, piece: int = PIECE) -> Manifest:
    """The manifest of a folder: its files, links followed, hidden folders and files left out."""
    found = listing(folder)
    files = [
        {"name": name, "size": size, "mode": 0o755 if mode & 0o100 else 0o644}
        for name, size, mode, _ in found
    ]
    total = sum(size for _, size, _, _ in found)
    empty = ["" for _ in range(-(-total // piece))]
    layout = Layout({"files": files, "piece": piece, "digests": empty})

    def digest(number: int) -> str:
        data = layout.read(folder, number)
        if len(data) != layout.length(number):
            raise AgentError("changed", "%s changed while it was read" % layout.where(number))
        return hashlib.sha256(data).hexdigest()

    return {"files": files, "piece": piece, "digests": each(digest, range(layout.count), step)}


def missing(layout: Layout, folder: str, step: Step = lambda: None) -> List[int]:
    """The pieces that do not lie in a folder with the right bytes, whoever wrote it."""
    sizes = {name: size for name, size, _, _ in listing(folder)}

    def right(number: int) -> bool:
        spans = layout.spans(number)
        if any(sizes.get(span.name, -1) < span.offset + span.length for span in spans):
            return False
        return layout.matches(number, layout.read(folder, number))

    found = each(right, range(layout.count), step)
    return [number for number, there in enumerate(found) if not there]


def listing(folder: str) -> List[Tuple[str, int, int, int]]:
    """Every file below a folder: name, size, mode and time of change (ns), in the names' order."""
    found = []
    for directory, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = os.path.join(directory, name)
            status = os.stat(path)
            if not name.startswith(".") and stat.S_ISREG(status.st_mode):
                relative = os.path.relpath(path, folder)
                found.append((relative, status.st_size, status.st_mode, status.st_mtime_ns))
    return sorted(found)


def each(work: Callable[[int], Any], numbers: Iterable[int], step: Step) -> List[Any]:
    """What `work` gives for each number, several at once; `step` is called after each."""
    wanted = list(numbers)
    made: List[Any] = []
    with ThreadPoolExecutor(min(MOST_THREADS, len(os.sched_getaffinity(0)))) as pool:
        # Not all at once: an interrupt must not wait for what was only queued.
        for at in range(0, len(wanted), 4 * MOST_THREADS):
            for result in pool.map(work, wanted[at : at + 4 * MOST_THREADS]):
                made.append(result)
                step()
    return made


def inside(name: Any) -> bool:
    """Whether a name leads to a file below the folder that it is meant for."""
    if not isinstance(name, str) or "\0" in name or "\\" in name:
        return False
    parts = name.split("/")
    return parts[0] != NOTES and not {"", ".", ".."}.intersection(parts)


def _checked(name: Any) -> str:
    if not inside(name):
        raise AgentError("bad-manifest", "%s is not a relative name" % ascii(name)[:200])
    return str(name)


def kept(place: Optional[Dict[str, Any]], signature: List[Any]) -> Optional[Manifest]:
    """The manifest in a note of these same files; None where there is none."""
    if place is None or place.get("signature") != signature:
        return None
    return dict(place["manifest"])
