"""An environment as a folder that another host can install from without any index.

::

    wheels/*.whl            every distribution, made into a wheel again
    kept/<key>/             the wheel that was built here, with its record, as `@/wheels/<key>/`
    interpreter.tar.gz      the Python below it, where uv had brought that
    requirements.txt        every distribution with its version
    parcel.json             {"python", "interpreter", "kept", "named"}
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import List, NamedTuple, Optional, Tuple

from ..build.dist_records import site_packages
from ..build.wheel_store import RECORD, WHEELS
from ..core.atomic_files import read_json, write_json, write_text
from ..core.interface import AgentError, Call
from ..core.regular_files import read_text
from ..wire.shipping import Unpacked
from .pieces import MOST_THREADS
from .wheels import rebuild

NOTE = "parcel.json"
REQUIREMENTS = "requirements.txt"
INTERPRETER = "interpreter.tar.gz"
PYTHONS = "@/tools/python"
LENT = "deployctl"
"""The installer's name of a dist-info that only lends a name; the receiver makes its own."""
_MANAGED = re.compile(r"(cpython|pypy|graalpy)-\d+(\.\d+)*[\w.+-]*")
"""The folder of a Python that uv brought (`uv python list`): it runs wherever it lies."""


class Installed(NamedTuple):
    """A distribution as it lies in an environment."""

    info: str
    name: str
    version: str
    direct: str
    """Where on this host it was installed from; empty where it was not from a file."""


def main(environment: str, folder: str) -> int:
    """Pack, as a job does it; 1 when that fails."""
    try:
        pack(environment, folder)
    except (AgentError, OSError) as error:
        print("packing failed: %s" % error, file=sys.stderr)
        return 1
    return 0


def pack(environment: str, folder: str) -> None:
    """Make the parcel of an environment; it has its name once it is whole."""
    if os.path.exists(os.path.join(folder, NOTE)):
        print("packed already: %s" % folder)
        return
    part = folder + ".part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(os.path.join(part, "wheels"))
    site = site_packages(environment)
    found = [one for one in _installed(site) if one is not None]
    kept = [(one, key) for one in found for key in [_kept_key(one.direct)] if key]
    alone = [one for one in found if one not in [own for own, _ in kept]]
    _rebuild_all(site, alone, os.path.join(part, "wheels"))
    for one, key in kept:
        _keep(one.direct, os.path.join(part, "kept", key))
    python, interpreter = _interpreter(environment)
    if interpreter:
        _pack_tree(interpreter, os.path.join(part, INTERPRETER))
    lines = ["%s==%s\n" % (one.name, one.version) for one in alone]
    write_text(os.path.join(part, REQUIREMENTS), "".join(lines))
    write_json(
        os.path.join(part, NOTE),
        {
            "python": python,
            "interpreter": os.path.basename(interpreter),
            "kept": [key for _, key in kept],
        },
    )
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(part, folder)
    print("packed %d distributions: %s" % (len(found), folder))


def unpack(call: Call, folder: str) -> Unpacked:
    """Put what a parcel brings beside its wheels in place: `python` is what the environment is
    created with (a version where it brings none), `kept` the keys of built wheels. Error
    `no-parcel`."""
    place = call.path(folder)
    note = read_json(os.path.join(place, NOTE))
    if note is None:
        raise AgentError("no-parcel", "%s holds no parcel" % place)
    for key in note["kept"]:
        _place_wheel(call, os.path.join(place, "kept", _plain(key)), key)
    python = note["python"]
    if note["interpreter"]:
        home = os.path.join(call.path(PYTHONS), _plain(note["interpreter"]))
        if not os.path.isdir(home):
            _unpack_tree(call, os.path.join(place, INTERPRETER), home)
        python = os.path.join(home, "bin", "python3")
    # Folders without files do not travel.
    os.makedirs(os.path.join(place, "wheels"), exist_ok=True)
    return {"python": python, "kept": note["kept"], "place": place}


def _installed(site: str) -> List[Optional[Installed]]:
    return [_described(path) for path in sorted(glob.glob(glob.escape(site) + "/*.dist-info"))]


