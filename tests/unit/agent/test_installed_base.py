"""An environment that was linked from a base: what is wrong there already is distinguished."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from deployctl.agent.build.installed import complete
from deployctl.agent.core.interface import Call
from deployctl.agent.wire.builds import Installed


def distribution(site: Path, name: str, text: str, requires: str = "") -> Path:
    """A distribution of one file whose record is true."""
    file, info = site / name / "__init__.py", site / f"{name}-1.0.dist-info"
    for folder in (file.parent, info):
        folder.mkdir(parents=True)
    file.write_text(text)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n{requires}")
    (info / "INSTALLER").write_text("uv\n")
    (info / "RECORD").write_text(f"{name}/__init__.py,,{len(text)}\n")
    return file


def made(folder: Path) -> tuple[Path, Path]:
    """A base in which somebody edited certifi, and an environment linked from it with vllm."""
    base = folder / "base"
    site = base / "lib/python3.12/site-packages"
    bundle = distribution(site, "certifi", "authorities")
    distribution(site, "six", "six")
    bundle.write_text("authorities and one more")
    linked = folder / "environment"
    shutil.copytree(base, linked, copy_function=os.link)
    requires = "Requires-Dist: six>=1\nRequires-Dist: Ray[x] ; extra == 'ray'\n"
    distribution(linked / "lib/python3.12/site-packages", "vllm", "vllm", requires)
    return base, linked


def looked(folder: Path, linked: Path, base: Path | None) -> Installed:
    call = Call(str(folder), lambda event: None)
    return complete(call, str(linked), base=None if base is None else str(base))


def test_what_differs_in_the_base_is_inherited(tmp_path: Path) -> None:
    base, linked = made(tmp_path)
    facts = looked(tmp_path, linked, base)
    assert facts["problems"] == [] and facts["problem_count"] == 0
    (one,) = facts["inherited"]
    assert one["name"] == "certifi" and "has 24 bytes, recorded are 11" in one["text"]
    assert facts["providers"][0]["needs"] == ["six"]


def test_what_this_build_broke_is_not(tmp_path: Path) -> None:
    base, linked = made(tmp_path)
    (linked / "lib/python3.12/site-packages/six/__init__.py").unlink()
    assert looked(tmp_path, linked, base)["problems"] == ["six: six/__init__.py is missing"]


def test_without_a_base_nothing_is_inherited(tmp_path: Path) -> None:
    _, linked = made(tmp_path)
    for base in (None, tmp_path / "gone"):
        facts = looked(tmp_path, linked, base)
        assert facts["inherited"] == [] and facts["problem_count"] == 1
