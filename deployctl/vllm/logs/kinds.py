"""Whether a log is a server's or a build's. Pure."""

from __future__ import annotations

import re

from deployctl.vllm.logs import build, server
from deployctl.vllm.logs.explanation import Explanation, Kind

HEAD, TAIL = 200_000, 400_000
"""Characters of a log that show which kind it is."""
_SERVER = re.compile(
    r"vLLM API server version|\((?:APIServer|EngineCore|Worker|VllmWorker|RayWorker)\w{0,40}[ ,]"
    r"|(?:INFO|ERROR|WARNING) \d\d-\d\d \d\d:\d\d:\d\d |Application startup|Uvicorn running"
    r"|vllm serve|/vllm/v1/|/vllm/entrypoints/|/vllm/(?:worker|engine|executor)/|NCCL (?:WARN|INFO)"
)
_BUILD = re.compile(
    r"^\$ (?:\S*/)?(?:uv|pip|git|cmake|cargo|python)\b|^\s{0,40}(?:\[\s*\d+/\d+\] "
    r"|-- The CX?X? ?compiler|"
    r"FAILED: |CMake Error|\u00d7 |error: subprocess-exited|ERROR: Failed building|Cloning into "
    r"|Submodule |Building wheel|Collecting |Resolved \d+ package|Caused by: |cause: |fatal: |"
    r"Compiling \S+ v\d|remote: )|ninja: |torch/utils/cpp_extension|error: could not compile"
    r"|error: command '|running b(?:uild|dist)|Failed building wheel|Error compiling objects"
    r"|uv (?:pip|venv|build|sync)\b",
    re.MULTILINE,
)


def kind(text: str) -> Kind | None:
    """A log's kind by who wrote its lines; None where nothing tells."""
    sample = text if len(text) <= HEAD + TAIL else text[:HEAD] + text[-TAIL:]
    served = sum(1 for _ in _SERVER.finditer(sample))
    built = sum(1 for _ in _BUILD.finditer(sample))
    if served == built == 0:
        return None
    # A server compiles kernels at its start; a build starts no server.
    return "server" if served * 3 >= built else "build"


def explain(text: str, given: Kind | None = None) -> tuple[Kind, Explanation]:
    """What a log says about a failure, and which kind of log it is."""
    sure = given or kind(text)
    if sure == "build":
        return "build", build.explain(text)
    explained = server.explain(text)
    if sure is None and not explained.cause:
        other = build.explain(text)
        if other.cause:
            return "build", other
    return "server", explained
