"""Whether an environment is whole: records, sizes, hashes, imports, and who still works on it."""

from __future__ import annotations

import csv
import glob
import json
import os
import re
from typing import TYPE_CHECKING, List, Optional, Tuple

from ..core import inheritance, programs
from ..core.archive import agent_program
from ..core.interface import AgentError, Call
from ..core.regular_files import digest, read_text
from ..processes.processes import command, describe_process, everyone
from ..wire.answers import Process
from ..wire.builds import Confined, Distribution, Imports, Inherited, Installed
from .dist_records import record_hash, site_packages

if TYPE_CHECKING:
    from email.message import Message

SHOWN = 10
INHERITED = 100

# One child imports torch, forks one that imports the package, and that one forks once an extension,
# a few at a time: two variants of one extension register the same operators and cannot live in one
# process. Where the package loads an extension itself, the others are imported without it.
_IMPORTS = """\
import importlib, json, os, sys, traceback
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
wanted = json.loads(sys.argv[1])
at_once = len(os.sched_getaffinity(0))
def text(value):
    return None if value is None else str(value)
def forked(work):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        with os.fdopen(write, "wb") as pipe:
            pipe.write(work())
            pipe.flush()
            os._exit(0)
    os.close(write)
    return child, read
def ended(child, read):
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode("utf-8", "replace")
    return said, os.waitpid(child, 0)[1] & 127
def tried(name):
    try:
        try:
            importlib.import_module(name)
        except ImportError as error:
            # A library of torch operators alone is no module; torch loads it by its path.
            if "module export function" not in str(error):
                raise
            torch.ops.load_library(error.path)
    except BaseException as error:
        return f"{type(error).__name__}: {error}".encode()[:4000]
    return b"ok"
def all_tried(names):
    found = {}
    for at in range(0, len(names), at_once):
        some = names[at : at + at_once]
        begun = [forked(lambda name=name: tried(name)) for name in some]
        for name, (said, number) in zip(some, [ended(*one) for one in begun]):
            error = said or f"the import ended by signal {number}"
            found[name] = None if said == "ok" else error
    return found
def packaged():
    try:
        package = importlib.import_module(wanted["package"])
        try:
            version = importlib.import_module(wanted["package"] + "._version")
            commit = text(getattr(version, "__commit_id__", None))
        except ImportError:
            commit = None
        loaded = [name for name in wanted["extensions"] if name in sys.modules]
        known = dict.fromkeys(loaded) if loaded else all_tried(wanted["extensions"])
        return json.dumps({"version": text(getattr(package, "__version__", None)),
            "file": package.__file__, "commit": commit, "extensions": known}).encode()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
found = {"torch": None, "torch_error": None}
try:
    import torch
    found["torch"] = {"version": str(torch.__version__), "cuda": torch.version.cuda,
                      "architectures": torch.cuda.get_arch_list() if torch.version.cuda else []}
except ImportError as error:
    found["torch_error"] = str(error)
said, number = ended(*forked(packaged))
if not said:
    sys.exit(f"the import ended by signal {number}" if number else 1)
found.update(json.loads(said))
rest = [name for name in wanted["extensions"] if name not in found["extensions"]]
found["extensions"].update(all_tried(rest))
json.dump(found, answer)
"""


def complete(
    call: Call,
    environment: str,
    package: str = "vllm",
    deep: bool = False,
    base: Optional[str] = None,
) -> Installed:
    """What `environment` holds, by its records: every distribution with its version, which of
    them provide `package` (and what they `needs`), and every recorded file that is missing or has
    another size (another hash, when `deep`). What is so in the environment `base` already, from
    which this one was linked, is `inherited` instead. Errors: `no-environment`."""
    site = site_packages(call.path(environment))
    before = _base_site(call, base)
    inherited: List[Inherited] = []
    distributions: List[Distribution] = []
    providers: List[Distribution] = []
    problems: List[str] = []
    entries = 0
    for path in _dist_infos(site):
        call.step()
        found, rows, provides = _distribution(path, package)
        distributions.append(found)
        if provides:
            providers.append(found)
        count, wrong = _check_record(call, site, rows, deep)
        entries += count
        known = _wrong_before(call, before, found["dist_info"], deep) if wrong else []
        inherited += [{"name": found["name"], "text": text} for text in wrong if text in known]
        wrong = [text for text in wrong if text not in known]
        found["problems"] = len(wrong)
        problems += [f"{found['name']}: {text}" for text in wrong]
    extensions = sorted(
        os.path.relpath(path, site)
        for path in glob.glob(
            os.path.join(glob.escape(site), package, "**", "*.so"), recursive=True
        )
    )
    return {
        "site_packages": site,
        "providers": providers,
        "distributions": distributions,
        "entries": entries,
        "problems": problems[:SHOWN],
        "problem_count": len(problems),
        "inherited": inherited[:INHERITED],
        "extensions": extensions,
        "deep": deep,
    }


def _base_site(call: Call, base: Optional[str]) -> Optional[str]:
    """Where a base's distributions lie; None where there is none (any more)."""
    try:
        return None if base is None else site_packages(call.path(base))
    except AgentError:
        return None


