"""watch: hosts as they serve, until Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deployctl.cli import options, output, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from deployctl.config.profile import Profile


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    app.command()(watch)


def watch(
    profile: options.Profile,
    sets: options.Sets = [],
    hosts: options.Hosts = [],
    interval: Annotated[
        str, typer.Option(metavar="TIME", help="Between two readings of a host, e.g. 500ms, 10s.")
    ] = "2s",
    line: Annotated[
        bool, typer.Option("--line", help="Print one line for each reading, for a status bar.")
    ] = False,
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after this many readings.")
    ] = None,
) -> None:
    """Watch what serves: tokens per second, requests, acceptance, GPU memory. Read-only, no lock.

    It asks for no completion: `status` does. A host that is lost is unreachable until it is
    connected again. Ctrl-C ends it with exit code 130.

    Example: deployctl watch -p demo --interval 5s
    """
    from deployctl import cancel
    from deployctl.engine.run.signals import Signals

    loaded = running.load(profile, sets, hosts)
    seconds = max(0.1, running.duration("--interval", interval))
    token = cancel.Token()
    try:
        with Signals(token), cancel.watching(token):
            _watch(loaded, seconds, line, count)
    except cancel.Cancelled:
        raise KeyboardInterrupt from None


def _watch(profile: Profile, interval: float, line: bool, count: int | None) -> None:
    from deployctl import cancel
    from deployctl.engine.inspect.watch import Watch

    with Watch(profile, interval) as watched, _display(line) as show:
        # Speeds follow from two readings.
        watched.settle(1 if count is None and not line else 2)
        left = count
        while True:
            show(watched.document())
            left = None if left is None else left - 1
            if left == 0:
                return
            cancel.sleep(interval)


@contextmanager
def _display(line: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """What shows a document: a table that is drawn again on a terminal, else lines."""
    from deployctl.report import watched

    if line:
        yield lambda document: output.answer([watched.line(document)])
    elif not sys.stdout.isatty():
        yield lambda document: output.answer([*watched.table(document), ""])
    else:
        with _live() as show:
            yield show


@contextmanager
def _live() -> Iterator[Callable[[dict[str, Any]], None]]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from deployctl.report import printable, watched

    console = Console()
    with Live(Text("connecting"), console=console, auto_refresh=False) as live:

        def show(document: dict[str, Any]) -> None:
            lines = map(printable.line, watched.table(document, console.width))
            text = Text("\n".join(lines), no_wrap=True)
            text.highlight_regex(watched.UNREACHABLE, "bold red")
            live.update(text, refresh=True)

        yield show
