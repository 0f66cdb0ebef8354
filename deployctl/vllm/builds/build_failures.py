"""Why a build failed: the first error's lines and, for known kinds, a sentence. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

BEFORE, AFTER = 2, 9


@dataclass(frozen=True)
class Failure:
    """`kind` is a word, `sentence` says it for people, `lines` are the first error's own."""

    kind: str
    sentence: str
    next: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class _Kind:
    kind: str
    pattern: re.Pattern[str]
    sentence: str
    next: str


def _kind(kind: str, pattern: str, sentence: str, next: str) -> _Kind:
    return _Kind(kind, re.compile(pattern, re.IGNORECASE | re.MULTILINE), sentence, next)


# The first that matches anywhere in the log wins: causes before what follows from them.
_KINDS = (
    _kind(
        "no-space",
        r"no space left on device|\(os error 28\)|disk quota exceeded",
        "the disk is full",
        "free space below the host's root, then run again",
    ),
    _kind(
        "out-of-memory",
        r"killed signal terminated program|fatal error: killed|std::bad_alloc"
        r"|virtual memory exhausted|cannot allocate memory"
        r"|(?:cmake|ninja|nvcc|cicc|cc1plus).{0,200}(?:exit status 9|signal 9|died with.{0,20}9)",
        "a compiler was ended by signal 9, most likely for want of memory",
        "set build.max_jobs lower, or free memory on the host",
    ),
    _kind(
        "wrong-binaries",
        r"refused: .*nightly",
        "the build took nightly binaries, which do not match this commit",
        "set build.strategy: source",
    ),
    _kind(
        "patch-failed",
        r"the hunk at line \d+ of|patch does not apply|error: patch failed",
        "the change does not fit onto the release; nothing was changed",
        "set build.strategy: source, or choose a ref nearer to a release",
    ),
    _kind(
        "no-ref",
        r"\(no-ref\)|couldn't find remote ref|not our ref|has no branch or tag|no pull request"
        r"|the server lost it",
        "the ref or commit is not there (any more)",
        "check build.source: was the branch renamed, deleted or force-pushed?",
    ),
    _kind(
        "compiler-too-old",
        r"unsupported gpu architecture|nvcc fatal\s*:.*(?:arch|compute_|sm_)",
        "the CUDA compiler is too old for this GPU (compute capability 12.0 needs nvcc 12.8)",
        "install a newer CUDA toolkit on the host",
    ),
    _kind(
        "no-compiler",
        r"no cmake_cxx_compiler|no cmake_cuda_compiler|cuda_home.{0,60}(?:not set|is none)"
        r"|command '[^']*(?:gcc|g\+\+|cc|clang)' failed: no such file|nvcc.{0,20}not found",
        "the host has no compiler for this build",
        "install build-essential, and for CUDA the toolkit, on the host",
    ),
    _kind(
        "no-python",
        r"no interpreter found for|no python installations? found"
        r"|failed to download .{0,80}/python-build-standalone/",
        "the wanted Python is not there and cannot be downloaded",
        "install it on the host, or change build.python",
    ),
    _kind(
        "no-network",
        r"could not resolve host|couldn't resolve host|dns error|failed to connect"
        r"|connection refused|connection timed out|network is unreachable|error sending request"
        r"|tcp connect error|no route to host|\(network\)|operation timed out",
        "a server could not be reached",
        "check the host's network, proxy and the source's URL, then run again",
    ),
    _kind(
        "repository",
        r"\(repository\)|repository '[^']*' not found|does not appear to be a git repository",
        "the repository is not there, or refuses us",
        "check build.source.url and the host's access to it",
    ),
    _kind(
        "no-solution",
        r"no solution found when resolving",
        "the requirements contradict each other, or a version does not exist",
        "check build.source, build.torch_backend and build.overrides",
    ),
    _kind(
        "undefined-symbol",
        r"undefined symbol",
        "compiled modules and torch do not belong together",
        "build by strategy source, or choose the torch that the wheel was built for",
    ),
    _kind(
        "no-version",
        r"setuptools-scm was unable to detect version",
        "the version cannot be told: no git metadata",
        "set SETUPTOOLS_SCM_PRETEND_VERSION in build.env",
    ),
    _kind(
        "compile-error",
        r"\berror: command '|ninja: build stopped|^FAILED: |\bfatal error: |: error: ",
        "the sources do not compile",
        "the lines above say where; another commit or compiler is needed",
    ),
)
_FIRST = re.compile(
    r"\berror\b[:\[]|^error|^FAILED: |\bfatal\b|^\s*\u00d7|^CMake Error|\bundefined symbol\b"
    r"|No space left|\(os error|^refused: |^the hunk|Traceback \(most recent",
    re.IGNORECASE | re.MULTILINE,
)


def explain(log: str) -> Failure:
    """The known kind of a failed build's log (`unknown` where none fits), and its first error.

    Only what the last command said counts: a network that stumbled in an earlier one did not end
    the job.
    """
    log = re.sub(r"\x1b\[[0-9;]*m", "", log).replace("\r", "\n")
    every = log.splitlines()
    last = max((n for n, line in enumerate(every) if line.startswith("$ ")), default=-1)
    lines = [line.rstrip() for line in every[last + 1 :]]
    text = "\n".join(lines)
    first = next((n for n, line in enumerate(lines) if _FIRST.search(line)), None)
    for known in _KINDS:
        match = known.pattern.search(text)
        if match is not None:
            at = text.count("\n", 0, match.start())
            begin = at if first is None else min(at, first)
            shown = _around(lines, begin)
            if lines[at] not in shown:
                shown += ("…", lines[at])
            return Failure(known.kind, known.sentence, known.next, shown)
    shown = _around(lines, first) if first is not None else tuple(lines[-12:])
    return Failure("unknown", "the build failed", "read the whole log on the host", shown)


def _around(lines: list[str], at: int) -> tuple[str, ...]:
    return tuple(lines[max(0, at - BEFORE) : at + AFTER])
