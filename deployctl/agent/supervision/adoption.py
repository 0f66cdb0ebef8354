"""Servers that somebody started by hand: found on this host, and recorded as a unit's.

A recorded one can be looked at and stopped once, like any other, by its pid, start and boot; what
it was started with is a release to go back to (`engine/init/adopt`).
"""

from __future__ import annotations

import csv
import glob
import json
import os
import re
import shutil
import time
from contextlib import suppress
from typing import Any, Dict, List, Optional, Tuple

from ..build.dist_records import site_packages
from ..core import inheritance, layout
from ..core.atomic_files import boot_id, relink, write_json
from ..core.interface import AgentError, Call
from ..core.regular_files import read_text
from ..processes import namespaces, processes
from ..processes.processes import Stat
from ..wire.adoption import ByHand, Package, RunAs
from ..wire.answers import UnitState
from . import by_hand, systemd, units
from .server import MARK
from .unit_files import Unit

HIDDEN = "***"
_SWITCH = re.compile(r"(|0|1|true|false|on|off|yes|no)", re.I)
_PASSWORD = re.compile(r"://[^/@\s]+@")
_OTHERS = ("torch", "torchvision", "torchaudio", "torchcodec", "triton", "transformers")


def candidates(call: Call, pattern: str) -> List[ByHand]:
    """Processes whose name or command line matches, supervised ones and our own left out."""
    found = []
    for stat in processes.everyone():
        data = processes.read_cmdline(stat.pid)
        text = stat.comm + " " + data.replace(b"\0", b" ").decode("utf-8", "replace")
        if stat.pid != os.getpid() and stat.state not in "ZX" and re.search(pattern, text):
            try:
                described = _describe(stat, data)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
            if described is not None and processes.is_same(stat.pid, stat.start):
                found.append(described)
    return found


def _describe(stat: Stat, cmdline: bytes) -> Optional[ByHand]:
    base = "/proc/%d" % stat.pid
    paths = namespaces.cgroups(stat.pid)
    argv = [one.decode("utf-8", "replace") for one in cmdline.rstrip(b"\0").split(b"\0")]
    place = namespaces.container(paths)
    found: ByHand = {
        "pid": stat.pid,
        "start": stat.start,
        "started": processes.started_at(stat.start),
        "parent": stat.parent,
        "members": [],
        "comm": stat.comm,
        "argv": without_secrets(argv),
        "env": {},
        "secrets": [],
        "cwd": "",
        "user": namespaces.user_name(os.stat(base).st_uid),
        "run_as": run_as(base),
        "log": None,
        "service": namespaces.service(paths),
        "container": None,
        "environment": None,
        "package": None,
        "unknown": "",
    }
    try:
        env = _environment(base)
        found["cwd"] = os.readlink(base + "/cwd")
        inside = os.stat(base + "/ns/mnt").st_ino != os.stat("/proc/self/ns/mnt").st_ino
    except OSError as error:
        found["unknown"] = "its environment cannot be read: %s" % error.strerror
        return found
    if MARK in env:
        return None
    if inside:
        found["container"] = "%(kind)s %(name)s" % place if place else "a namespace of its own"
        found["unknown"] = "it runs in %s: adopt it there" % found["container"]
        return found
    found["secrets"] = sorted(name for name, value in env.items() if is_secret(name, value))
    found["env"] = {name: env[name] for name in env if name not in found["secrets"]}
    found["log"] = _log(base)
    found["members"] = [one.pid for one in by_hand.tree(stat.pid)]
    found["environment"] = environment_of(argv, found["cwd"], env.get("PATH", os.defpath))
    if found["environment"] is not None:
        found["package"] = package(found["environment"])
    return found


def run_as(base: str) -> RunAs:
    """The real user and groups of a process, and its umask."""
    status = namespaces.read_status(base)
    return {
        "uid": int(status["Uid"].split()[0]),
        "gid": int(status["Gid"].split()[0]),
        "groups": [int(one) for one in status["Groups"].split()],
        "umask": int(status.get("Umask", "0022"), 8),
    }


def is_secret(name: str, value: str) -> bool:
    """Whether a variable holds a secret, by its name or a password in a URL."""
    named = inheritance.names_secret(name) and not _SWITCH.fullmatch(value)
    return named or _PASSWORD.search(value) is not None


def without_secrets(argv: List[str]) -> List[str]:
    """A command line in which the values of arguments named like secrets are hidden, all of them
    where an option has several."""
    shown: List[str] = []
    hide = False
    for argument in argv:
        option = argument.startswith("-")
        hide = hide and not option
        if hide:
            shown.append(HIDDEN)
        elif option and processes.SECRET.fullmatch(argument):
            name, equals, _ = argument.partition("=")
            shown.append(name + equals + (HIDDEN if equals else ""))
            hide = not equals
        else:
            shown.append(_PASSWORD.sub("://%s@" % HIDDEN, argument))
    return shown


