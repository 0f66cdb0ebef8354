"""Small works of a job's steps, run as ``python AGENT.pyz chore NAME ARGUMENT…`` (`@agent`)."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
from typing import Callable, Dict, List, Optional, Sequence

from ..core import trees
from ..core.atomic_files import write_text
from ..core.interface import AgentError
from ..core.regular_files import open_regular
from . import checkouts, confinement, git_tasks, patch_files, patching, wheel_store
from .dist_records import read, refresh, site_packages

INSTALLER = "deployctl"


def offer(directory: str, python: str, uv: str, *requirements: str) -> int:
    """Put wheels that pip's own configuration offers (uv does not read it) into `directory`.

    pip must run under the version that the wheels are for. A Python of that version may have none
    (Debian's has not): uv brings it one.
    """
    os.makedirs(directory, exist_ok=True)
    argv = [*_pip(python, uv), "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    try:
        return subprocess.call([*argv, "--dest", directory, *requirements])
    except OSError as error:
        print(f"{argv[0]}: {error}", file=sys.stderr)
        return 1


def _pip(python: str, uv: str) -> List[str]:
    """pip under this Python, given by its version or path."""
    own = [python if os.sep in python else f"python{python}", "-I", "-m", "pip"]
    try:
        asked = subprocess.run([*own, "--version"], capture_output=True, check=False)
        if asked.returncode == 0:
            return own
    except OSError:
        pass  # no such Python here; uv finds or brings one
    return [uv, "tool", "run", "--python", python, "--from", "pip", "pip"]


def provide(environment: str, distribution: str, local: str) -> int:
    """Make `vllm` findable by name where another distribution provides it.

    vllm asks importlib.metadata for the version of `vllm`, and takes a `cpu` in it for the sign
    of its CPU build; a dist-info of that name beside the real one answers both.
    """
    site = site_packages(environment)
    stem = distribution.replace("-", "_")
    version = _version(site, stem)
    if version is None:
        print(f"{distribution} is not installed in {environment}", file=sys.stderr)
        return 1
    if local and local not in version:
        version += f"+{local}"
    info = f"vllm-{version}.dist-info"
    os.makedirs(os.path.join(site, info), exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n"
    files = {"METADATA": metadata, "INSTALLER": INSTALLER + "\n"}
    for name, text in files.items():
        write_text(os.path.join(site, info, name), text, 0o644)
    lines = [f"{info}/{name},,{len(text)}\n" for name, text in files.items()]
    write_text(os.path.join(site, info, "RECORD"), "".join(lines) + f"{info}/RECORD,,\n", 0o644)
    print(f"vllm {version} is provided by {distribution}")
    return 0


def refuse(log: str, *texts: str) -> int:
    """Fail when a job's log holds one of these texts: a build that succeeded the wrong way."""
    with open(log, encoding="utf-8", errors="replace") as file:
        # The command lines of the job, ours among them, hold the texts too.
        lines = [line for line in file if not line.startswith("$ ")]
    wrong = [line.strip() for line in lines if any(text in line for text in texts)]
    if wrong:
        print(f"refused: {wrong[0]}", file=sys.stderr)
    return 1 if wrong else 0


def link(base: str, environment: str) -> int:
    """A copy of an environment whose files are hard links (copies on another file system), with
    its own place in the scripts that name it, and in the records of those scripts. The base is not
    written to."""
    trees.remove(environment)
    shutil.copytree(base, environment, symlinks=True, copy_function=_link)
    changed = []
    for name in sorted(os.listdir(os.path.join(environment, "bin"))):
        path = os.path.join(environment, "bin", name)
        if os.path.islink(path) or not os.path.isfile(path):
            continue
        with open_regular(path) as file:
            data = file.read()
        if b"\0" in data or base.encode() not in data:
            continue
        mode = os.stat(path).st_mode
        text = data.decode("utf-8", "surrogateescape")
        write_text(path, re.sub(re.escape(base) + r"(?![\w.-])", environment, text), mode)
        changed.append(path)
    _record_scripts(environment, changed)
    return 0


def _record_scripts(environment: str, scripts: Sequence[str]) -> None:
    site = site_packages(environment)
    names = {os.path.relpath(path, site) for path in scripts}
    for info in glob.glob(os.path.join(glob.escape(site), "*.dist-info")):
        listed = names.intersection(read(os.path.join(info, "RECORD")))
        if listed:
            refresh(site, os.path.basename(info), sorted(listed))


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
    return target


def _version(site: str, stem: str) -> Optional[str]:
    found = glob.glob(os.path.join(glob.escape(site), f"{stem}-*.dist-info"))
    if len(found) != 1:
        return None
    return os.path.basename(found[0])[len(stem) + 1 : -len(".dist-info")]


CHORES: Dict[str, Callable[..., int]] = {
    "apply": patch_files.apply,
    "confined": confinement.confined,
    "discard": git_tasks.discard,
    "export": checkouts.export,
    "fetch": git_tasks.fetch,
    "keep": wheel_store.keep,
    "layout": git_tasks.layout,
    "link": link,
    "offer": offer,
    "patch": patching.patch,
    "probe": confinement.probe,
    "provide": provide,
    "refuse": refuse,
}


def main(argv: Sequence[str]) -> int:
    """Run one chore; 1 when it fails, 2 for one that there is not."""
    name, arguments = argv[0], list(argv[1:])
    if name not in CHORES:
        print(f"no chore {name!r}", file=sys.stderr)
        return 2
    try:
        return CHORES[name](*arguments)
    except (AgentError, OSError) as error:
        kind = error.kind if isinstance(error, AgentError) else type(error).__name__
        print(f"{name} failed ({kind}): {error}", file=sys.stderr)
        return 1
