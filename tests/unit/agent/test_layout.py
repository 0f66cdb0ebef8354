"""Where units lie, and what becomes of an older layout: at each moment everything is found."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.core import layout
from deployctl.agent.core.atomic_files import write_text
from deployctl.agent.core.interface import AgentError, Call
from deployctl.agent.gpu.holders import Marks
from deployctl.agent.store import releases, takeover
from deployctl.agent.supervision import units
from deployctl.agent.supervision.unit_files import Unit
from tests.hosts.served.older.revive import lay_out, recorded

ITEMS = (*layout.FOLDERS, *layout.LINKS)


class Cut(BaseException):
    """The end of an agent that is killed."""


def older(root: Path, kind: str) -> Call:
    found = recorded(kind)
    lay_out(root, found["files"], found["links"])
    return Call(str(root), lambda event: None)


def everything(call: Call) -> dict[str, Any]:
    """What is known of every unit, wherever it lies."""
    return {
        profile: {
            unit: (
                releases.state(call, profile, unit, last=0),
                (Unit(call, profile, unit).spec() or {}).get("release"),
            )
            for unit in layout.units(call.root, profile)
        }
        for profile in releases.profiles(call)
    }


@pytest.mark.parametrize(
    ("kind", "known"), [("recreate", {"server"}), ("slots", {"blue", "front", "green"})]
)
def test_what_lies_in_an_older_layout_is_found(tmp_path: Path, kind: str, known: set[str]) -> None:
    call = older(tmp_path, kind)
    found = everything(call)
    assert {profile: {*own} for profile, own in found.items()} == {"stand": known}
    states = {unit: state for unit, (state, _) in found["stand"].items()}
    assert all(state["current"] for unit, state in states.items() if unit != "front")
    manifest = f"@/profiles/stand/units/{min(known - {'front'})}/current/manifest.json"
    assert Path(call.path(manifest)).exists()
    name = "stand" if kind == "recreate" else "stand/blue"
    marks = Marks(str(tmp_path))
    marks.see("file", f"{tmp_path}/profiles/{name.replace('/', '.')}/server/server.log")
    releases.lock(call, "stand", {"run": "r"})
    marks.see("file", f"{tmp_path}/profiles/stand/units/{min(known)}/server/server.log")
    marks.see("argument", f"{tmp_path}/profiles/{name.replace('/', '.')}/releases/x/drafter")
    assert [mark["name"] for mark in marks.found()] == [name]


@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("kind", ["recreate", "slots"])
def test_it_is_moved_and_stays_what_it_was(
    tmp_path: Path, kind: str, exchanges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = older(tmp_path, kind)
    before = everything(call)
    inodes = {path.stat().st_ino for path in tmp_path.rglob("spec.json")}
    if not exchanges:
        monkeypatch.setattr(takeover, "_exchange", lambda one, other: False)
    takeover.take_over(call.root, "stand")
    assert _without_ledger(everything(call)) == _without_ledger(before)
    assert not layout.older_units(call.root, "stand")
    for unit in before["stand"]:
        home = tmp_path / "profiles/stand/units" / unit
        assert {path.name for path in home.iterdir()} <= {*ITEMS, "lock"}
        assert not (home / "server").is_symlink()
        # Where an older supervisor writes, the same file is read.
        old = Path(layout.older_home(call.root, "stand", unit)) / "server" / "spec.json"
        assert old.stat().st_ino == (home / "server" / "spec.json").stat().st_ino in inodes
    takeover.take_over(call.root, "stand")
    assert _without_ledger(everything(call)) == _without_ledger(before)


@pytest.mark.parametrize("kind", ["recreate", "slots"])
def test_a_directory_that_cannot_be_moved_stays_and_is_found(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount point, or a directory of an overlay's lower layer."""
    call = older(tmp_path, kind)
    before = _without_ledger(everything(call))
    rename = os.rename

    def across(old: str, new: str) -> None:
        if Path(old).is_dir() and not Path(old).is_symlink():
            raise OSError(errno.EXDEV, "Invalid cross-device link", old)
        rename(old, new)

    monkeypatch.setattr(takeover, "_exchange", lambda one, other: False)
    monkeypatch.setattr(os, "rename", across)
    for _ in range(2):
        takeover.take_over(call.root, "stand")
        assert _without_ledger(everything(call)) == before


