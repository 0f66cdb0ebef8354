"""Chores of a job that fetch a repository and lay out what is to be built."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time
from typing import Callable, Iterator

from ..core import trees
from ..core.interface import AgentError
from .git import SUBMODULES, Git, without_credentials

UPSTREAM = "refs/deployctl/upstream"
ATTEMPTS = 3


def fetch(repository: str, url: str, ref: str, commit: str, upstream: str) -> int:
    """Fetch a commit with its history and tags, and upstream's main branch for the merge base.

    `ref` is where the commit was seen ("" for a bare commit); the commit itself is asked for
    first, since the ref may have moved meanwhile.
    """
    git = _repository(repository)
    with _alone(repository):
        if not git.succeeds("cat-file", "-e", f"{commit}^{{commit}}"):
            _fetch_commit(git, url, ref, commit)
        _fetch_upstream(git, url, upstream)
    print(f"{commit} is here", flush=True)
    return 0


def layout(repository: str, commit: str, folder: str, submodules: str) -> int:
    """A clean working tree of a commit in `folder`."""
    git = _repository(repository)
    with _alone(repository):
        discard(repository, folder)
        git.show("worktree", "add", "--detach", "--force", folder, commit)
    if submodules and os.path.exists(os.path.join(folder, ".gitmodules")):
        tree = Git(git.program, folder, SUBMODULES)
        _retried(lambda: tree.show("submodule", "update", "--init", "--recursive", "--jobs", "4"))
    return 0


def discard(repository: str, folder: str) -> int:
    """Forget a working tree."""
    trees.remove(folder)
    _repository(repository).show("worktree", "prune")
    return 0


def _repository(folder: str) -> Git:
    git = Git("git", folder)
    if not os.path.isdir(os.path.join(folder, "objects")):
        os.makedirs(folder, exist_ok=True)
        Git("git").show("init", "--quiet", "--bare", folder)
    return git


def _fetch_commit(git: Git, url: str, ref: str, commit: str) -> None:
    # File contents come with the checkout; history and trees are enough until then.
    base = ("fetch", "--no-auto-gc", "--filter=blob:none", "--tags", "--force", "--progress")
    git.run("config", "remote.origin.url", url)
    try:
        _retried(lambda: git.show(*base, "origin", commit))
    except AgentError as error:
        if not ref or error.kind == "network":
            raise
        print("the server does not hand out commits by name, asking for the ref", flush=True)
        _retried(lambda: git.show(*base, "origin", ref))
    if not git.succeeds("cat-file", "-e", f"{commit}^{{commit}}"):
        raise AgentError("no-ref", f"{ref} moved away from {commit} and the server lost it")


def _fetch_upstream(git: Git, url: str, upstream: str) -> None:
    """Upstream's main branch, for the merge base. A fork builds without it, by source."""
    place = upstream or url
    # Named, since only a named remote can hand out later what the filter left out.
    name = "origin" if place == url else "upstream"
    git.run("config", f"remote.{name}.url", place)
    words = ("fetch", "--no-auto-gc", "--filter=blob:none", "--tags", "--force", name)
    try:
        git.show(*words, f"+HEAD:{UPSTREAM}")
    except AgentError as error:
        print(f"no merge base: upstream {without_credentials(place)}: {error}", flush=True)


def _retried(action: Callable[[], None]) -> None:
    """A network that stumbles is asked again; every other failure stands."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            action()
            return
        except AgentError as error:
            if error.kind != "network" or attempt == ATTEMPTS:
                raise
            print(f"attempt {attempt} of {ATTEMPTS} failed, once more", file=sys.stderr)
            time.sleep(2.0 * attempt)


@contextlib.contextmanager
def _alone(repository: str) -> Iterator[None]:
    """Two jobs may want the same repository at once."""
    handle = os.open(os.path.join(repository, "deployctl.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
