"""`explain`: what ended the server or build that wrote a log."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from deployctl.errors import UsageError
from deployctl.vllm.logs import encoded, kinds
from deployctl.vllm.logs.explanation import Explanation, Kind

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
        "summary": explained.sentence if explained.cause else _unknown(found, explained),
        "evidence": list(explained.evidence),
        "next": explained.next if explained.cause else _next(found, explained),
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


def _unknown(kind: Kind, explained: Explanation) -> str:
    if kind == "build":
        return explained.sentence
    if not explained.lines:
        return "the log shows no error that ended the server"
    return f"no known cause; it ended with: {explained.lines[0][:200]}"


def _next(kind: Kind, explained: Explanation) -> str:
    return _NO_ERROR if kind == "server" and not explained.lines else _NEXT[kind]


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
