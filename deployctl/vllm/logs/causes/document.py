"""docs/logs.md: what is recognized in logs, written from the tables themselves.

Write it with: python -m deployctl.vllm.logs.causes.document > docs/logs.md
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from deployctl.vllm.logs import causes
from deployctl.vllm.logs.causes.cause import Cause

_HEAD = """# Logs

`deployctl explain FILE` says what ended a server or a build, from its log alone; `up`, `launch`
and `build` use the same tables. Prefixes of Docker, containerd, journald, compose, kubectl, Ray,
torchrun and of the loggers around vLLM are taken off; compressed files and UTF-16 are read. The
first error that ended a process decides. Reports of another process's end ("Engine core
initialization failed"), warnings and phases that were left explain nothing. NCCL's own warning
explains an exception of the same process shortly after it. Where no cause below is found, the
cause is `unknown` (exit 11) and the last exception, or the first error of the build, is shown. A
server that was asked to stop and ended without an error has the cause `stopped`.
"""


def markdown() -> str:
    """The whole page."""
    return "\n".join(
        [
            _HEAD,
            "## Servers\n",
            *_table(causes.SERVER),
            "\n## Builds\n",
            *_table(causes.BUILD),
            "",
        ]
    )


def _table(table: Sequence[Cause]) -> list[str]:
    lines = ["| cause | written by | means | next |", "| --- | --- | --- | --- |"]
    for each in table:
        cells = (f"`{each.id}`", each.writer, each.sentence, each.next)
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return list(dict.fromkeys(lines))


def _cell(text: str) -> str:
    whole = re.sub(r"\[([^][|]*)(?:\|[^][]*)?\]", r"\1", text)
    return re.sub(r"\{[\w/]+\}", "\u2026", whole).replace("|", "\\|")


if __name__ == "__main__":
    print(markdown(), end="")