def _environment(base: str) -> Dict[str, str]:
    with open(base + "/environ", "rb") as file:
        pairs = (entry.partition(b"=") for entry in file.read().split(b"\0") if b"=" in entry)
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def _log(base: str) -> Optional[str]:
    """The file that it prints to; None for a terminal or a pipe."""
    with suppress(OSError):
        path = os.readlink(base + "/fd/1")
        if os.path.isfile(path) and path != os.devnull:
            return path
    return None


def environment_of(argv: List[str], cwd: str, path: str) -> Optional[str]:
    """The Python environment that a command line runs in: that of its script, else of its
    interpreter."""
    for word in (*argv[1:2], *argv[:1]):
        program = word if "/" in word else shutil.which(word, path=path)
        if program is None:
            continue
        folder = os.path.dirname(os.path.join(cwd, program))
        place = os.path.dirname(os.path.normpath(folder))
        if glob.glob(os.path.join(glob.escape(place), "lib", "python3*", "site-packages")):
            return place
    return None


def package(environment: str) -> Optional[Package]:
    """What provides the package vllm in an environment; None where nothing there does."""
    try:
        site = site_packages(environment)
    except AgentError:
        return None
    others: Dict[str, str] = {}
    chosen: Optional[Tuple[str, str, str]] = None
    for info in sorted(glob.glob(os.path.join(glob.escape(site), "*.dist-info"))):
        name, _, version = os.path.basename(info)[: -len(".dist-info")].rpartition("-")
        plain = name.lower().replace("_", "-")
        if plain in _OTHERS:
            others[plain] = version
        if plain.startswith("vllm") and (chosen is None or _provides(info)):
            chosen = (info, plain, version)
    found: Package = {
        "site": site,
        "python": os.path.basename(os.path.dirname(site))[len("python") :],
        **dict.fromkeys(("name", "version", "url", "commit", "path")),  # type: ignore[typeddict-item]
        "others": others,
    }
    if chosen is not None:
        info, found["name"], found["version"] = chosen
        _add_origin(found, json.loads(read_text(os.path.join(info, "direct_url.json")) or "{}"))
    return found


def _provides(info: str) -> bool:
    rows = csv.reader((read_text(os.path.join(info, "RECORD")) or "").splitlines())
    return any(row and row[0] == "vllm/__init__.py" for row in rows)


def _add_origin(found: Package, origin: Dict[str, Any]) -> None:
    """Where an installation came from (PEP 610)."""
    url = str(origin.get("url") or "")
    if "dir_info" in origin and url.startswith("file://"):
        found["path"] = url[len("file://") :]
    elif origin.get("vcs_info"):
        found["url"] = _PASSWORD.sub("://", url)
        found["commit"] = str(origin["vcs_info"].get("commit_id") or "") or None
    elif url:
        found["url"] = _PASSWORD.sub("://", url)


def record(
    call: Call,
    profile: str,
    unit: str,
    release: str,
    pid: int,
    start: int,
    argv: List[str],
    environment: str,
    key: str,
    drafter: Optional[str] = None,
    log: Optional[str] = None,
    grace: float = 20.0,
) -> UnitState:
    """Make a process that runs the unit's server, until it ends; its state then.

    `environment` becomes known as `@/environments/KEY`, and `drafter` as the release's, by links:
    neither is copied, changed or removed. Errors: `gone` where the process is another by now,
    `running` where the unit has a server.
    """
    files = Unit(call, profile, unit)
    with files.alone():
        now = units.state(call, profile, unit)
        if now["state"] in ("running", "starting") and (now["pid"], now["start"]) != (pid, start):
            raise AgentError("running", "unit %s runs already, pid %s" % (files.name, now["pid"]))
        if not processes.is_same(pid, start):
            raise AgentError("gone", "process %d has ended" % pid)
        serial = "%d-%d" % (time.time_ns(), os.getpid())
        directory = os.path.join(call.unit(profile, unit, "releases"), release)
        for target, link in (
            (environment, os.path.join(call.root, "environments", key)),
            (drafter, os.path.join(directory, "drafter")),
        ):
            if target is not None:
                os.makedirs(os.path.dirname(link), exist_ok=True)
                relink(target, link)
        write_json(
            files.file("record.json"),
            {
                "boot": boot_id(),
                "serial": serial,
                "supervisor": {},
                "state": "running",
                "restarts": 0,
                "pid": pid,
                "start": start,
                "started": processes.started_at(start),
            },
        )
        write_json(files.file("spec.json"), _spec(call, files, serial, release, argv, log, grace))
    return units.state(call, profile, unit)


def _spec(
    call: Call,
    files: Unit,
    serial: str,
    release: str,
    argv: List[str],
    log: Optional[str],
    grace: float,
) -> Dict[str, Any]:
    return {
        "serial": serial,
        "kind": by_hand.KIND,
        "service": systemd.service_name(call.root, files.profile, files.unit),
        "argv": argv,
        "env": {},
        "cwd": call.root,
        "log": log or files.file(layout.MAIN + ".log"),
        "release": release,
        "grace": grace,
        "watch": {},
        "limits": units.LIMITS,
    }


OPERATIONS = (candidates, record)
