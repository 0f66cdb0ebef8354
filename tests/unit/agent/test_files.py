from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.core.interface import AgentError, Call
from deployctl.agent.store import files
from deployctl.agent.wire.answers import Entry, FileWritten


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
def call(root: Path) -> Call:
    return Call(str(root), lambda event: None)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class TestRead:
    def test_text(self, call: Call, root: Path) -> None:
        (root / "a").write_text("é\n")
        (root / "a").chmod(0o640)
        found = files.read(call, "@/a")
        assert found["text"] == "é\n" and found["base64"] is None
        assert (found["mode"], found["size"]) == (0o640, 3)
        assert found["sha256"] == sha256("é\n".encode())

    def test_bytes_that_are_no_text(self, call: Call, root: Path) -> None:
        (root / "a").write_bytes(b"\xff\x00")
        found = files.read(call, "@/a")
        assert found["text"] is None and base64.b64decode(found["base64"] or "") == b"\xff\x00"

    def test_nothing_there_is_an_answer(self, call: Call, root: Path) -> None:
        (root / "file").write_text("")
        for path in ("@/missing", "@/missing/below", "@/file/below"):
            assert files.read(call, path)["exists"] is False

    def test_a_link(self, call: Call, root: Path) -> None:
        (root / "a").write_text("x")
        (root / "link").symlink_to("a")
        assert files.read(call, "@/link")["link"] == "a"
        (root / "dangling").symlink_to("gone")
        found = files.read(call, "@/dangling")
        assert found["exists"] is False and found["link"] == "gone"

    def test_the_limit(self, call: Call, root: Path) -> None:
        (root / "a").write_text("x" * 10)
        assert files.read(call, "@/a", limit=10)["size"] == 10
        with pytest.raises(AgentError) as caught:
            files.read(call, "@/a", limit=9)
        assert caught.value.kind == "too-big"

    def test_what_is_no_file(self, call: Call, root: Path) -> None:
        os.mkfifo(root / "fifo")
        for path in ("@/fifo", "@/", "/dev/null"):
            with pytest.raises(AgentError) as caught:
                files.read(call, path)
            assert caught.value.kind == "not-a-file"

    def test_files_of_the_kernel_have_no_size_and_a_text(self, call: Call) -> None:
        assert (files.read(call, "/proc/self/stat")["size"] or 0) > 0


class TestWrite:
    def test_a_new_file_and_the_directories_above(self, call: Call, root: Path) -> None:
        written = files.write(call, "@/a/b/c", text="é")
        assert (root / "a/b/c").read_text() == "é"
        assert written["sha256"] == sha256("é".encode()) and written["size"] == 2
        assert stat.S_IMODE((root / "a/b/c").stat().st_mode) == written["mode"] == 0o600
        assert names(root / "a/b") == ["c"]

    def test_a_mode_is_kept_or_given(self, call: Call, root: Path) -> None:
        (root / "a").write_text("old")
        (root / "a").chmod(0o640)
        assert files.write(call, "@/a", text="new")["mode"] == 0o640
        assert files.write(call, "@/a", text="new", mode=0o600)["mode"] == 0o600
        assert stat.S_IMODE((root / "a").stat().st_mode) == 0o600

    def test_a_linked_snapshot(self, call: Call, root: Path) -> None:
        # Case 5: two snapshots link one blob; the edit of one changes neither blob nor sibling.
        for name in ("one", "two", "blobs"):
            (root / name).mkdir()
        (root / "blobs/x").write_text("{}")
        for name in ("one", "two"):
            (root / name / "config.json").symlink_to("../blobs/x")
        files.write(call, "@/one/config.json", text='{"edited": true}')
        assert (root / "blobs/x").read_text() == "{}"
        assert (root / "two/config.json").read_text() == "{}"
        assert not (root / "one/config.json").is_symlink()
        assert stat.S_IMODE((root / "one/config.json").stat().st_mode) == 0o644
        assert (root / "one/config.json").read_text() == '{"edited": true}'

    def test_a_reader_sees_the_old_or_the_new(self, call: Call, root: Path) -> None:
        texts = {"a" * 100_000, "b" * 100_000}
        files.write(call, "@/x", text="a" * 100_000)
        seen = set()
        done = threading.Event()

        def look() -> None:
            while not done.is_set():
                seen.add((root / "x").read_text())

        looking = threading.Thread(target=look)
        looking.start()
        for text in sorted(texts) * 20:
            files.write(call, "@/x", text=text)
        done.set()
        looking.join()
        assert seen <= texts

    def test_a_failure_leaves_everything_as_it_was(self, call: Call, root: Path) -> None:
        (root / "d").mkdir()
        with pytest.raises(AgentError):
            files.write(call, "@/d", text="x")
        with pytest.raises(AgentError):
            files.write(call, "@/new", base64="not base64!")
        with pytest.raises(AgentError):
            files.write(call, "@/new")
        assert names(root) == ["d"]

    def test_bytes(self, call: Call, root: Path) -> None:
        files.write(call, "@/a", base64=base64.b64encode(b"\xff").decode())
        assert (root / "a").read_bytes() == b"\xff"