def _wrong_before(call: Call, site: Optional[str], info: str, deep: bool) -> List[str]:
    """What is wrong with the same distribution in the base."""
    path = os.path.join(site or "", info)
    if site is None or not os.path.isdir(path):
        return []
    record = read_text(os.path.join(path, "RECORD"))
    return _check_record(call, site, list(csv.reader((record or "").splitlines())), deep)[1]


def imports(
    call: Call,
    environment: str,
    extensions: List[str],
    package: str = "vllm",
    timeout: float = 300.0,
    confined: Optional[Confined] = None,
) -> Imports:
    """Import `package` and each extension in children of the environment's own Python.
    `confined` has the `argv` (after the agent's own) and the `env` by which another user imports
    it. Errors: `import-failed` with the last words, `timeout`."""
    python = os.path.join(call.path(environment), "bin", "python")
    wanted = json.dumps({"package": package, "extensions": extensions})
    argv, env = [python, "-I", "-c", _IMPORTS, wanted], {}
    if confined is not None:
        argv = [*agent_program(), *map(call.placed, confined["argv"]), *argv]
        env = {name: call.placed(value) for name, value in confined["env"].items()}
    answer = programs.ask(call, argv, timeout, env, allowed=inheritance.BUILD)
    if answer.status is None:
        raise AgentError("timeout", f"import {package} took longer than {timeout:g} s")
    if answer.status != 0:
        lines = answer.stderr.strip().splitlines()
        why = lines[-1] if lines else f"status {answer.status}"
        raise AgentError("import-failed", f"import {package}: {why}", answer.stderr[-4000:])
    found: Imports = json.loads(answer.stdout)
    return found


def builders(call: Call, paths: List[str]) -> List[Process]:
    """Processes that work below one of these paths: by working directory, program or argument."""
    given = [call.path(path) for path in paths]
    # The kernel tells paths without the links that may stand in them.
    places = [*given, *(os.path.realpath(place) for place in given)]
    found = []
    for stat in everyone():
        if stat.pid == os.getpid() or stat.state in "ZX":
            continue
        named = command(stat.pid) + [_link(stat.pid, "cwd"), _link(stat.pid, "exe")]
        if any(_below(text, place) for text in named for place in places):
            found.append(describe_process(stat))
    return found


def _link(pid: int, name: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return ""


def _below(text: str, place: str) -> bool:
    return text == place or text.startswith(place + os.sep)


def _dist_infos(site: str) -> List[str]:
    return sorted(glob.glob(os.path.join(glob.escape(site), "*.dist-info")))


def _distribution(path: str, package: str) -> Tuple[Distribution, List[List[str]], bool]:
    """One distribution, the rows of its RECORD, and whether it provides the package."""
    name, version = os.path.basename(path)[: -len(".dist-info")].rsplit("-", 1)
    metadata = read_text(os.path.join(path, "METADATA"))
    if metadata:
        headers = _headers(metadata)
        name, version = headers["Name"] or name, headers["Version"] or version
    direct = read_text(os.path.join(path, "direct_url.json"))
    record = read_text(os.path.join(path, "RECORD"))
    rows = list(csv.reader(record.splitlines())) if record else []
    normal = _normal(name)
    installer = (read_text(os.path.join(path, "INSTALLER")) or "").strip() or None
    holds = any(row and row[0] == f"{package}/__init__.py" for row in rows)
    found: Distribution = {
        "name": name,
        "version": version,
        "dist_info": os.path.basename(path),
        "installer": installer,
        "direct_url": json.loads(direct) if direct else None,
        "needs": _needs(metadata) if holds else [],
        "problems": 0,
    }
    # A dist-info of the package's own name without a record is a half install.
    return found, rows, holds or (normal == package and not rows)


def _needs(metadata: Optional[str]) -> List[str]:
    """The names of the distributions that one requires itself, extras left out."""
    wanted = [str(line) for line in _headers(metadata or "").get_all("Requires-Dist", [])]
    names = [re.match(r"[A-Za-z0-9._-]+", line) for line in wanted if "extra ==" not in line]
    return sorted({_normal(name.group()) for name in names if name})


def _headers(metadata: str) -> "Message":
    from email.parser import Parser  # half of this module's import

    return Parser().parsestr(metadata, headersonly=True)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _check_record(
    call: Call, site: str, rows: List[List[str]], deep: bool
) -> Tuple[int, List[str]]:
    if not rows:
        return 0, ["no RECORD"]
    wrong = []
    for row in rows:
        # Bytecode is written again at install, whatever a wheel has recorded.
        if len(row) < 3 or row[0].endswith(".pyc"):
            continue
        path = os.path.join(site, row[0])
        try:
            size: Optional[int] = os.stat(path).st_size
        except OSError:
            size = None
        if size is None:
            wrong.append(f"{row[0]} is missing")
        elif row[2] and size != int(row[2]):
            wrong.append(f"{row[0]} has {size} bytes, recorded are {row[2]}")
        elif deep and row[1] and not _has_hash(call, path, row[1]):
            wrong.append(f"{row[0]} has another hash than recorded")
    return len(rows), wrong


def _has_hash(call: Call, path: str, recorded: str) -> bool:
    algorithm, value = recorded.split("=", 1)
    return record_hash(digest(path, algorithm, call.step)) == value
