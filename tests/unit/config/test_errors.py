"""Errors as data: each errors/NAME.yaml with the exact lines that it gives, NAME.expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployctl.config.profile import Profile
from deployctl.errors import ConfigError
from tests.unit.config.conftest import SMALLEST, Folder

CASES = sorted((Path(__file__).parent / "errors").glob("*.yaml"))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_every_problem_is_told_with_its_place(folder: Folder, case: Path) -> None:
    folder.write("work/profiles/smallest.yaml", SMALLEST)
    folder.write("work/profiles/hosts/here.yaml", "local: true\n")
    folder.write("shipped/playbooks/up.yaml", "steps: [build]\n")
    folder.write("work/profiles/case.yaml", case.read_bytes())
    places = {"work": folder.work, "user": folder.user, "shipped": folder.shipped}
    expected = case.with_suffix(".expected").read_text()
    for name, place in places.items():
        expected = expected.replace(f"{{{name}}}", str(place))
    expected = expected.replace("{keys}", ", ".join(Profile.model_fields))

    with pytest.raises(ConfigError) as error:
        folder.load("case")

    assert error.value.why == expected.rstrip("\n")
    assert error.value.exit_code == 3
    assert "nothing was touched" in error.value.next


def test_a_profile_that_extends_itself_is_not_suggested(folder: Folder) -> None:
    folder.write("work/profiles/bad.yaml", "extends: bad\n")
    with pytest.raises(ConfigError, match="no profile is named bad") as error:
        folder.load("bad")
    assert "did you mean bad" not in error.value.why + error.value.what


def test_an_empty_list_is_told_in_our_words(folder: Folder) -> None:
    folder.profile("p", "")
    with pytest.raises(ConfigError) as error:
        folder.load("p", "hosts=[]")
    assert "hosts: needs at least 1 item" in error.value.why


def test_two_host_files_with_one_address_are_named_with_their_lines(folder: Folder) -> None:
    for name in ("mybox", "box2"):
        folder.write(f"work/profiles/hosts/{name}.yaml", "ssh:\n  address: gpu.example\n")
    folder.write("work/profiles/hosts/front.yaml", "local: true\n")
    folder.profile(
        "p",
        """
        hosts: [front, mybox, box2]
        serve: {port: 8000, host: 0.0.0.0}
        router: {port: 9000}
        """,
    )
    with pytest.raises(ConfigError) as error:
        folder.load("p")
    assert error.value.why == (
        "profiles/hosts/box2.yaml:2:3: hosts.2.ssh.address: box2 and mybox have the same address, "
        "gpu.example"
    )
