"""The agent's look at processes: what is read of them, and what is said of what cannot be read."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deployctl.agent.core import programs
from deployctl.agent.core.interface import Call
from deployctl.agent.gpu.devices import Devices
from deployctl.agent.gpu.holders import Marks, bare_facts, read_all, read_process
from deployctl.agent.gpu.survey import relatives
from deployctl.agent.processes import namespaces, processes
from deployctl.agent.processes.pidfds import Handles, ended
from deployctl.agent.processes.places import Places
from deployctl.agent.processes.processes import Stat
from deployctl.agent.processes.stopping import Stopping, stuck_threads
from deployctl.agent.wire.gpus import Holder, Target

NVIDIA = Devices({"nvidia": 195, "nvidiactl": 195, "nvidia-uvm": 511, "nvidia-caps": 241})


@contextmanager
def program(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python program that has run `code` and now waits for signals."""
    text = f"import signal\n{code}\nprint(flush=True)\nwhile True: signal.pause()"
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with program("") as process:
        yield process


def stat(pid: int, **facts: Any) -> Stat:
    values = {"comm": "x", "state": "S", "parent": 1, "group": 0, "session": 0, "cpu": 0}
    return Stat(pid=pid, start=pid, **{**values, **facts})


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (
            ["vllm", "serve", "--api-key", "sk-1", "--port", "1"],
            "vllm serve --api-key *** --port 1",
        ),
        (["x", "--hf-token=hf_1", "HF_TOKEN=hf_1"], "x --hf-token=*** HF_TOKEN=***"),
        (["x", "--password", "--token", "y"], "x --password *** y"),
        (["x", "--max-num-batched-tokens", "32768"], "x --max-num-batched-tokens 32768"),
        (["x", "--tokenizer", "/m", "--ssl-keyfile", "/k"], "x --tokenizer /m --ssl-keyfile /k"),
        (["sort", "key", "file"], "sort key file"),
    ],
)
def test_a_command_line_is_shown_without_its_secrets(argv: list[str], shown: str) -> None:
    assert " ".join(processes.without_secrets(argv)) == shown


def test_a_command_line_that_never_comes_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for_ever, came = threading.Event(), threading.Event()

    def read(pid: int) -> bytes:
        for_ever.wait(60)
        came.set()
        return b"late"

    monkeypatch.setattr(processes, "read_cmdline", read)
    assert processes.command(os.getpid(), within=0.2) == []
    assert not came.is_set()
    for_ever.set()


@pytest.mark.parametrize(
    ("major", "minor", "name"),
    [
        (195, 0, "nvidia0"),
        (195, 15, "nvidia15"),
        (195, 255, "nvidiactl"),
        (195, 254, "nvidia-modeset"),
        (511, 0, "nvidia-uvm"),
        (511, 1, "nvidia-uvm-tools"),
        (241, 3, "nvidia-caps/nvidia-cap3"),
        (508, 0, None),
        (1, 3, None),
    ],
)
def test_a_device_number_names_its_file(major: int, minor: int, name: str | None) -> None:
    assert NVIDIA.name(os.makedev(major, minor)) == name


def test_a_held_device_is_seen_by_its_number() -> None:
    with program("held = open('/dev/zero')") as holder:
        found = processes.read_stat(holder.pid)
        assert found is not None
        *_, facts = read_process(found, Devices({"nvidia": 1}), "/nowhere", Places())
    assert "nvidia5" in facts["devices"]
    assert facts["user"] and facts["executable"] and facts["namespaces"]


class PatientQueue(queue.Queue[Any]):
    """Whoever gets from it runs out of time only while a reader is known to be stuck."""

    stuck = threading.Semaphore(0)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        while True:
            in_vain = self.stuck.acquire(blocking=False)
            try:
                found = super().get(block, timeout)
            except queue.Empty:
                if in_vain:
                    raise
            else:
                if in_vain:
                    self.stuck.release()
                return found


def test_a_process_whose_tables_never_come_is_named_and_the_rest_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue, "Queue", PatientQueue)
    over, came = threading.Event(), threading.Event()

    def never() -> None:
        PatientQueue.stuck.release(2)
        over.wait(60)
        came.set()

    def read(one: Stat) -> Iterable[Holder]:
        if one.pid == 2:
            yield {**bare_facts(one), "devices": ["nvidia0"], "unreadable": ["maps", "cmdline"]}
            never()
        if one.pid == 3:
            never()
        if one.pid == 4:
            raise ProcessLookupError
        yield bare_facts(one)

    found = {f["pid"]: f for f in read_all([stat(n) for n in (1, 2, 3, 4, 5)], read, within=0.2)}
    assert not came.is_set()
    over.set()
    assert found[1]["unreadable"] == found[5]["unreadable"] == []
    assert found[2]["devices"] == ["nvidia0"] and found[2]["unreadable"] == ["maps", "cmdline"]
    assert found[3]["unreadable"] == ["everything"]
    assert 4 not in found


