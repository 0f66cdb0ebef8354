"""What a host offers for building, where it does not let everything be looked into."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.build import checkouts, environment, installed
from deployctl.agent.core.interface import Call


def test_a_folder_of_the_path_that_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, open_one = tmp_path / "locked", tmp_path / "open"
    for folder in (locked, open_one):
        folder.mkdir()
        (folder / "python3.11").touch()
    listdir = os.listdir

    def refuse(path: str) -> list[str]:
        if path == str(locked):
            raise PermissionError(13, "Permission denied", path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse)
    monkeypatch.setenv("PATH", f"{tmp_path}/none:{locked}:{open_one}")
    found = environment.tools(Call(str(tmp_path), lambda event: None))["pythons"]
    assert found["3.11"] == f"{open_one}/python3.11"


def test_a_shim_of_uv_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim, real = tmp_path / "pyenv/shims/uv", tmp_path / "real/uv"
    for program in (shim, real):
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\necho uv 0.0.1\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}::{real.parent}")
    monkeypatch.chdir(real.parent)
    call = Call(str(tmp_path), lambda event: None)
    assert environment.tools(call)["uv"] == str(real)
    real.unlink()
    assert environment.tools(call)["uv"] != str(real)


def test_who_works_below_a_root_that_is_a_link(tmp_path: Path) -> None:
    place = tmp_path / "disk" / "builds" / "b1"
    place.mkdir(parents=True)
    (tmp_path / "root").symlink_to(tmp_path / "disk")
    call = Call(str(tmp_path / "root"), lambda event: None)
    with subprocess.Popen(["sleep", "60"], cwd=place) as worker:
        found = installed.builders(call, ["@/builds/b1"])
        worker.kill()
    assert [one["pid"] for one in found] == [worker.pid]


class TestExport:
    """A checkout with new things in it that are not plain files."""

    @pytest.fixture
    def checkout(self, tmp_path: Path) -> Path:
        self.commit(tmp_path / "checkout")
        return tmp_path / "checkout"

    def commit(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "a").write_text("a")
        own: dict[str, Any] = {"cwd": folder, "check": True, "capture_output": True}
        name = ["-c", "user.name=a", "-c", "user.email=a@b"]
        for words in (["init"], ["add", "."], [*name, "commit", "-m", "a"]):
            subprocess.run(["git", *words], **own)

    def test_links_stay_links(self, checkout: Path, tmp_path: Path) -> None:
        (checkout / "dangling").symlink_to("nowhere")
        (checkout / "folder").mkdir()
        (checkout / "to_folder").symlink_to("folder")
        assert checkouts.export(str(checkout), str(tmp_path / "copy")) == 0
        assert str((tmp_path / "copy" / "dangling").readlink()) == "nowhere"
        assert str((tmp_path / "copy" / "to_folder").readlink()) == "folder"

    def test_a_repository_in_it_is_left_out_and_said(
        self, checkout: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.commit(checkout / "other")
        assert checkouts.export(str(checkout), str(tmp_path / "copy")) == 0
        assert not (tmp_path / "copy" / "other").exists()
        assert "other/ is a repository of its own: left out" in capfd.readouterr().out
