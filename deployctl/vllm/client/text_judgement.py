"""Judge the text of an answer in a child process that may crash, hang or run out of memory."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from deployctl.vllm.client import text_checks

CPU_SECONDS = 10
WALL_SECONDS = 120.0
"""Far beyond the processor time, for a machine that is busy with other work."""


class NotJudged(Exception):
    """The child process could not be run, so nothing is known about the text."""


def problems(
    text: str, regex: Sequence[str] = (), json_valid: bool = False, python_compiles: bool = False
) -> list[str]:
    """What is wrong with a text. A check that ends its process, or exceeds its time or memory,
    counts as failed, and those after it are not run; raises `NotJudged`."""
    if not (regex or json_valid or python_compiles):
        return []
    wanted = {
        "text": text,
        "regex": list(regex),
        "json_valid": json_valid,
        "python_compiles": python_compiles,
        "seconds": CPU_SECONDS,
    }
    try:
        status, output, errors = _run(json.dumps(wanted).encode("ascii"))
    except OSError as error:
        raise NotJudged(f"the answer was not judged, no process for it: {error}") from error
    lines = [json.loads(line) for line in output.splitlines()]
    found = [line["problem"] for line in lines if line.get("problem")]
    if status == 0:
        return found
    if not lines or "check" not in lines[-1]:
        last = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise NotJudged(f"the answer was not judged: {_ended(status)} {' '.join(last)}".rstrip())
    return [*found, f"{lines[-1]['check']} was not decided: the check {_ended(status)}"]


def _run(data: bytes) -> tuple[int | None, bytes, bytes]:
    # A file, not a pipe: a child that dies over its input leaves nothing unsent.
    with os.fdopen(os.memfd_create("answer"), "w+b") as given:
        given.write(data)
        given.seek(0)
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-c", inspect.getsource(text_checks)],
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Python itself may need it; nothing else of ours is its business.
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
        )
    with child:
        try:
            output, errors = child.communicate(timeout=WALL_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            output, errors = child.communicate()
            return None, output, errors
        except BaseException:
            child.kill()
            raise
    return child.returncode, output, errors


def _ended(status: int | None) -> str:
    if status is None:
        return f"did not end within {WALL_SECONDS:g} s"
    if -status in (signal.SIGXCPU, signal.SIGKILL):
        return f"did not end within {CPU_SECONDS} s of processor time"
    if status < 0:
        return f"crashed its process ({signal.Signals(-status).name})"
    return f"ended its process with status {status}"
