"""Short programs that are asked something: a time limit that holds even where a kill does not."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from typing import BinaryIO, Dict, NamedTuple, Optional, Sequence, cast

from . import inheritance
from .interface import BEAT, Call


class Answer(NamedTuple):
    """What a program printed. `status` is None where it did not end in time; `stdout` and `stderr`
    are what was printed until then.
    """

    status: Optional[int]
    stdout: str
    stderr: str


def find(call: Call, name: str) -> Optional[str]:
    """The program's path, looked up on the full PATH (cron's has no /usr/sbin)."""
    return shutil.which(name, path=call.environment()["PATH"])


def ask(
    call: Call,
    argv: Sequence[str],
    timeout: float,
    env: Optional[Dict[str, str]] = None,
    text: str = "",
    allowed: "Optional[re.Pattern[str]]" = None,
) -> Answer:
    """Run a program to its end, `timeout` seconds at most, with `text` on its standard input. It
    is given `env` and our own variables: where `allowed` is given, those that it allows.

    Output goes to files: a program that hangs in the kernel survives SIGKILL and would keep a pipe
    open. Such a one is left behind, and its answer is None all the same. Until then the controller
    hears that we wait: a slow disk is not a hanging agent.
    """
    variables = call.environment(env)
    if allowed is not None:
        variables = {**inheritance.kept(call.environment(), allowed), **(env or {})}
    with (
        _scratch() as given,
        _scratch() as out,
        _scratch() as err,
    ):
        given.write(text.encode("utf-8"))
        given.seek(0)
        child = subprocess.Popen(
            list(argv),
            stdin=given,
            stdout=out,
            stderr=err,
            env=variables,
            start_new_session=True,
            umask=call.umask,
        )
        status = _ended(call, child, timeout)
        if status is None:
            os.killpg(child.pid, signal.SIGKILL)
            try:
                child.wait(1.0)
            except subprocess.TimeoutExpired:
                pass
        return Answer(status, _text(out), _text(err))


def _ended(call: Call, child: "subprocess.Popen[bytes]", timeout: float) -> Optional[int]:
    """The exit status of a child; None where it does not end in time."""
    end = time.monotonic() + timeout
    while True:
        left = end - time.monotonic()
        try:
            return child.wait(max(0.0, min(BEAT, left)))
        except subprocess.TimeoutExpired:
            if left <= BEAT:
                return None
            call.beat()


def _scratch() -> BinaryIO:
    """A file without a name; in memory where every disk is full or read-only."""
    try:
        return cast(BinaryIO, tempfile.TemporaryFile())
    except OSError:
        return open(os.memfd_create("scratch"), "w+b")


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read(1 << 20).decode("utf-8", "replace")
