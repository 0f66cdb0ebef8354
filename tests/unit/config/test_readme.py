"""The README's own profile, as it stands there, is valid."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from deployctl.config.loader import load_profile
from deployctl.config.search import Place, Search
from deployctl.config.shipped import data_directory
from tests.unit.config.conftest import Folder

README = Path(__file__).parents[3] / "README.md"


def test_the_example_can_be_copied(folder: Folder) -> None:
    files = {}
    for paragraph in README.read_text().split("\n\n"):
        head, _, text = dedent(paragraph.strip("\n")).partition("\n")
        if head.startswith("# profiles/"):
            files[head.removeprefix("# ")] = text
    assert sorted(files) == [
        "profiles/hosts/my-ct.yaml",
        "profiles/hosts/my-node.yaml",
        "profiles/mine.yaml",
    ]
    for path, text in files.items():
        folder.write(f"work/{path}", text)
    search = Search((*folder.search.places[:2], Place("shipped", data_directory())))
    loaded = load_profile("mine", environ={}, search=search)
    assert [file.name for file in loaded.files][:2] == ["mine.yaml", "qwen36-dflash.yaml"]
    (host,) = loaded.profile.hosts
    assert host.container is not None and host.node is not None
