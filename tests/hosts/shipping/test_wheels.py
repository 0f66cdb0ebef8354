"""Installed distributions made into wheels again, and installed from those by real uv."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import pytest
from uv import find_uv_bin

from deployctl.agent.build.dist_records import site_packages
from deployctl.agent.core.interface import AgentError
from deployctl.agent.shipping import parcel
from deployctl.agent.shipping.wheels import rebuild
from tests.hosts.shipping.index import make_wheel

INFO = "several_things-1.0+local.2.dist-info"
FILES: dict[str, str | bytes] = {
    "several/__init__.py": "def main():\n    print('entry point')\n",
    "several/data.bin": bytes(range(256)) * 100,
    "several/naïve file, 名.txt": "names as they come\n",
    "several_things-1.0+local.2.data/scripts/plain": "#!python\nprint('plain script')\n",
    "several_things-1.0+local.2.data/scripts/shell": "#!/bin/sh\necho shell\n",
    "several_things-1.0+local.2.data/data/share/several/notes.txt": "beside\n",
    f"{INFO}/licenses/LICENSE": "free\n",
}


def environment(folder: Path, *arguments: str | Path) -> Path:
    """A new environment with these installed, nothing but these."""
    uv = find_uv_bin()
    subprocess.run([uv, "venv", "-q", "--python", "3.11", folder], check=True)
    install = [uv, "pip", "install", "-q", "--offline", "--no-index", "--no-deps"]
    subprocess.run([*install, "--python", folder / "bin/python", *arguments], check=True)
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    scripts = {"several": "several:main"}
    make_wheel(folder / "wheels", "several_things", "1.0+local.2", FILES, scripts)
    links: list[str | Path] = ["--find-links", folder / "wheels", "several-things==1.0+local.2"]
    return environment(folder / "environment", *links)


def said(environment: Path, program: str) -> str:
    return subprocess.check_output([environment / "bin" / program], text=True).strip()


def test_what_was_installed_is_installed_again(installed: Path, tmp_path: Path) -> None:
    name = rebuild(site_packages(str(installed)), INFO, str(tmp_path))
    assert name == "several_things-1.0+local.2-py3-none-any.whl"
    links: list[str | Path] = ["--find-links", tmp_path, "several-things==1.0+local.2"]
    again = environment(tmp_path / "again", *links)
    for program in ("several", "plain", "shell"):
        assert said(again, program) == said(installed, program)
    assert str(installed) not in (again / "bin" / "plain").read_text()
    for path in ("several/data.bin", "several/naïve file, 名.txt", f"{INFO}/licenses/LICENSE"):
        here, there = (Path(site_packages(str(one)), path) for one in (installed, again))
        assert here.read_bytes() == there.read_bytes()
    assert (again / "share/several/notes.txt").read_text() == "beside\n"
    with zipfile.ZipFile(tmp_path / name) as wheel:
        assert wheel.testzip() is None
        inside = set(wheel.namelist())
    assert f"{INFO}/INSTALLER" not in inside and not [n for n in inside if n.endswith(".pyc")]


def test_the_same_installation_makes_the_same_bytes(installed: Path, tmp_path: Path) -> None:
    made = []
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        name = rebuild(site_packages(str(installed)), INFO, str(tmp_path / number))
        made.append((tmp_path / number / name).read_bytes())
    assert made[0] == made[1]


def copied(installed: Path, tmp_path: Path) -> Path:
    """The site-packages of a copy."""
    target = tmp_path / "copy"
    subprocess.run(["cp", "-a", installed, target], check=True)
    return Path(site_packages(str(target)))


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("several/data.bin", "changed", "damaged"),
        ("several/data.bin", None, "damaged"),
        (f"{INFO}/RECORD", None, "no-wheel"),
        (f"{INFO}/WHEEL", None, "no-wheel"),
        (f"{INFO}/WHEEL", "Wheel-Version: 1.0\n", "no-wheel"),
        (f"{INFO}/entry_points.txt", "no section\n", "no-wheel"),
    ],
)
def test_what_is_not_as_recorded_is_not_passed_on(
    installed: Path, tmp_path: Path, path: str, text: str | None, kind: str
) -> None:
    site = copied(installed, tmp_path)
    place = site / path
    place.unlink()  # its bytes may be shared with others by a hard link
    if text is not None:
        place.write_text(text)
    with pytest.raises(AgentError) as raised:
        rebuild(str(site), INFO, str(tmp_path))
    assert raised.value.kind == kind
    assert Path(path).name in str(raised.value) or INFO[:-10] in str(raised.value)


def test_a_project_installed_in_place_cannot_travel(installed: Path, tmp_path: Path) -> None:
    site = copied(installed, tmp_path)
    direct = {"url": "file:///home/me/project", "dir_info": {"editable": True}}
    (site / INFO / "direct_url.json").write_text(json.dumps(direct))
    with pytest.raises(AgentError) as raised:
        parcel.pack(str(site.parents[2]), str(tmp_path / "parcel"))
    assert raised.value.kind == "no-wheel" and "several" in str(raised.value)
    assert not (tmp_path / "parcel").exists()
