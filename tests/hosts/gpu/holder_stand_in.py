"""A stand-in for programs that use a GPU: it holds device files until it is ended.

`holder_stand_in.py start JSON` starts one in a session of its own, waits until it holds what it
should, and prints its PID; `be JSON` becomes one in place. The JSON:
    argv          what its command line shall be: ["VLLM::EngineCore"] for an engine core
    comm          the kernel's short name of it (the first of argv, else)
    devices       device files to hold open
    mapped        device files to map and then close
    memory        MiB that nvidia-smi's stand-in shall count for it
    draws         it only draws: no compute process for nvidia-smi's stand-in
    deaf          take no notice of SIGTERM
    releases      on SIGTERM let go of the devices, and live on
    block         a file to write to, once SIGUSR1 arrives
    children      the same for processes that it starts itself
    again         start the children anew when they end
    files         files to keep open
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import signal
import sys
import threading
from typing import NoReturn, TypedDict


class Spec(TypedDict, total=False):
    argv: list[str]
    comm: str
    devices: list[str]
    mapped: list[str]
    memory: int
    draws: bool
    deaf: bool
    releases: bool
    block: str
    children: list[Spec]
    again: bool
    files: list[str]


PR_SET_NAME = 15


def start(spec: Spec) -> int:
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        become(spec, tell)
    os.close(tell)
    os.read(ready, 1)
    return pid


def become(spec: Spec, tell: int) -> NoReturn:
    """Turn this process into the holder: its command line is then exactly `argv`."""
    os.set_inheritable(tell, True)
    environment = {"SPEC": json.dumps(spec), "TELL": str(tell), "PATH": os.environ["PATH"]}
    environment["GPU_MEMORY_MIB"] = str(spec.get("memory", 0))
    environment["GPU_TYPE"] = "G" if spec.get("draws") else "C"
    program = os.open(SCRIPT, os.O_RDONLY)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream, source in ((0, program), (1, nothing), (2, nothing)):
        os.dup2(source, stream)
    os.execve("/usr/bin/python3", spec.get("argv", ["holder"]), environment)


def hold() -> NoReturn:
    spec: Spec = json.loads(os.environ["SPEC"])
    name = spec.get("comm") or spec.get("argv", ["holder"])[0]
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)
    held = [os.open(path, os.O_RDONLY) for path in spec.get("devices", ())]
    kept = [os.open(path, os.O_RDWR | os.O_CREAT) for path in spec.get("files", ())]
    for path in spec.get("mapped", ()):
        map_and_close(path)
    if spec.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if spec.get("releases"):
        signal.signal(signal.SIGTERM, lambda *_: let_go(held))
    if spec.get("block"):
        signal.signal(signal.SIGUSR1, lambda *_: block(spec["block"]))
    for child in spec.get("children", ()):
        run_child(child, spec.get("again", False))
    os.write(int(os.environ["TELL"]), b".")
    os.close(int(os.environ["TELL"]))
    while True:
        signal.pause()
        del kept[:0]


def let_go(held: list[int]) -> None:
    while held:
        os.close(held.pop())


def map_and_close(path: str) -> None:
    """Python's own mmap would keep a copy of the descriptor."""
    file = os.open(path, os.O_RDONLY)
    call = ctypes.CDLL(None, use_errno=True).mmap
    call.restype = ctypes.c_void_p
    arguments = (mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_PRIVATE, file, ctypes.c_long(0))
    if call(None, ctypes.c_size_t(arguments[0]), *arguments[1:]) == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), path)
    os.close(file)


def block(path: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(file, b"x" * 4096)
    os.fsync(file)


def run_child(spec: Spec, again: bool) -> None:
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(spec, tell)
    os.close(tell)
    os.read(ready, 1)
    os.close(ready)
    if again:

        def watch() -> None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
            run_child(spec, again)

        threading.Thread(target=watch, daemon=True).start()


SCRIPT = "/stand_in/holder_stand_in.py"

if __name__ == "__main__":
    if sys.argv[1:2] == ["start"]:
        print(start(json.loads(sys.argv[2])))
    elif sys.argv[1:2] == ["be"]:
        become(json.loads(sys.argv[2]), os.open(os.devnull, os.O_WRONLY))
    else:
        hold()
