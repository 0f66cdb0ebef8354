"""`explain`: what ended the server or build that wrote a log."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from deployctl.errors import UsageError
from deployctl.vllm.logs import encoded, kinds
from deployctl.vllm.logs.explanation import Explanation, Kind
from deployctl.vllm.logs.lines import bare
from deployctl.vllm.logs.phases import phases_of

SCHEMA = "deployctl.explain/1"
UNKNOWN, STOPPED = "unknown", "stopped"
_SHUTDOWN = re.compile(r"API server: shutdown triggered|Application shutdown complete")
"""What vLLM (from 0.30 on) and uvicorn log when they are asked to end."""
_SERVING = re.compile(r"Application startup complete")
_ORDERLY = "the server was asked to stop (SIGTERM or Ctrl-C) and ended; no error ended it"
_NO_FAULT = "see who stopped it: deployctl history, journalctl -u UNIT, docker events"
_NEXT = {
    "server": "search vLLM's issues for that line; or start again with VLLM_LOGGING_LEVEL: DEBUG "
    "in serve.env",
    "build": "read the whole log: what stands before its first error",
}
SERVING = "serving"
_HEALTHY = (
    "see whether it runs: deployctl status --profile P; what killed it: dmesg, journalctl -k, "
    "docker inspect; how it drafts: deployctl acceptance --log FILE"
)
_NO_ERROR = (
    "look at what ended it from outside (journalctl, dmesg, docker inspect); or start again with "
    "VLLM_LOGGING_LEVEL: DEBUG in serve.env"
)


def of_file(path: str, kind: Kind | None) -> dict[str, Any]:
    """The document of a log file, `-` for stdin; raises `UsageError` where it cannot be read."""
    return document(encoded.text(_bytes(path)), kind)


def document(text: str, kind: Kind | None) -> dict[str, Any]:
    """What a log says: `cause` is a stable id of docs/logs.md, `evidence` are its decisive lines
    as they stand in it."""
    found, explained = kinds.explain(text, kind)
    if found == "server" and not (explained.cause or explained.lines):
        ending = _stopped(text)
        if ending:
            explained = Explanation(STOPPED, _ORDERLY, _NO_FAULT, (), (ending,))
    return {
        "schema": SCHEMA,
        "kind": found,
        "cause": explained.cause or UNKNOWN,
        "summary": explained.sentence if explained.cause else _unknown(found, explained, text),
        "evidence": list(explained.evidence) or _shown(found, explained, text),
        "next": explained.next if explained.cause else _next(found, explained, text),
    }


def _stopped(text: str) -> str:
    """The line by which a server's last start ended in order; empty where it did not."""
    ending = ""
    for line in text.splitlines():
        if _SERVING.search(line):
            ending = ""
        elif not ending and _SHUTDOWN.search(line):
            ending = line
    return ending


def _unknown(kind: Kind, explained: Explanation, text: str) -> str:
    if not text.strip():
        return "the log is empty"
    if kind == "build":
        return explained.sentence
    if explained.lines:
        return f"no known cause; it ended with: {explained.lines[0][:200]}"
    last = _last_phase(text)
    if last == SERVING:
        return (
            "no error: the server became ready, and the log has no end after that. It runs, or it "
            "was killed from outside, which leaves no line"
        )
    if last:
        return f"no error: the log ends while the server was {last}"
    return "the log shows no error, and nothing of a start of vLLM"


def _last_phase(text: str) -> str:
    """The phase of a start in which the log ends; empty where it has none."""
    found = [name for line in text.splitlines() for name in phases_of(bare(line))]
    return found[-1] if found else ""


def _shown(kind: Kind, explained: Explanation, text: str) -> list[str]:
    """The lines that show how far a log without an error goes: ready, and its last one."""
    if kind != "server" or explained.lines or not _last_phase(text):
        return []
    lines = [line for line in text.splitlines() if line.strip()]
    ready = [line for line in lines if _SERVING.search(line)][-1:]
    return list(dict.fromkeys([*ready, lines[-1]]))


def _next(kind: Kind, explained: Explanation, text: str) -> str:
    if not text.strip():
        return "name the log that the server writes: deployctl logs --profile P, journalctl -u UNIT"
    if kind != "server" or explained.lines:
        return _NEXT[kind]
    return _HEALTHY if _last_phase(text) == SERVING else _NO_ERROR


def _bytes(path: str) -> bytes:
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with Path(path).open("rb") as file:
            if file.seekable():
                file.seek(0, 2)
                file.seek(max(0, file.tell() - encoded.MOST))
            return file.read()
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(
            f"{path} cannot be read", why, "name a log file, or - for stdin"
        ) from error
