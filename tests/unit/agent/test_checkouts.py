"""Checkouts that belong to somebody else, or name programs: read, and nothing of them runs."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl.agent.build import checkouts, git_tasks
from deployctl.agent.build.sources import resolve_source
from deployctl.agent.core.interface import AgentError, Call

OWNER = 54321
"""A user whom nobody knows."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other users can reach, as pytest's own is not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def git(folder: Path, *words: str) -> str:
    argv = ["git", "-C", str(folder), "-c", "safe.directory=*", "-c", "user.name=a"]
    argv += ["-c", "user.email=a@b", "-c", "protocol.file.allow=always", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(place: Path) -> Path:
    """A commit, a tag, a change and a new file; and every program that a configuration can name
    leaves a mark."""
    folder = place / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a").write_text("one\n")
    (folder / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (folder / ".gitignore").write_text("ignored\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    git(folder, "tag", "v1.0")
    (folder / "a").write_text("two\n")
    (folder / "new").write_text("three\n")
    (folder / "ignored").write_text("four\n")
    mark = f"touch {place}/mark; cat"
    place.chmod(0o777)
    for key in (
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "core.alternateRefsCommand",
        "uploadpack.packObjectsHook",
    ):
        git(folder, "config", key, mark)
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        path = folder / ".git/hooks" / hook
        path.write_text(f"#!/bin/sh\n{mark}\n")
        path.chmod(0o755)
    return folder


def given_to(folder: Path, user: int) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


@pytest.mark.parametrize("user", [0, OWNER])
def test_nothing_that_a_checkout_names_runs(place: Path, checkout: Path, user: int) -> None:
    given_to(checkout, user)
    call = Call(str(place), lambda event: None)
    answer = resolve_source(call, path=str(checkout))
    assert answer["dirty"] is True
    assert not (place / "mark").exists()
    assert checkouts.export(str(checkout), str(place / "copy")) == 0
    assert not (place / "mark").exists()
    copy = place / "copy"
    assert (copy / "a").read_text() == "two\n"
    assert (copy / "new").read_text() == "three\n"
    assert not (copy / "ignored").exists()
    assert (copy / "a").stat().st_uid == 0
    assert git(copy, "describe", "--tags", "HEAD") == "v1.0"
    assert git(copy, "rev-parse", "HEAD") == answer["commit"]
    assert answer["identity"] == f"{answer['commit']}+{git(copy, 'write-tree')}"


def test_git_runs_as_the_owner_without_our_environment(
    place: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canary")
    given_to(checkout, OWNER)
    opened = checkouts.opened("git", str(checkout))
    program = place / "program"
    program.write_text(f"#!/bin/sh\nid -u > {place}/said\nenv >> {place}/said\n")
    program.chmod(0o755)
    opened._replace(program=str(program)).run("status")
    said = (place / "said").read_text()
    assert said.startswith(f"{OWNER}\n")
    assert "canary" not in said


def test_filters_of_the_user_stay(
    place: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git-lfs is set up like this."""
    git(checkout, "config", "--remove-section", "filter.evil")
    (place / ".gitconfig").write_text('[filter "evil"]\nclean = tr a-z A-Z\n')
    monkeypatch.setenv("HOME", str(place))
    opened = checkouts.opened("git", str(checkout))
    with checkouts.snapshot(opened) as found:
        os.environ["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = found.new
        try:
            assert git(checkout, "show", f"{found.tree}:a") == "TWO"
        finally:
            del os.environ["GIT_ALTERNATE_OBJECT_DIRECTORIES"]


def test_a_foreign_repository_in_our_folder_is_refused(checkout: Path) -> None:
    given_to(checkout / ".git", OWNER)
    with pytest.raises(AgentError, match="dubious ownership") as refused:
        checkouts.commit(checkouts.opened("git", str(checkout)))
    assert refused.value.kind == "repository"


def test_who_called_sudo_is_not_trusted(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_to(checkout / ".git", OWNER)
    monkeypatch.setenv("SUDO_UID", str(OWNER))
    with pytest.raises(AgentError, match="dubious ownership"):
        checkouts.commit(checkouts.opened("git", str(checkout)))


def test_a_user_is_refused_what_belongs_to_another(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_to(checkout, OWNER)
    monkeypatch.setattr(os, "geteuid", lambda: OWNER + 1)
    with pytest.raises(AgentError, match=f"belongs to user {OWNER}") as refused:
        checkouts.opened("git", str(checkout))
    assert refused.value.kind == "foreign"


def test_a_shallow_checkout(place: Path, checkout: Path) -> None:
    git(checkout, "config", "--remove-section", "filter.evil")
    git(checkout, "commit", "-qam", "second")
    shallow = place / "shallow"
    git(place, "clone", "-q", "--depth", "1", f"file://{checkout}", str(shallow))
    given_to(shallow, OWNER)
    assert checkouts.export(str(shallow), str(place / "copy")) == 0
    assert len(git(place / "copy", "log", "--format=%s").splitlines()) == 1


def test_a_submodule_of_this_host_is_not_fetched(place: Path, checkout: Path) -> None:
    """A pull request names its submodules; root could clone every repository here."""
    private = place / "private"
    private.mkdir()
    git(private, "init", "-q")
    (private / "secret").write_text("canary")
    git(private, "add", ".")
    git(private, "commit", "-qm", "private")
    (checkout / ".gitattributes").unlink()
    git(checkout, "submodule", "--quiet", "add", str(private), "sub")
    git(checkout, "commit", "-qam", "with a submodule")
    commit = git(checkout, "rev-parse", "HEAD")
    bare = place / "bare"
    git(place, "clone", "-q", "--bare", str(checkout), str(bare))
    with pytest.raises(AgentError, match="transport 'file' not allowed"):
        git_tasks.layout(str(bare), commit, str(place / "tree"), "yes")
    assert not (place / "tree/sub/secret").exists()