class TestPut:
    def put(self, call: Call, data: bytes, fed: list[Any], **changes: Any) -> FileWritten:
        for item in fed:
            call.inbox.put(item)
        args = {"path": "@/big", "size": len(data), "sha256": sha256(data), **changes}
        return files.put(call, **args)

    def encoded(self, *chunks: bytes) -> list[Any]:
        return [base64.b64encode(chunk).decode() for chunk in chunks]

    def test_chunks(self, root: Path) -> None:
        events: list[dict[str, Any]] = []
        call = Call(str(root), events.append)
        written = self.put(call, b"abcdef", self.encoded(b"abc", b"de", b"f"), mode=0o755)
        assert (root / "big").read_bytes() == b"abcdef" and written["mode"] == 0o755
        assert events == [{"taken": 3}, {"taken": 5}, {"taken": 6}]

    def test_an_empty_file(self, call: Call, root: Path) -> None:
        assert self.put(call, b"", [])["size"] == 0

    @pytest.mark.parametrize(
        ("fed", "kind"),
        [
            (["YWJjZGVm", "eA=="], None),
            (["YWJjZGVmZw=="], "damaged"),
            (["YWJjZGVn"], "damaged"),
            (["YWJj", None], "cancelled"),
            (["***"], "bad-arguments"),
        ],
    )
    def test_what_is_not_whole_is_not_kept(
        self, call: Call, root: Path, fed: list[Any], kind: str | None
    ) -> None:
        (root / "big").write_text("before")
        if kind is None:
            assert self.put(call, b"abcdef", fed)["size"] == 6
            return
        with pytest.raises(AgentError) as caught:
            self.put(call, b"abcdef", fed)
        assert caught.value.kind == kind
        assert (root / "big").read_text() == "before"
        assert names(root) == ["big"]


class TestLeftOver:
    def test_what_a_dead_agent_wrote_goes_and_nothing_else(self, call: Call, root: Path) -> None:
        for name in (".writing.dead", ".writing.held", "other"):
            (root / name).write_bytes(b"x")
            os.utime(root / name, (1, 1))
        (root / ".writing.new").write_bytes(b"x")
        with (root / ".writing.held").open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            files.write(call, "@/made", text="y")
        assert names(root) == [".writing.held", ".writing.new", "made", "other"]


class TestList:
    def test_what_goes_while_it_is_looked_at(
        self, call: Call, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "stays").touch()
        (root / "goes").touch()
        tell = files._entry

        def late(entry: os.DirEntry[str]) -> Entry:
            (root / "goes").unlink(missing_ok=True)
            return tell(entry)

        monkeypatch.setattr(files, "_entry", late)
        found = files.list(call, "@")
        assert found["exists"] and "stays" in found["entries"]


class TestTrees:
    def test_a_listing(self, call: Call, root: Path) -> None:
        (root / "f").write_text("abc")
        (root / "d").mkdir()
        (root / "l").symlink_to("f")
        os.mkfifo(root / "p")
        found = files.list(call, "@/")
        kinds = {name: entry["kind"] for name, entry in found["entries"].items()}
        assert kinds == {"f": "file", "d": "directory", "l": "link", "p": "other"}
        assert found["entries"]["l"]["link"] == "f" and found["entries"]["f"]["size"] == 3
        assert files.list(call, "@/missing")["exists"] is False

    def test_a_digest_is_of_what_is_there(self, call: Call, root: Path) -> None:
        def make(name: str, change: str = "") -> str | None:
            top = root / name
            (top / "d").mkdir(parents=True)
            (top / "a").write_text("changed" if change == "content" else "x")
            (top / ("c" if change == "name" else "b")).write_text("y")
            (top / "d/l").symlink_to("elsewhere" if change == "link" else "../a")
            (top / "empty").mkdir()
            if change == "mode":
                (top / "a").chmod(0o755)
            if change == "time":
                os.utime(top / "a", (1, 1))
            return files.tree_digest(call, f"@/{name}")["sha256"]

        first = make("one")
        assert make("two", "time") == first
        changes = ("content", "name", "link", "mode")
        assert len({first, *(make(change, change) for change in changes)}) == 5
        assert files.tree_digest(call, "@/one")["files"] == 2
        assert files.tree_digest(call, "@/one")["bytes"] == 2
        assert files.tree_digest(call, "@/missing")["exists"] is False

    def test_a_digest_can_be_given_up(self, call: Call, root: Path) -> None:
        (root / "a").write_text("x")
        call.cancelled.set()
        with pytest.raises(AgentError) as caught:
            files.tree_digest(call, "@/")
        assert caught.value.kind == "cancelled"

    def test_removing(self, call: Call, root: Path) -> None:
        (root / "d/e").mkdir(parents=True)
        (root / "d/e/f").write_text("x")
        (root / "outside").mkdir()
        (root / "outside/kept").write_text("x")
        (root / "d/link").symlink_to("../outside")
        assert files.remove_tree(call, "@/d")["removed"] is True
        assert files.remove_tree(call, "@/d")["removed"] is False
        assert names(root) == ["outside"] and (root / "outside/kept").exists()

    @pytest.mark.parametrize(
        "path", ["@", "@/", "@/..", "@/../other", "@/x/../../other", "/", "~", "@/out/below"]
    )
    def test_nothing_outside_the_root_is_removed(
        self, call: Call, root: Path, tmp_path: Path, path: str
    ) -> None:
        (tmp_path / "other/below").mkdir(parents=True)
        (root / "out").symlink_to(tmp_path / "other")
        with pytest.raises(AgentError) as caught:
            files.remove_tree(call, path)
        assert caught.value.kind == "outside"
        assert (tmp_path / "other/below").exists() and root.exists()

    def test_a_link_is_removed_and_not_what_it_points_at(
        self, call: Call, root: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "other").mkdir()
        (root / "out").symlink_to(tmp_path / "other")
        assert files.remove_tree(call, "@/out")["removed"] is True
        assert (tmp_path / "other").exists() and not (root / "out").is_symlink()

    def test_the_disk_of_what_is_not_there_yet(self, call: Call, root: Path) -> None:
        found = files.disk(call, "@/not/yet/there")
        assert 0 < found["free"] <= found["total"]
        assert found["total"] == files.disk(call, "@")["total"]
