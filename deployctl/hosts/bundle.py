"""The agent as one file: its package zipped, the same bytes for the same code."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import io
import marshal
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import platformdirs

AGENT = "deployctl.agent"
PACKAGE = "deployctl_agent"
UNCHECKED = b"\x01\0\0\0"
"""The flags of a .pyc that is valid whatever its source looks like."""
# What starts the agent, on any Python there is: it must be able to say "too old" to an old one.
# It keeps the agent by its hash, asks for the bytes only when they are missing, and hands over
# requests that arrived meanwhile, so that a first request needs no extra round trip. It begins
# with an empty line: a login script's greeting may lack its own end. What it makes is private (63
# is 0o077, 448 is 0o700), and a root that somebody else may write to is not used.
BOOTSTRAP = """\
import sys,os,json,base64,hashlib
i=getattr(sys.stdin,"buffer",sys.stdin);o=os.fdopen(os.dup(1),"w");os.dup2(2,1)
o.write("\\n")
def say(m):
    o.write(json.dumps(m)+"\\n");o.flush()
if sys.version_info<(3,9):
    say({"refused":"python","why":sys.version.split()[0]});sys.exit(3)
h=json.loads(i.readline())
r=h["root"] or ("/var/lib/deployctl" if os.geteuid()==0 else os.path.join(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"),"deployctl"))
r=os.path.abspath(os.path.expanduser(r));d=os.path.join(r,"agent");p=os.path.join(d,h["hash"]+".pyz");b=[];u=os.umask(63)
def own():
    s=os.stat(r)
    if s.st_uid!=os.geteuid():
        return "%s belongs to user %d, the agent is user %d"%(r,s.st_uid,os.geteuid())
    if s.st_mode&63:
        if os.listdir(r) and not os.path.isdir(d):
            return "%s holds other things, and others may enter it: mode %o"%(r,s.st_mode&4095)
        os.chmod(r,448)
def kept():
    try:
        with open(p,"rb") as f:
            return hashlib.sha256(f.read()).hexdigest()==h["hash"]
    except OSError:
        return False
try:
    os.makedirs(r,exist_ok=True)
    w=own()
    if w:
        say({"refused":"owner","why":w});sys.exit(4)
    if not kept():
        os.makedirs(d,exist_ok=True);say({"need":h["hash"]})
        while 1:
            l=i.readline()
            if not l: sys.exit(4)
            if l.startswith(b'{"code"'): break
            b.append(l)
        t=p+"."+str(os.getpid())
        try:
            with open(t,"wb") as f:
                f.write(base64.b64decode(json.loads(l)["code"]))
            os.replace(t,p)
        except OSError:
            if os.path.exists(t): os.unlink(t)
            raise
except OSError as e:
    say({"refused":"root","why":str(e)});sys.exit(4)
sys.path.insert(0,p)
sys.dont_write_bytecode=True
from deployctl_agent.main import serve
serve(i,o,r,h["silence"],b,u)
"""


@dataclass(frozen=True)
class Bundle:
    """The agent's bytes and their SHA-256, by which a host keeps them."""

    data: bytes
    sha256: str


def _modules(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    """Every module below a folder, by its path from there."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _modules(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield prefix + entry.name, entry.read_bytes()


@functools.cache
def bundle() -> Bundle:
    """The agent zipped, with its modules compiled for this Python beside their source.

    A host whose Python is another version ignores what is compiled and takes the source, which
    costs a third of a second of processor time at each start. Compiled once, and kept in the
    user's cache; where nothing can be kept there, the source alone is sent.
    """
    files = [(f"{PACKAGE}/{name}", data) for name, data in _modules(resources.files(AGENT))]
    start = f"import sys\nfrom {PACKAGE}.main import main\nsys.exit(main(sys.argv[1:]))\n"
    files = [*sorted(files), ("__main__.py", start.encode())]
    plain = hashlib.sha256(b"".join(name.encode() + data for name, data in files)).hexdigest()
    kept = Path(platformdirs.user_cache_dir("deployctl")) / "agent"
    path = kept / f"{plain[:32]}-{sys.implementation.cache_tag}.pyz"
    data = _own(path)
    if data is None:
        data = _zipped([*files, *((f"{name}c", _compiled(name, text)) for name, text in files)])
        if not _keep(path, data):
            data = _zipped(files)
    return Bundle(data, hashlib.sha256(data).hexdigest())


def _compiled(name: str, text: bytes) -> bytes:
    """A module as an unchecked hash-based .pyc (PEP 552): its source never travels apart."""
    code = compile(text, name, "exec", dont_inherit=True, optimize=0)
    return importlib.util.MAGIC_NUMBER + UNCHECKED + bytes(8) + marshal.dumps(code)


def _zipped(files: Sequence[tuple[str, bytes]]) -> bytes:
    """A zip file; times are fixed, so that its bytes follow the code alone."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            # A ZipInfo brings its own compression: none.
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return buffer.getvalue()


def _own(path: Path) -> bytes | None:
    """A kept archive; None where there is none, or where others may have written it."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid == os.geteuid() and not status.st_mode & 0o022:
                return file.read()
    except OSError:
        pass
    return None


def _keep(path: Path, data: bytes) -> bool:
    """Whether an archive could be kept, in one step and for its owner alone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
        Path(file.name).replace(path)
    except OSError:
        return False
    return True
