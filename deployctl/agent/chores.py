"""Small works of a job's steps, run as ``python AGENT.pyz chore NAME ARGUMENT…`` (`@agent`)."""

from __future__ import annotations

import glob
import os
import subprocess
import sys
from typing import Callable, Dict, Optional, Sequence

from .jobfiles import write_text

INSTALLER = "deployctl"


def offer(directory: str, python: str, *requirements: str) -> int:
    """Put wheels that pip's own configuration offers (uv does not read it) into `directory`.

    pip must run under the version that the wheels are for, so it is looked for with that name.
    """
    os.makedirs(directory, exist_ok=True)
    name = python if os.sep in python else f"python{python}"
    argv = [name, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    try:
        return subprocess.call([*argv, "--dest", directory, *requirements])
    except OSError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1


def provide(environment: str, distribution: str, local: str) -> int:
    """Make `vllm` findable by name where another distribution provides it.

    vllm asks importlib.metadata for the version of `vllm`, and takes a `cpu` in it for the sign
    of its CPU build; a dist-info of that name beside the real one answers both.
    """
    site = glob.glob(os.path.join(environment, "lib", "python3*", "site-packages"))[0]
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
        write_text(os.path.join(site, info, name), text)
    lines = [f"{info}/{name},,{len(text)}\n" for name, text in files.items()]
    write_text(os.path.join(site, info, "RECORD"), "".join(lines) + f"{info}/RECORD,,\n")
    print(f"vllm {version} is provided by {distribution}")
    return 0


def _version(site: str, stem: str) -> Optional[str]:
    found = glob.glob(os.path.join(site, f"{stem}-*.dist-info"))
    if len(found) != 1:
        return None
    return os.path.basename(found[0])[len(stem) + 1 : -len(".dist-info")]


CHORES: Dict[str, Callable[..., int]] = {"offer": offer, "provide": provide}


def main(argv: Sequence[str]) -> int:
    """Run one chore; 2 for one that there is not."""
    name, arguments = argv[0], list(argv[1:])  # type: str, List[str]
    if name not in CHORES:
        print(f"no chore {name!r}", file=sys.stderr)
        return 2
    return CHORES[name](*arguments)