class StoodStill(queue.Queue[Any]):
    """The machine stood still while the first answer was waited for: nobody spoke, time is over."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not hasattr(self, "stood"):
            self.stood = True
            raise queue.Empty
        return super().get(block, timeout)


def test_a_machine_that_stood_still_makes_no_process_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "Queue", StoodStill)
    (found,) = read_all([stat(1)], lambda one: [bare_facts(one)], within=60)
    assert found["unreadable"] == []


def test_marks_are_paths_below_the_root_and_nothing_beside_it() -> None:
    marks = Marks("/srv/deployctl")
    for path in (
        "/srv/deployctl/profiles/demo/units/server/server/server.log",
        "/srv/deployctl/profiles/demo/lock",
        "/srv/deployctl/environments/e1/lib/x.so",
        "/srv/deployctl-old/profiles/other/x",
        "/srv/deployctl/models/m",
    ):
        marks.see("file", path)
    assert [(m["kind"], m["name"]) for m in marks.found()] == [
        ("environments", "e1"),
        ("profiles", "demo"),
    ]


def test_relatives() -> None:
    everyone = [
        stat(10, parent=1, session=10, group=10),
        stat(20, parent=10, session=20, group=20),
        stat(21, parent=20, session=20, group=20),
        stat(22, parent=21, session=22, group=22),
        stat(23, parent=1, session=20, group=23),
        stat(30, parent=1, session=30, group=30),
    ]
    assert relatives(everyone, {21}) == {10, 20, 21, 22, 23}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/lxc/129/ns/system.slice", ("lxc", "129")),
        ("/lxc.payload.gpu-ct/init.scope", ("lxc", "gpu-ct")),
        ("/docker/" + "a" * 64, ("docker", "a" * 12)),
        ("/system.slice/docker-" + "b" * 64 + ".scope", ("docker", "b" * 12)),
        (
            "/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + "c" * 64 + ".scope",
            ("kubernetes", "c" * 12),
        ),
        ("/machine.slice/machine-box.scope", ("nspawn", "box")),
        ("/user.slice/user-0.slice/session-3.scope", None),
        ("/lxc.monitor.129", None),
    ],
)
def test_a_control_group_names_its_container(path: str, expected: tuple[str, str] | None) -> None:
    found = namespaces.container([("", path)])
    assert (None if found is None else (found["kind"], found["name"])) == expected


@pytest.mark.parametrize("channel", ["__refrigerator", "do_freezer_trap"])
def test_the_freezer_is_seen_in_the_wait_channel(channel: str) -> None:
    assert namespaces.frozen([], channel)
    assert not namespaces.frozen([], "do_wait")


def test_a_handle_outlives_its_process_and_never_turns_into_another(
    child: subprocess.Popen[bytes],
) -> None:
    found = processes.read_stat(child.pid)
    assert found is not None
    handles = Handles()
    handles.keep({(found.pid, found.start): os.pidfd_open(found.pid)})
    taken = handles.take(found.pid, found.start)
    assert taken is not None and not ended(taken)
    child.kill()
    child.wait()
    assert ended(taken)
    os.close(taken)
    assert handles.take(found.pid, found.start) is None
    handles.keep({})


def test_without_a_handle_the_start_time_decides(child: subprocess.Popen[bytes]) -> None:
    found = processes.read_stat(child.pid)
    assert found is not None
    assert Handles().take(found.pid, found.start + 1) is None
    taken = Handles().take(found.pid, found.start)
    assert taken is not None
    os.close(taken)


def test_whoever_lets_go_of_the_gpu_before_the_kill_is_spared() -> None:
    with program("signal.signal(signal.SIGTERM, signal.SIG_IGN)") as deaf:
        found = processes.read_stat(deaf.pid)
        assert found is not None
        answers = iter([True, False])
        target: Target = {"pid": found.pid, "start": found.start, "device": True}
        (row,) = Stopping([target], lambda pid: next(answers)).run(grace=0.1, patience=0.1)
        assert row["fate"] == "spared" and deaf.poll() is None


def test_where_a_living_process_waits() -> None:
    (thread, *_) = stuck_threads(os.getpid())
    assert thread["thread"] == os.getpid() and thread["state"] in "RS"


def test_a_program_that_hangs_is_left_after_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Call(str(tmp_path), lambda event: None)
    said = tmp_path / "said"

    class Begun(subprocess.Popen[bytes]):
        """Its time counts from when it has said something, and it is given time to be killed."""

        least = iter((0.0, 60.0))

        def wait(self, timeout: float | None = None) -> int:
            while not said.exists():
                time.sleep(0.01)
            return super().wait(max(timeout or 0.0, next(self.least)))

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", Begun)
        words = f"echo first; touch {said}; exec sleep 600"
        answer = programs.ask(call, ["sh", "-c", words], 0.3)
    assert answer == programs.Answer(None, "first\n", ""), "not ended in its time, and left"
    assert programs.ask(call, ["sh", "-c", "echo no >&2; exit 9"], 60).status == 9


def test_a_root_that_is_a_link_marks_what_the_kernel_names(tmp_path: Path) -> None:
    place = tmp_path / "disk" / "environments" / "e1"
    place.mkdir(parents=True)
    root = tmp_path / "root"
    root.symlink_to(tmp_path / "disk")
    for path in (place / "lib.so", root / "environments" / "e1" / "lib.so"):
        marks = Marks(str(root))
        marks.see("mapping", str(path))
        assert marks.found() == [{"kind": "environments", "name": "e1", "how": "mapping"}]


def test_what_is_lent_from_another_root_marks_nobody_as_ours(tmp_path: Path) -> None:
    lent = tmp_path / "other" / "environments"
    (lent / "e1").mkdir(parents=True)
    root = tmp_path / "root"
    root.mkdir()
    (root / "environments").symlink_to(lent)
    marks = Marks(str(root))
    marks.see("mapping", str(lent / "e1" / "lib.so"))
    assert marks.found() == []


def test_a_program_is_asked_where_no_disk_takes_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    answer = programs.ask(Call("/tmp", lambda event: None), ["cat"], 60, text="said")
    assert answer == programs.Answer(0, "said", "")
