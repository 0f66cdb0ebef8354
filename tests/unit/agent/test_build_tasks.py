"""Wheels that pip's configuration offers, asked of a Python that has pip."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from uv import find_uv_bin

from deployctl.agent.build import build_tasks

UV = """\
#!/bin/sh
echo "$@" >{told}
while [ "$1" != pip ]; do shift; done
shift 2
exec {python} -m pip "$@"
"""


@pytest.fixture
def without_pip(tmp_path: Path) -> Path:
    """A Python that has no pip, as Debian's."""
    subprocess.run([find_uv_bin(), "venv", "-q", tmp_path / "bare"], check=True)
    return tmp_path / "bare/bin/python"


def offers(folder: Path) -> None:
    """A wheel that pip's configuration offers."""
    name = "offered-1-py3-none-any.whl"
    code = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1], 'w');"
    code += "z.writestr('offered-1.dist-info/METADATA', 'Name: offered\\nVersion: 1\\n');"
    code += "z.writestr('offered-1.dist-info/WHEEL', 'Wheel-Version: 1.0\\nTag: py3-none-any\\n')"
    folder.mkdir()
    subprocess.run([sys.executable, "-c", code, folder / name], check=True)


def test_uv_brings_pip_to_a_python_that_has_none(
    without_pip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers(tmp_path / "offers")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "offers"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    uv_stand_in, told = tmp_path / "uv_stand_in", tmp_path / "told"
    uv_stand_in.write_text(UV.format(told=told, python=sys.executable))
    uv_stand_in.chmod(0o755)
    wheels = tmp_path / "wheels"
    assert build_tasks.offer(str(wheels), str(without_pip), str(uv_stand_in), "offered==1") == 0
    assert [path.name for path in wheels.iterdir()] == ["offered-1-py3-none-any.whl"]
    assert told.read_text().startswith(f"tool run --python {without_pip} --from pip pip download")


def test_one_that_has_pip_is_asked_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offers(tmp_path / "offers")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "offers"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    wheels = tmp_path / "wheels"
    assert build_tasks.offer(str(wheels), sys.executable, "/no/uv", "offered==1") == 0
    assert build_tasks.offer(str(wheels), "3.0", "/no/uv", "offered==1") == 1