def _described(path: str) -> Optional[Installed]:
    info = os.path.basename(path)
    if (read_text(os.path.join(path, "INSTALLER")) or "").strip() == LENT:
        return None
    name, _, version = info[: -len(".dist-info")].rpartition("-")
    direct = read_text(os.path.join(path, "direct_url.json"))
    told = json.loads(direct) if direct else {}
    if (told.get("dir_info") or {}).get("editable"):
        raise AgentError("no-wheel", "%s is installed in place, from a folder of this host" % name)
    url = str(told.get("url", ""))
    return Installed(info, name, version, url[len("file://") :] if url.startswith("file:") else "")


def _kept_key(direct: str) -> str:
    """The key of the kept wheel that a distribution was installed from; empty for any other."""
    folder = os.path.dirname(direct)
    known = direct.endswith(".whl") and os.path.exists(os.path.join(folder, RECORD))
    return os.path.basename(folder) if known else ""


def _rebuild_all(site: str, found: List[Installed], folder: str) -> None:
    """Every wheel, several at once; counters for the log."""
    threads = min(MOST_THREADS, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(threads) as pool:
        work = [pool.submit(rebuild, site, one.info, folder) for one in found]
        for count, done in enumerate(as_completed(work), 1):
            print("[%d/%d] %s" % (count, len(found), done.result()), flush=True)


def _keep(wheel: str, folder: str) -> None:
    os.makedirs(folder)
    for path in (wheel, os.path.join(os.path.dirname(wheel), RECORD)):
        shutil.copyfile(path, os.path.join(folder, os.path.basename(path)))


def _interpreter(environment: str) -> Tuple[str, str]:
    """The Python's version, and its folder where uv had brought it (empty otherwise)."""
    program = os.path.realpath(os.path.join(environment, "bin", "python"))
    home = os.path.dirname(os.path.dirname(program))
    version = "%s" % os.path.basename(os.path.dirname(site_packages(environment)))[len("python") :]
    return version, home if _MANAGED.fullmatch(os.path.basename(home)) else ""


def _pack_tree(folder: str, path: str) -> None:
    def own(entry: tarfile.TarInfo) -> Optional[tarfile.TarInfo]:
        if "__pycache__" in entry.name.split("/"):
            return None
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        archive.add(folder, arcname=".", filter=own)


def _unpack_tree(call: Call, path: str, folder: str) -> None:
    part = "%s.part.%d" % (folder, os.getpid())
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    with tarfile.open(path, "r:gz") as archive:
        for entry in archive:
            call.step()
            _check(entry)
            if sys.version_info >= (3, 12):
                archive.extract(entry, part, filter="tar")
            else:
                archive.extract(entry, part)
    if os.path.isdir(folder):
        shutil.rmtree(part)
    else:
        os.rename(part, folder)


def _check(entry: tarfile.TarInfo) -> None:
    """Error `no-parcel` for an entry that leads out of the folder that it is meant for."""
    names = [entry.name]
    if entry.issym():
        names.append(os.path.join(os.path.dirname(entry.name), entry.linkname))
    elif entry.islnk():
        names.append(entry.linkname)
    ordinary = entry.isfile() or entry.isdir() or entry.issym() or entry.islnk()
    leads_out = any(
        os.path.isabs(name) or os.path.normpath(name).split("/")[0] == ".." for name in names
    )
    if leads_out or not ordinary:
        raise AgentError("no-parcel", "its Python has an entry %s" % ascii(entry.name)[:200])


def _place_wheel(call: Call, folder: str, key: str) -> None:
    target = os.path.join(call.path(WHEELS), key)
    if os.path.exists(os.path.join(target, RECORD)):
        return
    os.makedirs(target, exist_ok=True)
    names = sorted(os.listdir(folder), key=lambda name: name == RECORD)
    for name in names:  # the record last: without it, it does not count as a wheel
        shutil.copyfile(os.path.join(folder, name), os.path.join(target, name))


def _plain(name: str) -> str:
    if os.path.basename(name) != name or name in ("", ".", ".."):
        raise AgentError("no-parcel", "invalid name %s" % ascii(name)[:200])
    return name
