"""A chore: patch files applied to an installed tree without a repository, all or nothing."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from typing import Dict, List

from ..core.atomic_files import write_json
from ..core.interface import AgentError
from .dist_records import refresh, sha256, site_packages
from .git import Git
from .patching import dist_info, replace

RECORD = "deployctl-patches.json"
BELOW = "vllm/"
_FAILED = re.compile(r"error: patch failed: (?P<file>[^:\n]+):(?P<line>\d+)")


def apply(environment: str, distribution: str, *patches: str) -> int:
    """Apply patches (as `git diff` writes them) in order, as far as they change files below
    `vllm/`.

    They are applied to a copy of the touched files; only a whole success replaces them. Files are
    replaced, never written into: they may be links into uv's cache. One that the installed files
    have already is passed over.
    """
    site = site_packages(environment)
    with tempfile.TemporaryDirectory(dir=environment) as scratch:
        # Nothing above is taken for a repository.
        git = Git("git", scratch, {"GIT_CEILING_DIRECTORIES": environment})
        touched: Dict[str, None] = {}
        for patch in patches:
            paths = _touched(git, patch)
            for path in paths:
                if path not in touched:
                    _copy(site, scratch, path)
            touched.update(dict.fromkeys(paths))
            if not _fits(git, patch):
                return 1
        replace(scratch, site, list(touched))
    info = dist_info(site, distribution)
    refresh(site, info, touched)
    there = [path for path in touched if os.path.exists(os.path.join(site, path))]
    files = {path: sha256(os.path.join(site, path)) for path in there}
    names = [os.path.basename(patch) for patch in patches]
    record = {"patches": names, "paths": list(touched), "files": files}
    write_json(os.path.join(site, info, RECORD), record, 0o644)
    print("%d files are changed by %s" % (len(touched), ", ".join(names)))
    return 0


def _touched(git: Git, patch: str) -> List[str]:
    """The files below `vllm/` that a patch changes; error `patch` for one that changes none."""
    listed = git.run("apply", "--numstat", "-z", "--", patch)
    names = [entry.split("\t", 2)[-1] for entry in listed.split("\0") if entry]
    if any(".." in name.split("/") or name.startswith("/") for name in names):
        raise AgentError("patch", "%s names a file elsewhere" % os.path.basename(patch))
    paths = [name for name in names if name.startswith(BELOW)]
    left = [name for name in names if name not in paths]
    if left:
        print("not installed, so left out of %s: %s" % (os.path.basename(patch), ", ".join(left)))
    if not paths:
        raise AgentError("patch", "%s changes no file below vllm/" % os.path.basename(patch))
    return paths


def _copy(site: str, scratch: str, path: str) -> None:
    source, target = os.path.join(site, path), os.path.join(scratch, path)
    if os.path.exists(source):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(source, target)


def _fits(git: Git, patch: str) -> bool:
    only = ["--include", BELOW + "*", "--whitespace=nowarn"]
    try:
        git.run("apply", *only, "--", patch)
        return True
    except AgentError as error:
        why = str(error.detail or error)
    try:
        git.run("apply", "--check", "--reverse", *only, "--", patch)
        print("the installed files have the changes of %s already" % os.path.basename(patch))
        return True
    except AgentError:
        pass
    print(why, file=sys.stderr)
    print("error: patch does not apply: %s" % os.path.basename(patch), file=sys.stderr)
    for match in _FAILED.finditer(why):
        where = (match["line"], match["file"])
        print("the hunk at line %s of %s does not fit" % where, file=sys.stderr)
    print("nothing was changed", file=sys.stderr)
    return False
