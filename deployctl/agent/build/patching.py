"""A chore: a pull request's Python changes, applied to an installed tree, all or nothing."""

from __future__ import annotations

import glob
import os
import re
import shutil
import sys
import tempfile
from typing import List

from ..core.atomic_files import write_json
from ..core.interface import AgentError
from .dist_records import refresh, sha256, site_packages
from .git import Git

RECORD = "deployctl-patch.json"
_FAILED = re.compile(r"error: patch failed: (?P<file>[^:\n]+):(?P<line>\d+)")


def patch(repository: str, environment: str, base: str, commit: str, distribution: str) -> int:
    """Apply the difference from `base` to `commit` below `vllm/` to the environment.

    It is applied to a copy of the touched files first, with a three-way merge where the installed
    ones differ from `base`; only a whole success replaces them. Files are replaced, never written
    into: they may be links into uv's cache. What is applied already is found out in reverse.
    """
    git = Git("git", repository)
    site = site_packages(environment)
    listed = git.run("diff", "--name-only", "--no-renames", "-z", base, commit, "--", "vllm")
    paths = [name for name in listed.split("\0") if name]
    with tempfile.TemporaryDirectory(dir=environment) as scratch:
        copy = _copy(git, scratch, site, paths)
        text = git.run("diff", "--binary", "--full-index", base, commit, "--", "vllm")
        data = text.encode("utf-8", "surrogateescape")
        if _applies(copy, data, "--reverse"):
            print("the installed tree has these changes already")
        else:
            try:
                copy.run("apply", "--3way", "--index", "-", text=data)
            except AgentError as error:
                return _refused(
                    f"{error.detail or error}\n{_plain(git, scratch, site, paths, data)}"
                )
            replace(scratch, site, paths)
    info = dist_info(site, distribution)
    refresh(site, info, paths)
    files = {path: sha256(os.path.join(site, path)) for path in paths}
    content = {"base": base, "commit": commit, "files": files}
    write_json(os.path.join(site, info, RECORD), content)
    print(f"{len(paths)} files are patched from {base[:12]} to {commit[:12]}")
    return 0


def _copy(git: Git, scratch: str, site: str, paths: List[str]) -> Git:
    """The touched files alone, under an index of their own that shares the objects."""
    for path in paths:
        source = os.path.join(site, path)
        if os.path.exists(source):
            os.makedirs(os.path.dirname(os.path.join(scratch, path)), exist_ok=True)
            shutil.copyfile(source, os.path.join(scratch, path))
    folder = git.run("rev-parse", "--absolute-git-dir").strip()
    index = os.path.join(scratch, ".index")
    own = {"GIT_INDEX_FILE": index, "GIT_DIR": folder, "GIT_WORK_TREE": scratch}
    copy = Git(git.program, scratch, own)
    there = [path for path in paths if os.path.exists(os.path.join(scratch, path))]
    if there:
        copy.run("add", "--force", "--", *there)
    return copy


def _applies(copy: Git, data: bytes, *how: str) -> bool:
    try:
        copy.run("apply", "--check", *how, "-", text=data)
    except AgentError:
        return False
    return True


def _plain(git: Git, scratch: str, site: str, paths: List[str], data: bytes) -> str:
    """What a plain apply says: a three-way merge names the file alone, this the line too."""
    shutil.rmtree(os.path.join(scratch, "vllm"), ignore_errors=True)
    try:
        _copy(git, scratch, site, paths).run("apply", "--check", "-", text=data)
    except AgentError as error:
        return str(error.detail or error)
    return ""


def _refused(why: str) -> int:
    print(why, file=sys.stderr)
    print("error: patch does not apply", file=sys.stderr)
    for match in _FAILED.finditer(why):
        print(f"the hunk at line {match['line']} of {match['file']} does not fit", file=sys.stderr)
    print("nothing was changed", file=sys.stderr)
    return 1


def replace(scratch: str, site: str, paths: List[str]) -> None:
    """Put the files of a copy in place of the installed ones; one that is gone there is removed."""
    for path in paths:
        new, target = os.path.join(scratch, path), os.path.join(site, path)
        if os.path.exists(new):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.replace(new, target)
        elif os.path.exists(target):
            os.unlink(target)


def dist_info(site: str, distribution: str) -> str:
    """The name of a distribution's dist-info."""
    stem = re.sub(r"[-.]+", "_", distribution)
    (found,) = glob.glob(os.path.join(glob.escape(site), f"{stem}-*.dist-info"))
    return os.path.basename(found)
