"""Folders as pieces with checksums: described, received, interrupted, damaged."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.core.interface import AgentError, Call
from deployctl.agent.shipping import pieces, shipping
from deployctl.agent.shipping.incoming import Incoming
from deployctl.agent.wire import frames

SMALL = 1000


def nothing() -> None:
    return


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "made"
    (made / "sub").mkdir(parents=True)
    (made / "a.bin").write_bytes(os.urandom(2500))
    (made / "empty").write_bytes(b"")
    (made / "run").write_bytes(b"#!/bin/sh\n")
    (made / "run").chmod(0o755)
    (made / "sub" / "b.bin").write_bytes(os.urandom(1700))
    (made / ".hidden").write_bytes(b"a hub's own notes")
    (made / "link.bin").symlink_to("a.bin")
    return made


def manifest(folder: Path) -> dict[str, Any]:
    return pieces.describe(str(folder), nothing, SMALL)


def received(folder: Path, target: Path, numbers: list[int] | None = None) -> Incoming:
    """A folder of which these pieces came, all of them where none are given."""
    found = manifest(folder)
    incoming, layout = Incoming(str(target)), pieces.Layout(found)
    lacking = incoming.prepare(found, nothing)
    for number in lacking if numbers is None else numbers:
        incoming.store(layout, number, layout.read(str(folder), number))
    incoming.close()
    return incoming


def test_what_is_described_arrives_as_it_is(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    received(folder, target).finish(nothing)
    names = sorted(str(p.relative_to(target)) for p in target.rglob("*") if p.is_file())
    assert names == ["a.bin", "empty", "link.bin", "run", "sub/b.bin"]
    for name in names:
        assert (target / name).read_bytes() == (folder / name).read_bytes()
    assert (target / "run").stat().st_mode & 0o777 == 0o755
    assert not (target / "link.bin").is_symlink()


def test_an_interrupted_one_goes_on_with_what_is_right(folder: Path, tmp_path: Path) -> None:
    target, found = tmp_path / "target", manifest(folder)
    incoming = received(folder, target, [0, 1, 3, 5])
    with pytest.raises(AgentError) as raised:
        incoming.finish(nothing)
    assert raised.value.kind == "incomplete" and "a.bin bytes 2000-2499" in str(raised.value)
    # What lies there is compared: a note that it came is not believed.
    part = target.with_name("target.incoming") / "a.bin"
    with part.open("r+b") as file:
        file.seek(1100)
        file.write(b"other bytes")
    assert Incoming(str(target)).prepare(found, nothing) == [
        n for n in range(len(found["digests"])) if n not in (0, 3, 5)
    ]
    assert not target.exists()


def test_a_file_that_does_not_belong_there_goes(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    incoming = received(folder, target, [0])
    (Path(incoming.part) / "stranger").write_bytes(b"x")
    (Path(incoming.part) / "sub").mkdir(exist_ok=True)
    (Path(incoming.part) / "sub" / "b.bin").write_bytes(b"x" * 5000)
    received(folder, target).finish(nothing)
    assert not (target / "stranger").exists()
    assert (target / "sub" / "b.bin").stat().st_size == 1700


def test_who_receives_it_is_alone(folder: Path, tmp_path: Path) -> None:
    incoming = received(folder, tmp_path / "target", [0])
    with incoming.locked(), pytest.raises(AgentError) as raised:
        Incoming(incoming.folder).prepare(manifest(folder), nothing)
    assert raised.value.kind == "busy"


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x", "a/../../x", "", "a//b", ".", "a\\b", ".deployctl/lock", 7]
)
def test_a_name_that_leads_elsewhere_is_refused(name: Any, tmp_path: Path) -> None:
    found = {"files": [{"name": name, "size": 0, "mode": 0o644}], "piece": 10, "digests": []}
    with pytest.raises(AgentError) as raised:
        Incoming(str(tmp_path / "target")).prepare(found, nothing)
    assert raised.value.kind == "bad-manifest"


def test_pieces_that_do_not_add_up_are_refused() -> None:
    for digests, size in (([], 5), (["x"], 0), (["x"], -1), (["x", "y"], 10)):
        found = {"files": [{"name": "a", "size": size, "mode": 0o644}], "piece": 10}
        with pytest.raises(AgentError):
            pieces.Layout({**found, "digests": digests})


def test_checksums_are_made_again_where_a_file_changed(folder: Path, tmp_path: Path) -> None:
    call = Call(str(tmp_path / "root"), lambda event: None)
    first = shipping.describe(call, str(folder))
    assert shipping.describe(call, str(folder)) == first
    (folder / "run").write_bytes(b"#!/bin/no\n")
    assert shipping.describe(call, str(folder))["manifest"] != first["manifest"]
    with pytest.raises(AgentError) as raised:
        shipping.describe(call, str(tmp_path / "nowhere"))
    assert raised.value.kind == "nothing"


def test_how_often_a_piece_came_damaged_is_known(folder: Path, tmp_path: Path) -> None:
    incoming = received(folder, tmp_path / "target", [0])
    for number in (0, 2, 2):
        incoming.note_damaged(number)
    incoming.close()
    assert incoming.damaged() == {2: 2}
    assert 2 in incoming.lacking() and 0 not in incoming.lacking()


def stream(*parts: bytes) -> io.BytesIO:
    return io.BytesIO(b"".join(parts))


def test_a_stream_of_pieces() -> None:
    whole = [b"Welcome to the host\r\n", frames.MAGIC, frames.head(7, 3), b"abc", frames.end()]
    assert list(frames.read(stream(*whole))) == [(7, b"abc")]
    for broken in (whole[:1], whole[:3], whole[:4], [*whole[:3], b"ab"], [b"x" * 10]):
        with pytest.raises(frames.BrokenStream):
            list(frames.read(stream(*broken)))
