"""Files of the host: read whole, written atomically, listed, digested, removed below the root."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import stat
import time
from typing import Any, BinaryIO, Callable, Dict, Iterator, Optional

from ..core import trees
from ..core.atomic_files import replacing
from ..core.interface import AgentError, Call
from ..core.regular_files import NotRegular, digest, open_regular
from ..wire.answers import (
    Disk,
    Entry,
    FileContent,
    FileWritten,
    Listing,
    Removed,
    TreeDigest,
)

ASIDE = ".removing."
"""Begins the name of what is being removed; an agent that died over it leaves it behind."""
WRITING = ".writing."
STALE = 60.0
"""Seconds without a write after which a file is left over."""


def read(call: Call, path: str, limit: int = 1 << 20) -> FileContent:
    """A whole file of at most `limit` bytes; error `too-big` above that, `not-a-file` for a
    directory or device. `text` is None and `base64` given where the bytes are not UTF-8; `link`
    is where a symbolic link points. A file that does not exist is an answer: `exists` false."""
    name = call.path(path)
    answer: FileContent = {
        "path": name,
        "exists": False,
        "text": None,
        "base64": None,
        "sha256": None,
        "mode": None,
        "size": None,
        "link": os.readlink(name) if os.path.islink(name) else None,
    }
    try:
        file = open_regular(name)
    except (FileNotFoundError, NotADirectoryError):
        return answer
    except NotRegular as error:
        raise AgentError("not-a-file", str(error)) from error
    with file:
        status = os.fstat(file.fileno())
        data = file.read(limit + 1)
    if len(data) > limit:
        raise AgentError("too-big", f"{name} has {status.st_size} bytes, more than {limit}")
    answer["exists"] = True
    answer["sha256"] = hashlib.sha256(data).hexdigest()
    answer["mode"] = stat.S_IMODE(status.st_mode)
    answer["size"] = len(data)
    try:
        answer["text"] = data.decode("utf-8")
    except UnicodeDecodeError:
        answer["base64"] = base64.b64encode(data).decode("ascii")
    return answer


def write(
    call: Call,
    path: str,
    text: Optional[str] = None,
    base64: Optional[str] = None,
    mode: Optional[int] = None,
) -> FileWritten:
    """Replace a file as a whole, or leave it as it was. Directories above it are made. A
    symbolic link is replaced, what it points at stays. Without `mode` that of the file before is
    kept, and a new one gets 0600. Gives `sha256`, `size` and `mode`."""
    if (text is None) == (base64 is None):
        raise AgentError("bad-arguments", "give text or base64, one of them")
    data = text.encode("utf-8") if text is not None else _decode(base64)
    return _replace(call.path(path), mode, lambda file: file.write(data))


def put(call: Call, path: str, size: int, sha256: str, mode: Optional[int] = None) -> FileWritten:
    """Receive a big file: base64 chunks are fed until `size` bytes have come, `taken` is emitted
    after each. Nothing is replaced unless the digest is `sha256`; error `damaged` otherwise."""

    def receive(file: BinaryIO) -> None:
        whole = hashlib.sha256()
        taken = 0
        while taken < size:
            chunk = call.inbox.get()
            if chunk is None:
                raise AgentError("cancelled", f"{path}: the upload was given up")
            data = _decode(chunk)
            whole.update(data)
            file.write(data)
            taken += len(data)
            call.emit({"taken": taken})
        if taken != size or whole.hexdigest() != sha256:
            raise AgentError("damaged", f"{path}: what arrived differs from what was sent")

    return _replace(call.path(path), mode, receive)


def list(call: Call, path: str) -> Listing:  # noqa: A001
    """The entries of a directory by name: `kind` (file, directory, link, other), `size`, `mode`,
    `modified` (Unix time) and, for a link, `link`. `exists` is false where there is none."""
    name = call.path(path)
    entries: Dict[str, Entry] = {}
    try:
        with os.scandir(name) as found:
            for entry in found:
                try:
                    entries[entry.name] = _entry(entry)
                except FileNotFoundError:
                    continue  # gone since the directory was read
    except FileNotFoundError:
        return {"path": name, "exists": False, "entries": {}}
    return {"path": name, "exists": True, "entries": entries}


def _entry(entry: "os.DirEntry[str]") -> Entry:
    status = entry.stat(follow_symlinks=False)
    return {
        "kind": _kind(status.st_mode),
        "size": status.st_size,
        "mode": stat.S_IMODE(status.st_mode),
        "modified": status.st_mtime,
        "link": os.readlink(entry.path) if entry.is_symlink() else None,
    }


def tree_digest(call: Call, path: str) -> TreeDigest:
    """One SHA-256 over everything below a directory: names, kinds, permission to execute,
    contents, and where links point (links are not followed). Times and owners do not count.
    Gives `exists`, `sha256`, `files` and `bytes`."""
    top = call.path(path)
    if not os.path.isdir(top):
        return {"path": top, "exists": False, "sha256": None, "files": 0, "bytes": 0}
    whole = hashlib.sha256()
    files = total = 0
    for name in _walk(top):
        call.step()
        status = os.lstat(name)
        kind = _kind(status.st_mode)
        content = ""
        if kind == "file":
            content = digest(name, step=call.step).hexdigest()
            files += 1
            total += status.st_size
        elif kind == "link":
            content = os.readlink(name)
        runs = "x" if kind == "file" and status.st_mode & 0o100 else "-"
        record = (kind, runs, os.path.relpath(name, top), content)
        whole.update("\0".join(record).encode("utf-8", "surrogateescape") + b"\0\n")
    return {
        "path": top,
        "exists": True,
        "sha256": whole.hexdigest(),
        "files": files,
        "bytes": total,
    }


def remove_tree(call: Call, path: str) -> Removed:
    """Remove a directory, file or link, only ever below the root (`outside` otherwise). It is
    moved aside first, so that half a tree is never met under its name. Gives `removed`."""
    name = call.path(path)
    root = os.path.realpath(call.root)
    above, last = os.path.split(name)
    place = os.path.join(os.path.realpath(above), last)
    if not place.startswith(root + os.sep) or last in ("", ".", ".."):
        raise AgentError("outside", f"{name} does not lie below {root}: not removed")
    aside = os.path.join(os.path.dirname(place), f"{ASIDE}{last}.{os.getpid()}")
    if os.path.isdir(aside) and not os.path.islink(aside):
        trees.remove(aside)  # of an agent that died over it and had our number
    try:
        os.rename(place, aside)
    except FileNotFoundError:
        return {"path": name, "removed": False}
    if os.path.isdir(aside) and not os.path.islink(aside):
        trees.remove(aside)
    else:
        os.unlink(aside)
    return {"path": name, "removed": True}


def disk(call: Call, path: str) -> Disk:
    """Bytes `free` for us and `total` of the file system that `path` lies on, or would."""
    name = call.path(path)
    place = name
    while not os.path.exists(place):
        place = os.path.dirname(place)
    status = os.statvfs(place)
    return {
        "path": name,
        "free": status.f_bavail * status.f_frsize,
        "total": status.f_blocks * status.f_frsize,
    }


def _replace(name: str, mode: Optional[int], fill: Callable[[BinaryIO], Any]) -> FileWritten:
    directory = os.path.dirname(name)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    try:
        before: Optional[os.stat_result] = os.stat(name)
    except FileNotFoundError:
        before = None
    if before is not None and stat.S_ISDIR(before.st_mode):
        raise AgentError("not-a-file", f"{name} is a directory")
    if mode is None:
        mode = stat.S_IMODE(before.st_mode) if before is not None else 0o600
    _sweep(directory)
    with replacing(name, mode, WRITING) as file:
        # Held for as long as it is written: a lock tells it from what a dead agent left.
        fcntl.flock(file, fcntl.LOCK_EX)
        if before is not None and os.geteuid() == 0:
            os.fchown(file.fileno(), before.st_uid, before.st_gid)
        fill(file)
    _sync_directory(directory)
    return {
        "path": name,
        "sha256": digest(name).hexdigest(),
        "size": os.stat(name).st_size,
        "mode": mode,
    }


def _sweep(directory: str) -> None:
    """Remove what agents left here that died while they wrote: half a wheel is hundreds of MB."""
    for entry in os.scandir(directory):
        if not entry.name.startswith(WRITING):
            continue
        try:
            with open_regular(entry.path) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - os.fstat(file.fileno()).st_mtime > STALE:
                    os.unlink(entry.path)
        except OSError:
            continue  # being written, or gone meanwhile


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _walk(top: str) -> Iterator[str]:
    """Everything below `top`, in an order that depends on names alone."""
    for directory, directories, files in os.walk(top, onerror=_raise):
        directories.sort()
        for name in sorted(directories + files):
            yield os.path.join(directory, name)


def _raise(error: OSError) -> None:
    raise error


def _kind(mode: int) -> str:
    for kind, test in (("file", stat.S_ISREG), ("directory", stat.S_ISDIR), ("link", stat.S_ISLNK)):
        if test(mode):
            return kind
    return "other"


def _decode(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError) as error:
        raise AgentError("bad-arguments", f"not base64: {error}") from error


OPERATIONS = (read, write, put, list, tree_digest, remove_tree, disk)
