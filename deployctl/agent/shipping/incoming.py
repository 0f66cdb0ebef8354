"""A folder that is being received: pieces are written where they belong, and it gets its name only
when all of them are there.

``FOLDER.incoming/`` holds the files; its ``.deployctl/`` the manifest, a lock that whoever receives
holds, and one byte a piece in `received`: 0 for none yet, 1 for a whole one, else one more than the
times that it came damaged. After an interruption that note is not believed: every piece that lies
there is compared with its checksum again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from typing import Dict, Iterator, List, Optional

from ..core.atomic_files import read_json, write_json
from ..core.interface import AgentError
from .pieces import NOTES, Layout, Manifest, Step, missing

SUFFIX = ".incoming"
WHOLE = 1


class Incoming:
    """One folder on its way. `folder` is the name that it will have."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.part = folder + SUFFIX
        self.notes = os.path.join(self.part, NOTES)
        self._manifest = os.path.join(self.notes, "manifest.json")
        self._received = os.path.join(self.notes, "received")
        self._open: Dict[str, int] = {}

    def layout(self) -> Layout:
        """What is to come; error `not-prepared` where nothing was announced."""
        manifest = read_json(self._manifest)
        if manifest is None:
            raise AgentError("not-prepared", "%s is not being received" % self.folder)
        return Layout(manifest)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """No other writer is allowed here; error `busy` where there is one."""
        handle = os.open(os.path.join(self.notes, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AgentError("busy", "%s is being received already" % self.folder) from None
            yield
        finally:
            os.close(handle)

    def prepare(self, manifest: Manifest, step: Step) -> List[int]:
        """Make room for a folder, keep what already came of it, and tell which pieces are missing.
        Errors: `busy`, `no-space`."""
        layout = Layout(manifest)
        os.makedirs(self.notes, mode=0o700, exist_ok=True)
        with self.locked():
            self._only(layout)
            lacking = missing(layout, self.part, step)
            self._check_room(layout, lacking)
            write_json(self._manifest, manifest)
            flags = bytearray([WHOLE] * layout.count)
            for number in lacking:
                flags[number] = 0
            with open(self._received, "wb") as file:
                file.write(bytes(flags))
        return lacking

    def lacking(self) -> List[int]:
        """The pieces that have not come, by the note of whoever received them."""
        return [number for number, flag in enumerate(self._flags()) if flag != WHOLE]

    def damaged(self) -> Dict[int, int]:
        """How often pieces have come damaged since this was prepared."""
        return {n: flag - WHOLE for n, flag in enumerate(self._flags()) if flag > WHOLE}

    def note_damaged(self, number: int) -> None:
        """A piece has come with other bytes than it should have."""
        flag = self._flags()[number]
        if flag != WHOLE:
            self._flag(number, min(255, max(WHOLE, flag) + 1))

    def store(self, layout: Layout, number: int, data: bytes) -> None:
        """Write a piece whose checksum is right."""
        at = 0
        for span in layout.spans(number):
            os.pwrite(self._file(span.name), data[at : at + span.length], span.offset)
            at += span.length
        self._flag(number, WHOLE)

    def finish(self, step: Step) -> Layout:
        """Give a whole folder its name; error `incomplete` names what is missing."""
        layout = self.layout()
        with self.locked():
            lacking = self.lacking()
            if lacking:
                named = "; ".join(layout.where(number) for number in lacking[:3])
                said = "%s: %d of %d pieces are missing: %s"
                raise AgentError(
                    "incomplete", said % (self.folder, len(lacking), layout.count, named)
                )
            for name, size, mode in layout.files:
                _settle(os.path.join(self.part, name), size, mode)
                step()
            shutil.rmtree(self.notes)
            _put_in_place(self.part, self.folder)
        return layout

    def close(self) -> None:
        """Give up every open file."""
        for handle in self._open.values():
            os.close(handle)
        self._open = {}

    def _flags(self) -> bytes:
        with open(self._received, "rb") as file:
            return file.read()

    def _flag(self, number: int, value: int) -> None:
        os.pwrite(self._file(os.path.join(NOTES, "received")), bytes([value]), number)

    def _file(self, name: str) -> int:
        handle = self._open.get(name)
        if handle is None:
            if len(self._open) > 64:
                self.close()
            path = os.path.join(self.part, name)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = self._open[name] = os.open(path, flags, 0o600)
        return handle

    def _only(self, layout: Layout) -> None:
        """Remove what does not belong to the folder, or is longer than it may be."""
        sizes = {name: size for name, size, _ in layout.files}
        for directory, folders, names in os.walk(self.part):
            if directory == self.part and NOTES in folders:
                folders.remove(NOTES)
            for name in names:
                path = os.path.join(directory, name)
                size = sizes.get(os.path.relpath(path, self.part))
                if size is None or os.path.islink(path):
                    os.unlink(path)
                elif os.path.getsize(path) > size:
                    os.truncate(path, size)

    def _check_room(self, layout: Layout, lacking: List[int]) -> None:
        status = os.statvfs(self.part)
        free = status.f_bavail * status.f_frsize
        needed = sum(layout.length(number) for number in lacking)
        if needed > free:
            said = "%d MiB are to come, %s has %d MiB free"
            raise AgentError("no-space", said % (needed >> 20, self.part, free >> 20))


def _settle(path: str, size: int, mode: int) -> None:
    """A file as it is to stay: on the disk, with its mode; an empty one has had no piece."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        if os.fstat(handle).st_size != size:
            raise AgentError("damaged", "%s has another size than it was received with" % path)
        os.fchmod(handle, mode)
        os.fsync(handle)
    finally:
        os.close(handle)


def _put_in_place(part: str, folder: str) -> None:
    aside: Optional[str] = None
    if os.path.lexists(folder):
        aside = folder + ".damaged"
        shutil.rmtree(aside, ignore_errors=True)
        os.rename(folder, aside)
    os.rename(part, folder)
    if aside is not None:
        shutil.rmtree(aside, ignore_errors=True)
