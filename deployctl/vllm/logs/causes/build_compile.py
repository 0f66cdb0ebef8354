"""Sources that do not compile: only where a compiler or linker says so itself."""

from __future__ import annotations

from deployctl.vllm.logs.causes.build_host import build
from deployctl.vllm.logs.causes.cause import Cause

_ELSE = "the lines above say where; another commit or compiler is needed"

CAUSES: tuple[Cause, ...] = (
    build(
        "compile-error",
        "gcc, clang",
        r"^[^\n:]{1,400}:\d{1,7}(?::\d{1,5})?: (?:fatal )?error: ",
        "the sources do not compile",
        _ELSE,
    ),
    build(
        "compile-error",
        "nvcc (EDG)",
        r"^[^\n(]{1,400}\(\d{1,7}\): (?:catastrophic )?error(?: #[\w-]{1,12})?: ",
        "the sources do not compile",
        _ELSE,
    ),
    build(
        "compile-error",
        "rustc",
        r"^\s{0,40}error\[E\d{4}\]: |^\s{0,40}error: [^\n]{1,300}\n\s{0,60}--> \S{1,300}:\d{1,7}",
        "the sources do not compile",
        _ELSE,
    ),
    build(
        "compile-error",
        "ptxas, as",
        r"^\s{0,40}ptxas (?:fatal|error) {0,4}: |assembler messages:",
        "the sources do not compile",
        _ELSE,
    ),
    build(
        "link-error",
        "ld",
        r"undefined reference to [`'](?P<symbol>[^'`\n]{1,200})|collect2: error: ld returned"
        r"|error: linking with [`'][\w+-]{1,20}['`] failed|relocation truncated to fit"
        r"|multiple definition of",
        "the objects cannot be linked",
        "the lines above say which symbol; remove the build folder, and see that all libraries are "
        "of one version",
    ),
)
