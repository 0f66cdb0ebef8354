"""Where names are looked for, what hides what, and how the list tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployctl.config import catalogue
from deployctl.config.loader import list_hosts, list_profiles
from deployctl.config.search import default_search
from deployctl.steps.interface import NoOptions
from tests.unit.config.conftest import SMALLEST, Folder


def test_the_working_directory_goes_before_the_user_before_what_is_shipped(folder: Folder) -> None:
    for place in ("shipped", "user", "work"):
        folder.write(f"{place}/profiles/p.yaml", SMALLEST)
        (found,) = list_profiles(folder.search)
        assert found.path == folder.root / place / "profiles/p.yaml"
    assert found.place == "working directory"
    assert found.shadowed == (
        folder.user / "profiles/p.yaml",
        folder.shipped / "profiles/p.yaml",
    )


def test_kinds_are_apart_and_other_files_are_none(folder: Folder) -> None:
    folder.write("work/profiles/a.yaml", SMALLEST)
    folder.write("work/profiles/b.yml", SMALLEST)
    folder.write("work/profiles/notes.txt", "")
    folder.write("work/profiles/hosts/h.yaml", "local: true\n")
    folder.write("user/playbooks/up.yaml", "steps: [build]\n")
    assert [found.name for found in list_profiles(folder.search)] == ["a", "b"]
    assert [found.name for found in list_hosts(folder.search)] == ["h"]
    assert [(f.name, f.place) for f in folder.search.found("playbooks")] == [("up", "user")]


def test_one_file_that_two_places_reach_hides_nothing(folder: Folder) -> None:
    path = folder.write("work/profiles/p.yaml", SMALLEST)
    (folder.user / "profiles").mkdir()
    (folder.user / "profiles/p.yaml").symlink_to(path)
    (found,) = list_profiles(folder.search)
    assert (found.path, found.shadowed) == (path, ())


def test_the_default_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.chdir(tmp_path)
    places = default_search().places
    assert [place.label for place in places] == ["working directory", "user", "shipped"]
    assert [place.directory for place in places[:2]] == [tmp_path, tmp_path / "xdg/deployctl"]
    assert (places[2].directory / "profiles/demo.yaml").is_file()


def test_the_list_as_people_and_programs_read_it(folder: Folder) -> None:
    folder.write("work/profiles/mine.yaml", "description: My own\n" + SMALLEST)
    folder.write("shipped/profiles/mine.yaml", SMALLEST)
    folder.write("shipped/profiles/broken.yaml", "a: [\n")
    folder.write("user/profiles/hosts/box.yaml", "ssh: {address: box}\n")
    found = catalogue.entries(folder.search)
    shipped = f"{folder.shipped}/profiles"
    width = len(f"{shipped}/broken.yaml")
    assert catalogue.as_table(found).splitlines() == [
        "profiles",
        f"  broken  shipped            {shipped}/broken.yaml  "
        "(cannot be read: see `deployctl profile validate`)",
        f"  mine    working directory  {'profiles/mine.yaml':{width}}  My own",
        f"          shadows {shipped}/mine.yaml",
        "",
        "playbooks",
        "",
        "hosts",
        f"  box     user               {folder.user}/profiles/hosts/box.yaml",
    ]
    document = catalogue.as_document(found)
    assert document["schema"] == "deployctl.profiles/1"
    assert document["profiles"][1] == {
        "name": "mine",
        "from": "working directory",
        "path": str(folder.work / "profiles/mine.yaml"),
        "description": "My own",
        "shadows": [f"{shipped}/mine.yaml"],
    }
    assert document["playbooks"] == []


def test_every_file_is_checked_by_its_kind(folder: Folder) -> None:
    folder.write("work/profiles/good.yaml", SMALLEST)
    folder.write("work/profiles/bad.yaml", SMALLEST + "zz: 1\n")
    folder.write("work/profiles/hosts/bad.yaml", "locl: true\n")
    folder.write("work/playbooks/bad.yaml", "steps: [biuld]\n")
    folder.write("work/playbooks/up.yaml", "steps: [build]\n")
    found = {
        (entry.word, entry.name): catalogue.check(entry, {"build": NoOptions}, folder.search)
        for entry in catalogue.chosen([], folder.search)
    }
    assert found[("profile", "good")] == ""
    assert "bad.yaml:6:1: zz: unknown key" in found[("profile", "bad")]
    assert "hosts/bad.yaml:1:1: locl: unknown key; did you mean local?" in found[("host", "bad")]
    assert "no step is named biuld; did you mean build?" in found[("playbook", "bad")]


def test_a_check_does_not_see_the_environment(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOYCTL_SERVE__PRT", "1")
    folder.write("work/profiles/good.yaml", SMALLEST)
    folder.write("work/playbooks/up.yaml", "steps: [build]\n")
    (entry,) = catalogue.chosen(["good"], folder.search)
    assert catalogue.check(entry, {"build": NoOptions}, folder.search) == ""