def _without_ledger(found: dict[str, Any]) -> dict[str, Any]:
    return {
        profile: {unit: ({**state, "ledger": None}, runs) for unit, (state, runs) in own.items()}
        for profile, own in found.items()
    }


@pytest.mark.parametrize("kind", ["recreate", "slots"])
@pytest.mark.parametrize("exchanges", [True, False])
def test_a_takeover_that_is_cut_off_loses_nothing_and_is_finished(
    tmp_path: Path, kind: str, exchanges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    while True:
        root = tmp_path / str(steps)
        call = older(root, kind)
        before = _without_ledger(everything(call))
        with monkeypatch.context() as patched:
            if not exchanges:
                patched.setattr(takeover, "_exchange", lambda one, other: False)
            _cut_after(steps, patched)
            try:
                takeover.take_over(call.root, "stand")
            except Cut:
                pass
            else:
                break
        assert _without_ledger(everything(call)) == before, f"after {steps} steps"
        takeover.take_over(call.root, "stand")
        assert _without_ledger(everything(call)) == before, f"after {steps} steps and the rest"
        entries = releases.ledger(call, "stand")
        begun = [entry["run"] for entry in entries if entry["kind"] == "begin"]
        assert len(begun) == len({*begun}) == 3, "each run once"
        steps += 1
    assert steps > 5


def _cut_after(steps: int, patched: pytest.MonkeyPatch) -> None:
    left = [steps]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if left[0] == 0:
                raise Cut
            left[0] -= 1
            return function(*arguments, **named)

        return call

    for name in ("rename", "symlink", "unlink", "makedirs"):
        patched.setattr(os, name, counted(getattr(os, name)))
    patched.setattr(takeover, "write_text", counted(write_text))


def test_runs_that_only_a_slot_knows_join_the_ledger_in_their_time(tmp_path: Path) -> None:
    call = older(tmp_path, "slots")
    path = tmp_path / "profiles/stand.green/ledger.jsonl"
    own = {"kind": "end", "run": "alone", "outcome": "passed", "release": "x", "time": 5.0}
    path.write_text("damaged\n" + path.read_text() + json.dumps(own) + "\n")
    takeover.take_over(call.root, "stand")
    entries = releases.ledger(call, "stand")
    assert entries[1] == {**own, "unit": "green"}
    assert [one["kind"] for one in entries[:1]] == ["damaged"]
    assert [one["time"] for one in entries[1:]] == sorted(one["time"] for one in entries[1:])
    assert own["run"] in {
        one.get("run") for one in releases.state(call, "stand", "green")["ledger"]
    }


def test_a_profile_of_a_slots_name_is_left_alone(tmp_path: Path) -> None:
    call = Call(str(tmp_path), lambda event: None)
    for name in ("other", "other.blue"):
        (tmp_path / "profiles" / name / "releases" / "r").mkdir(parents=True)
    takeover.take_over(call.root, "other")
    assert releases.profiles(call) == ["other", "other.blue"]
    assert layout.units(call.root, "other") == ["server"]
    assert [*releases.state(call, "other.blue", "server")["releases"]] == ["r"]


def test_a_run_of_an_older_deployctl_is_waited_for(tmp_path: Path) -> None:
    call = older(tmp_path, "slots")
    path = tmp_path / "profiles/stand.blue/lock"
    path.write_text(json.dumps({"run": "old"}))
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(AgentError) as caught:
            releases.lock(call, "stand", {"run": "new"})
    assert (caught.value.kind, caught.value.detail) == ("locked", {"run": "old"})
    assert releases.lock(call, "stand", {"run": "new"}) == {"held": True}


@pytest.mark.parametrize("name", ["../etc", "", "a/b", ".hidden", "x" * 64])
def test_no_path_is_a_name(tmp_path: Path, name: str) -> None:
    call = Call(str(tmp_path), lambda event: None)
    for profile, unit in ((name, "server"), ("toy", name)):
        with pytest.raises(AgentError) as caught:
            units.state(call, profile, unit)
        assert caught.value.kind == "bad-name"
