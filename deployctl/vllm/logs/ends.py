"""Whether what failed in a log ended its process, or was only reported by it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from deployctl.vllm.logs import phases
from deployctl.vllm.logs.failures import Failure
from deployctl.vllm.logs.lines import Line

Progress = dict[tuple[str, int | None], int]
"""Where each process last reached a phase of its start; under ("", None) the server itself."""

WRAPPERS = re.compile(
    r"Engine core initialization failed|Engine process failed to start"
    r"|initialization failed due to "
    r"an exception in a background process|Worker failed with error|EngineDeadError"
    r"|EngineCore encountered an issue|Executor failed|EngineGenerateError|Engine loop (?:is not "
    r"running|has died)|Background loop (?:has errored|is stopped)|Engine process \(pid \d+\) died"
    r"|Frontend process failed|died with exit code|failed to be inspected"
    r"|Error raised in subprocess"
    r"|ProcessRaisedException|ChildFailedError|ActorDiedError|RayTaskError|CancelledError"
    r"|Task finished unexpectedly|^KeyboardInterrupt|^SystemExit|Error retrieving file list"
)
"""What reports the failure of another process, or of an earlier step."""
CONSEQUENCES = re.compile(
    r"^(?:BrokenPipeError|ConnectionResetError|EOFError)\b|ContextTerminated|ncclRemoteError"
    r"|Failed to recv, got 0 bytes|recvValue failed|closed by (?:remote )?peer|^RuntimeError: "
    r"cancelled|remote process exited or there was a network error|Broken pipe"
)
"""What a process says whose peer has died."""
_WRAPPED = re.compile(
    r"(?:Worker failed with error|Call to \w+ method failed:) ['\"]?(.{1,2000})", re.S
)
_HARMLESS = re.compile(
    r"Exception in ASGI application|Exception ignored|[Rr]etry|will be ignored|fall(?:ing)? back"
    r"|Task exception was never retrieved|Error in preprocessing prompt|Failed to import"
)
"""Titles of tracebacks after which a server goes on."""
_OF_A_REQUEST = re.compile(r"\[(?:\w+/)*serving\w*\.py:\d+\]")
"""Where vLLM handles one request: what it logs there refuses that request and ends nothing."""
_FATAL = re.compile(
    r"failed to start|hit an exception|fatal error|WorkerProc failed|Process \S+:|Exception in "
    r"(?:worker|thread)|Error executing method|output_handler failed|Engine|died|Uncaught"
)


def progress(lines: Sequence[Line]) -> Progress:
    """Where each process of a log last reached a phase of its start."""
    reached: Progress = {}
    for index, line in enumerate(lines):
        if line.severity not in ("info", ""):
            continue
        for name in phases.phases_of(line.text):
            reached[line.stream] = index
            if name == "serving":
                reached["", None] = index
    return reached


def goes_on(failure: Failure, reached: Progress) -> bool:
    """Whether the process went on after it, or its logger does not call it an error."""
    if failure.severity in ("debug", "info", "warning") or _HARMLESS.search(failure.title):
        return True
    if _OF_A_REQUEST.search(failure.record) and not only(failure, WRAPPERS):
        return True
    own = reached.get((failure.process, failure.pid), -1)
    return max(own, reached.get(("", None), -1)) > failure.raised[-1].at[-1]


def only(failure: Failure, pattern: re.Pattern[str]) -> bool:
    """Whether every exception of a failure is of this kind."""
    return all(pattern.search(raised.words[0][:2000]) for raised in failure.raised)


def doubtful(failure: Failure) -> bool:
    """Whether it was logged as an error of something else than the end of a process."""
    return bool(failure.severity and failure.title and not _FATAL.search(failure.title))


def wrapped(failure: Failure) -> str:
    """What a report of another's failure quotes of it."""
    found = _WRAPPED.search(failure.text())
    return found[1] if found else ""
