"""An installed distribution made into a wheel again, from its own records.

Format: PyPA's binary distribution format and "recording installed projects". What an installer
makes (INSTALLER, bytecode, the programs of entry points) is left out, and the receiver's makes it
again. Every file is compared with its record on the way: what was changed since is not passed on.
"""

from __future__ import annotations

import configparser
import csv
import hashlib
import io
import os
import re
import stat
import zipfile
from email.parser import Parser
from typing import BinaryIO, Iterator, List, NamedTuple, Set, Tuple

from ..build.dist_records import read, record_hash
from ..core.interface import AgentError
from ..core.regular_files import CHUNK, open_regular

MADE_BY_INSTALLERS = {
    *("INSTALLER", "REQUESTED", "RECORD", "RECORD.jws", "RECORD.p7s"),
    *("uv_cache.json", "uv_build.json"),
}
EARLIEST = (1980, 1, 1, 0, 0, 0)
LEVEL = 1
"""Of compression: what travels within a rack is not worth more processor time."""
_TRAMPOLINE = re.compile(rb"#!/bin/sh\n'''exec' [^\n]*\n' '''\n")
_PYTHON = re.compile(rb"#![^\n]*python[^\n]*\n")


class Member(NamedTuple):
    """A file of a wheel: its name there, where it lies, and its row of the record."""

    name: str
    path: str
    row: List[str]
    script: bool = False


def rebuild(site: str, info: str, folder: str) -> str:
    """Make the wheel of a distribution (`info` is its dist-info in `site`); gives its file's name.
    Errors: `no-wheel` where its records do not say enough, `damaged` where they are not true."""
    rows = read(os.path.join(site, info, "RECORD"))
    stem = info[: -len(".dist-info")]
    if not rows:
        raise AgentError("no-wheel", "%s has no RECORD" % stem)
    name = "%s-%s.whl" % (stem, _tags(site, info))
    record = io.StringIO()
    lines = csv.writer(record, lineterminator="\n")
    with zipfile.ZipFile(os.path.join(folder, name), "w", allowZip64=True) as wheel:
        for member in _members(site, info, list(rows.values())):
            lines.writerow([member.name, *_add(wheel, member)])
        lines.writerow(["%s/RECORD" % info, "", ""])
        _write(wheel, "%s/RECORD" % info, record.getvalue().encode("utf-8"))
    return name


def _tags(site: str, info: str) -> str:
    """What a wheel's name says behind name and version: Python, ABI and platform."""
    path = os.path.join(site, info, "WHEEL")
    try:
        with open_regular(path) as file:
            told = Parser().parsestr(file.read().decode("utf-8"), headersonly=True)
    except FileNotFoundError:
        raise AgentError("no-wheel", "%s has no WHEEL" % info) from None
    tags = [str(tag).strip().split("-") for tag in told.get_all("Tag", [])]
    if not tags or any(len(tag) != 3 for tag in tags):
        raise AgentError("no-wheel", "%s: its WHEEL names no tag" % info)
    parts = [".".join(dict.fromkeys(tag[i] for tag in tags)) for i in range(3)]
    build = [str(told["Build"]).strip()] if told["Build"] else []
    return "-".join([*build, *parts])


def _members(site: str, info: str, rows: List[List[str]]) -> Iterator[Member]:
    """The files of a wheel, from the rows of an installed record."""
    prefix = os.path.dirname(os.path.dirname(os.path.dirname(site)))
    made = _entry_points(os.path.join(site, info, "entry_points.txt"))
    data = "%s.data" % info[: -len(".dist-info")]
    for row in sorted(rows):
        path = os.path.normpath(os.path.join(site, row[0]))
        inside = os.path.relpath(path, site)
        if inside.endswith(".pyc") or inside in _left_out(site, info):
            continue
        if not inside.startswith(".."):
            yield Member(inside, path, row)
            continue
        below = os.path.relpath(path, prefix)
        if below.startswith(".."):
            raise AgentError("no-wheel", "%s lies outside of its environment" % path)
        if os.path.dirname(below) == "bin":
            if os.path.basename(below) not in made:
                script = "%s/scripts/%s" % (data, os.path.basename(below))
                yield Member(script, path, row, script=True)
        else:
            yield Member("%s/data/%s" % (data, below), path, row)


def _left_out(site: str, info: str) -> Set[str]:
    names = set(MADE_BY_INSTALLERS)
    direct = os.path.join(site, info, "direct_url.json")
    if os.path.exists(direct):
        with open_regular(direct) as file:
            # A place on this host does not exist on another; an index or a repository is the same
            # there.
            if b'"file:' in file.read():
                names.add("direct_url.json")
    return {"%s/%s" % (info, name) for name in names}


def _entry_points(path: str) -> Set[str]:
    """The programs that an installer makes of a distribution."""
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        with open_regular(path) as file:
            parser.read_string(file.read().decode("utf-8"))
    except FileNotFoundError:
        return set()
    except (configparser.Error, UnicodeDecodeError) as error:
        raise AgentError("no-wheel", "%s cannot be read: %s" % (path, error)) from error
    groups = ("console_scripts", "gui_scripts")
    return {name for group in groups if parser.has_section(group) for name in parser[group]}


def _add(wheel: zipfile.ZipFile, member: Member) -> Tuple[str, str]:
    """Put a file into a wheel; its hash and size there."""
    try:
        with open_regular(member.path) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if member.script:
                found = file.read()
                digest = "sha256=" + record_hash(hashlib.sha256(found))
                _compare(member, digest, len(found))
                text = _PYTHON.sub(b"#!python\n", _TRAMPOLINE.sub(b"#!python\n", found, 1), 1)
                return _write(wheel, member.name, text, 0o755)
            return _copy(wheel, member, file, mode)
    except FileNotFoundError:
        raise AgentError("damaged", "%s is missing" % member.path) from None


def _copy(wheel: zipfile.ZipFile, member: Member, file: BinaryIO, mode: int) -> Tuple[str, str]:
    entry = _entry(member.name, mode)
    entry.file_size = os.fstat(file.fileno()).st_size
    seen = hashlib.sha256()
    size = 0
    with wheel.open(entry, "w") as target:
        for data in iter(lambda: file.read(CHUNK), b""):
            seen.update(data)
            size += len(data)
            target.write(data)
    _compare(member, "sha256=" + record_hash(seen), size)
    return "sha256=" + record_hash(seen), str(size)


def _compare(member: Member, found: str, size: int) -> None:
    """Error `damaged` where a file is not the one that its record tells of."""
    told = [*member.row, "", ""][1:3]
    other_hash = told[0].startswith("sha256=") and told[0].rstrip("=") != found
    if other_hash or (told[1] and told[1] != str(size)):
        raise AgentError("damaged", "%s differs from its record" % member.path)


def _write(wheel: zipfile.ZipFile, name: str, data: bytes, mode: int = 0o644) -> Tuple[str, str]:
    with wheel.open(_entry(name, mode), "w") as target:
        target.write(data)
    return "sha256=" + record_hash(hashlib.sha256(data)), str(len(data))


def _entry(name: str, mode: int) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name, EARLIEST)
    made.compress_type = zipfile.ZIP_DEFLATED
    made.external_attr = (stat.S_IFREG | (0o755 if mode & 0o100 else 0o644)) << 16
    made._compresslevel = LEVEL  # type: ignore[attr-defined]
    return made
