"""What an agent leaves behind that died in the middle of its work, met by the next one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl.engine.ledger.garbage import doomed
from deployctl.hosts.session import Session
from deployctl.hosts.ways.local import LocalTransport


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(LocalTransport("local"), root=str(tmp_path)) as session:
        yield session


def release(root: Path, name: str) -> Path:
    """A sealed release of the profile `toy`."""
    folder = root / "profiles" / "toy" / "units" / "server" / "releases" / name
    (folder / "drafter").mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"release": name}))
    (folder / "failed.json").write_text("{}")
    return folder


def test_half_a_removal_is_nothing_that_counts_and_goes_next_time(
    session: Session, tmp_path: Path
) -> None:
    half = [tmp_path / kind / ".removing.x" for kind in ("environments", "jobs", "models")]
    for folder in half:
        (folder / "deep").mkdir(parents=True)
        (folder / "seal.json").write_text("{}")
    release(tmp_path, "good")
    half.append(release(tmp_path, ".removing.gone"))
    assert session.call("jobs.listing") == []
    state = session.call("releases.state", profile="toy", unit="server")
    assert list(state["releases"]) == ["good"] and state["environments"] == {}
    assert session.call("models.views", profile="toy", unit="server").keys() == {"good"}
    (half[-1] / "manifest.json").unlink()
    assert session.call("release_status.failed", profile="toy", unit="server") == {}
    found = doomed(session.call("garbage.inventory"), "toy", keep=1)
    assert {one.name for one in found} == {".removing.x", ".removing.gone"}
    for one in found:
        session.call(
            "garbage.remove", kind=one.kind, name=one.name, profile=one.profile, unit=one.unit
        )
    assert not any(folder.exists() for folder in half)


def test_a_removal_whose_last_try_was_cut_off(session: Session, tmp_path: Path) -> None:
    for name in ("x", ".removing.x"):
        (tmp_path / "models" / name / "deep").mkdir(parents=True)
    session.call("garbage.remove", kind="models", name="x")
    assert list((tmp_path / "models").iterdir()) == []


def test_a_link_that_an_agent_of_the_same_number_was_about_to_switch(
    session: Session, tmp_path: Path
) -> None:
    release(tmp_path, "r1")
    home, pid = tmp_path / "profiles" / "toy" / "units" / "server", session.agent["pid"]
    (home / f"current.{pid}.tmp").symlink_to("releases/r0")
    (home / "releases" / "r1" / f"environment.{pid}.tmp").symlink_to("nowhere")
    assert (
        session.call("releases.switch", profile="toy", unit="server", release="r1")["current"]
        == "r1"
    )
    session.call("releases.prepare", profile="toy", unit="server", release="r1", environment="e1")
    assert (home / "releases" / "r1" / "environment").readlink().name == "e1"


def test_a_tree_whose_removal_was_cut_off_in_an_agent_of_the_same_number(
    session: Session, tmp_path: Path
) -> None:
    for name in ("x", f".removing.x.{session.agent['pid']}"):
        (tmp_path / name / "deep").mkdir(parents=True)
    assert session.call("files.remove_tree", path="@/x")["removed"]
    assert list(tmp_path.glob("*x*")) == []
