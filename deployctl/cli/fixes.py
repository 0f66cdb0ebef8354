"""`fixes`: known defects of vLLM and whether a tree has them fixed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from deployctl.cli import options, output


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    app.command()(fixes)


def fixes(
    path: Annotated[
        str | None,
        typer.Argument(help="A folder that contains vllm/; without it the known fixes are listed."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="On this host; without PATH, what it serves now."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check a vLLM installation for known defects; show file, line and what was run.

    Example: deployctl fixes --host my-ct
    """
    from deployctl.engine.inspect import fixes as asking
    from deployctl.report import fixes as rendering

    if path is None and host is None:
        _show(rendering.known(), rendering.known_lines(), as_json)
        return
    if host is None:
        reports = [asking.of_tree(Path(str(path)))]
    else:
        from deployctl.config.loader import load_host

        reports = asking.on_host(load_host(host), path)
    lines = [line for report in reports for line in rendering.lines(report)]
    _show(reports[0] if len(reports) == 1 else reports, lines, as_json)


def _show(document: Any, lines: list[str], as_json: bool) -> None:
    output.show(document, lines, as_json)
