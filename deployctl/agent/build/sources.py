"""What a wanted source is right now: a moving ref as the commit that it points to."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Dict, List, Optional, Union

from ..core import programs
from ..core.interface import AgentError, Call
from ..core.regular_files import digest, open_regular
from ..wire.builds import FirstFound, ResolvedSource, SameTree, SourceFacts
from . import checkouts
from .git import Git, without_credentials

_FULL = re.compile(r"[0-9a-f]{40}")
_PARTIAL = re.compile(r"[0-9a-f]{7,39}")
REMOTE_LIMIT = 60.0


def resolve_source(
    call: Call,
    url: str = "",
    ref: Optional[str] = None,
    pr: Optional[int] = None,
    wheel: Optional[str] = None,
    path: Optional[str] = None,
) -> ResolvedSource:
    """One source as the commit that it stands for; equal identities are equal contents.

    Errors: `no-git`, `network`, `repository`, `no-ref`, `ambiguous-ref`, `no-file`, `foreign`.
    """
    if wheel is not None:
        return _wheel(call, wheel)
    program = programs.find(call, "git")
    if program is None:
        raise AgentError("no-git", "git is not installed here")
    if path is not None:
        return _checkout(checkouts.opened(program, call.path(path)))
    if pr is not None:
        return _remote(Git(program), url, f"refs/pull/{pr}/head", "pr")
    assert ref is not None
    if _FULL.fullmatch(ref):
        return _at(ref, "ref", None)
    return _remote(Git(program), url, ref, "ref")


def _at(commit: str, kind: str, ref: Optional[str]) -> ResolvedSource:
    return {
        "kind": kind,
        "identity": commit,
        "commit": commit,
        "ref": ref,
        "dirty": False,
        "place": None,
    }


def _remote(git: Git, url: str, ref: str, kind: str) -> ResolvedSource:
    names = [ref] if ref.startswith("refs/") or ref == "HEAD" else []
    names = names or [f"refs/heads/{ref}", f"refs/tags/{ref}"]
    wanted = [*names, *[f"{name}^{{}}" for name in names if not name.startswith("refs/pull/")]]
    partial = bool(_PARTIAL.fullmatch(ref))
    patterns = [] if partial else wanted
    listed = git.run("ls-remote", "--", url, *patterns, timeout=REMOTE_LIMIT)
    found: Dict[str, str] = {}
    for line in listed.splitlines():
        commit, name = line.split("\t", 1)
        found[name] = commit
    here = [name for name in names if name in found]
    if len(here) > 1:
        raise AgentError(
            "ambiguous-ref", f"{ref} is a branch and a tag there: write {' or '.join(names)}"
        )
    if here:
        # An annotated tag is an object of its own; what it points to has the name with ^{}.
        return _at(found.get(f"{here[0]}^{{}}", found[here[0]]), kind, here[0])
    tips = sorted({c for c in found.values() if partial and c.startswith(ref)})
    if len(tips) == 1:
        return _at(tips[0], kind, None)
    shown = without_credentials(url)
    if kind == "pr":
        raise AgentError("no-ref", f"{shown} has no pull request {ref.split('/')[2]}")
    hint = ": give all 40 digits of a commit" if partial else ""
    raise AgentError("no-ref", f"{shown} has no branch or tag {ref}{hint}")


def _checkout(git: Git) -> ResolvedSource:
    """A checkout by the tree that its files make, changes and new files included."""
    commit = checkouts.commit(git)
    with checkouts.snapshot(git) as found:
        dirty = found.tree != git.run("rev-parse", "HEAD^{tree}").strip()
    answer = _at(commit, "path", None)
    answer["dirty"], answer["place"] = dirty, git.folder
    if dirty:
        answer["identity"] = f"{commit}+{found.tree}"
    return answer


def _wheel(call: Call, wheel: str) -> ResolvedSource:
    identity = without_credentials(wheel)
    if "://" not in wheel:
        path = call.path(wheel)
        if not os.path.isfile(path):
            raise AgentError("no-file", f"there is no wheel {path}")
        found = digest(path, step=call.step).hexdigest()
        identity = f"{os.path.basename(path)}:{found}"
    answer = _at(identity, "wheel", None)
    answer["commit"] = None
    return answer


def source_facts(call: Call, repository: str, commit: str) -> SourceFacts:
    """What the choice of a strategy depends on, from a fetched repository.

    `merge_base` is that with upstream's main branch (None where upstream was not fetched),
    `changed` the paths that differ from it, `tag` the last release tag before it.
    """
    git = checkouts.opened(_program(call), call.path(repository))
    upstream = "refs/deployctl/upstream"
    answer: SourceFacts = {"merge_base": None, "changed": None, "tag": None, "tag_commit": None}
    base = commit
    if git.succeeds("rev-parse", "--verify", "-q", upstream):
        try:
            base = git.run("merge-base", upstream, commit).strip()
        except AgentError:
            return answer  # unrelated histories
        changed = git.run("diff", "--name-only", "--no-renames", "-z", base, commit)
        answer["merge_base"] = base
        answer["changed"] = [name for name in changed.split("\0") if name]
    tags = git.run("tag", "--merged", base, "--sort=-creatordate", "--list", "v[0-9]*").split()
    released = [tag for tag in tags if re.fullmatch(r"v\d+(\.\d+)+(\.post\d+)?", tag)]
    if released:
        pointed = git.run("rev-parse", f"{released[0]}^{{commit}}").strip()
        answer["tag"], answer["tag_commit"] = released[0], pointed
    return answer


def same_tree(call: Call, repository: str, commit: str, site_packages: str) -> SameTree:
    """Compare every Python file of `vllm/` at a commit with what is installed, by git's own
    hashes. Files that a build generates do not count, the repository does not track them;
    `left_out` are those that it does not package."""
    git = checkouts.opened(_program(call), call.path(repository))
    listed = git.run("ls-tree", "-r", "-z", commit, "--", "vllm")
    site = call.path(site_packages)
    compared = 0
    different: List[str] = []
    left_out: List[str] = []
    for entry in listed.split("\0"):
        head, _, path = entry.partition("\t")
        if not path.endswith(".py") or not head.startswith("100"):
            continue
        found = _blob(os.path.join(site, path))
        if found is None:
            left_out.append(path)
            continue
        compared += 1
        if found != head.split()[2]:
            different.append(path)
    return {"compared": compared, "different": different, "left_out": left_out}


def _blob(path: str) -> Optional[str]:
    """A file's name as a git object."""
    try:
        with open_regular(path) as file:
            data = file.read()
    except OSError:
        return None
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def first_found(call: Call, urls: List[str], timeout: float = 30.0) -> FirstFound:
    """The first of these URLs that is there; the host's own proxy settings hold."""
    import urllib.error  # slow to import, and not needed where sources are only resolved
    import urllib.request
    from http.client import HTTPException

    tried: Dict[str, Union[int, str]] = {}
    for url in urls:
        request = urllib.request.Request(url, method="HEAD")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                tried[url] = answer.status
                return {"url": url, "tried": tried}
        except urllib.error.HTTPError as error:
            tried[url] = error.code
        except (OSError, ValueError, HTTPException) as error:
            tried[url] = str(error).strip() or type(error).__name__
    return {"url": None, "tried": tried}


def _program(call: Call) -> str:
    program = programs.find(call, "git")
    if program is None:
        raise AgentError("no-git", "git is not installed here")
    return program
