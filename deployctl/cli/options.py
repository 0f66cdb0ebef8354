"""Options that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deployctl.cli import completion
from deployctl.engine.connections.pool import PARALLEL as PARALLEL

Profile = Annotated[
    str,
    typer.Option(
        "--profile",
        "-p",
        envvar="DEPLOYCTL_PROFILE",
        autocompletion=completion.profiles,
        help="Profile name or file.",
    ),
]
Sets = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Override one value, e.g. serve.port=30001."),
]
Hosts = Annotated[
    list[str],
    typer.Option(
        "--host",
        "--limit",
        metavar="PATTERN",
        autocompletion=completion.hosts,
        help="Only these hosts: a name, a group, or a pattern of Ansible's such as 'gpu*:!ct129'.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress, only the result.")]
Skip = Annotated[
    list[str],
    typer.Option("--skip", metavar="STEP", autocompletion=completion.steps, help="Skip this step."),
]
LockWait = Annotated[
    str,
    typer.Option(
        metavar="TIME", help="Wait for another run to end, e.g. 10m; otherwise skip (exit 5)."
    ),
]
CheckGates = Annotated[
    bool, typer.Option("--check-gates", help="Run smoke and acceptance although nothing changed.")
]
OnlyIfChanged = Annotated[
    bool,
    typer.Option(
        "--only-if-changed",
        help="Do not retry a release that failed before; keep the serving one running.",
    ),
]
KeepFailed = Annotated[
    bool,
    typer.Option("--keep-failed", help="Keep a release that failed its gate; do not roll back."),
]
Parallel = Annotated[
    int, typer.Option(min=1, metavar="N", help="Most hosts worked on at the same time.")
]
FailFast = Annotated[
    bool,
    typer.Option("--fail-fast", help="After a host has failed, start and switch no other."),
]
MetricsFile = Annotated[
    Path | None,
    typer.Option(
        "--metrics-file", metavar="FILE", help="Write a Prometheus textfile for node_exporter."
    ),
]
