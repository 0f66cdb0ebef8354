"""Checkouts on this host: read as their owner, without running what their configuration names."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import tempfile
from typing import Dict, Iterator

from ..core import trees
from ..core.atomic_files import write_text
from ..core.interface import AgentError
from .git import Git


def opened(program: str, folder: str) -> Git:
    """git in a checkout. It runs as the checkout's owner, and neither hooks, file monitors nor
    filters that the checkout configures run. Errors: `no-file`; `foreign` for a checkout of
    another user where we are not root."""
    if not os.path.isdir(folder):
        raise AgentError("no-file", f"there is no folder {folder}")
    status = os.stat(folder)
    git = Git(program, folder, {"GIT_NO_LAZY_FETCH": "1"})
    if status.st_uid != os.geteuid():
        if os.geteuid() != 0:
            who = _name(status.st_uid)
            raise AgentError(
                "foreign", f"{folder} belongs to {who}, and its configuration can run programs"
            )
        git = git._replace(user=(status.st_uid, status.st_gid))
    return git._replace(settings=_without_filters(git))


def commit(git: Git) -> str:
    """The commit that is checked out; error `repository` where there is none."""
    try:
        return git.run("rev-parse", "--verify", "HEAD^{commit}").strip()
    except AgentError as error:
        said = f"{git.folder} is not a git checkout with a commit: {error}"
        raise AgentError("repository", said, error.detail) from None


@contextlib.contextmanager
def snapshot(git: Git) -> Iterator["Snapshot"]:
    """The tree of a checkout's files, changes and new files included, and the folder that holds
    its new objects until the end. Neither the checkout's index nor its objects are touched."""
    objects = git.run("rev-parse", "--path-format=absolute", "--git-path", "objects").strip()
    place = "/tmp" if git.user is not None else None
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        if git.user is not None:
            os.chown(scratch, *git.user)
        apart = git._replace(
            env=dict(
                git.env,
                GIT_INDEX_FILE=os.path.join(scratch, "index"),
                GIT_OBJECT_DIRECTORY=scratch,
                GIT_ALTERNATE_OBJECT_DIRECTORIES=objects,
            )
        )
        apart.run("read-tree", "HEAD")
        apart.run("add", "--all", "--", ".")
        yield Snapshot(apart.run("write-tree").strip(), objects, scratch)


class Snapshot:
    """A tree, and the two folders whose objects make it: the checkout's, and the new ones."""

    def __init__(self, tree: str, objects: str, new: str) -> None:
        self.tree = tree
        self.objects = objects
        self.new = new


def export(checkout: str, folder: str) -> int:
    """A chore: a copy of a checkout as it lies there: its commit and tags, changes and new files,
    without what git ignores (extensions of an earlier build among it)."""
    trees.remove(folder)
    source = opened("git", checkout)
    head = commit(source)
    Git("git").show("init", "--quiet", folder)
    with snapshot(source) as found:
        _borrow(found, os.path.join(folder, ".git", "objects"))
        copy = Git("git", folder)
        if source.run("rev-parse", "--is-shallow-repository").strip() == "true":
            # Where its history ends; the file itself may be a link to anything.
            ends = source.run("rev-list", "--max-parents=0", "HEAD", "--tags")
            write_text(os.path.join(folder, ".git", "shallow"), ends)
        copy.run("update-ref", "--no-deref", "HEAD", head)
        copy.run("update-ref", "--stdin", text=_tags(source).encode("utf-8", "surrogateescape"))
        copy.run("read-tree", found.tree)
        _leave_out_repositories(copy)
        copy.show("checkout-index", "--all", "--quiet")
    return 0


def _leave_out_repositories(copy: Git) -> None:
    """Repositories that lie in the checkout and are none of its submodules: not a part of it."""
    submodules = copy.run("ls-tree", "-r", "-z", "HEAD")
    for entry in copy.run("ls-files", "--stage", "-z").split("\0"):
        name = entry.partition("\t")[2]
        if entry.startswith("160000 ") and f"\t{name}\0" not in submodules:
            copy.run("update-index", "--force-remove", "--", name)
            print(f"{name}/ is a repository of its own: left out", flush=True)


def _borrow(found: Snapshot, objects: str) -> None:
    """Take the new objects, and read the checkout's where they are."""
    for entry in os.scandir(found.new):
        if len(entry.name) == 2 or entry.name == "pack":
            target = os.path.join(objects, entry.name)
            shutil.copytree(entry.path, target, symlinks=True, dirs_exist_ok=True)
    os.makedirs(os.path.join(objects, "info"), exist_ok=True)
    with open(os.path.join(objects, "info", "alternates"), "w", encoding="utf-8") as file:
        file.write(found.objects + "\n")


def _tags(source: Git) -> str:
    listed = source.run("for-each-ref", "--format=create %(refname) %(objectname)", "refs/tags")
    return "".join(line + "\n" for line in listed.splitlines())


def _without_filters(git: Git) -> Dict[str, str]:
    """Settings that switch off each filter of the checkout's own configuration; those of the
    user's or the system's stay."""
    listed = git.succeeds("config", "--get-regexp", "^filter[.]")
    told = git.run("config", "-z", "--show-scope", "--get-regexp", "^filter[.]") if listed else ""
    fields = told.split("\0")
    names = {
        entry.split("\n", 1)[0].rpartition(".")[0]
        for scope, entry in zip(fields[::2], fields[1::2])
        if scope in ("local", "worktree")
    }
    off = {"clean": "", "smudge": "", "process": "", "required": "false"}
    return {f"{name}.{key}": value for name in sorted(names) for key, value in off.items()}


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
