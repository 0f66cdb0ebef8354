"""A run as it goes, for people: bars on a terminal, plain lines with times off it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from deployctl.engine.run import events
from deployctl.engine.run.events import Event, Listener
from deployctl.report import printable

MARKS = {
    "changed": "done",
    "passed": "passed",
    "unchanged": "unchanged",
    "failed": "FAILED",
    "unknown": "UNKNOWN",
    "skipped": "skipped",
}


def is_terminal(stream: TextIO) -> bool:
    """Whether bars and colours are wanted there (FORCE_COLOR and TERM=dumb are honoured)."""
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def listener(quiet: bool = False) -> Iterator[Listener]:
    """What should hear a run's events: nobody, a live display, or plain lines on stderr."""
    if quiet:
        yield events.nobody
    elif is_terminal(sys.stderr):
        with _live() as listen:
            yield listen
    else:
        yield Plain().hear


class Plain:
    """Lines with times. Progress is told when its phase or its tenth changes, not at every look."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], tuple[str, int]] = {}

    def hear(self, event: Event) -> None:
        if isinstance(event, events.StepProgress) and not self._is_news(event):
            return
        text = describe(event)
        if text:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            # A full disk under the log must not end a run in the middle of a switch.
            with suppress(OSError):
                print(f"{stamp} {printable.line(text)}", file=sys.stderr, flush=True)

    def _is_news(self, event: events.StepProgress) -> bool:
        key = (event.host, event.step)
        now = (event.phase, int((event.fraction or 0.0) * 10))
        return self._told.get(key) != now and self._told.update({key: now}) is None


def describe(event: Event) -> str:
    """An event as one line; empty where it is not worth one off a terminal."""
    match event:
        case events.RunStarted():
            hosts = ", ".join(event.hosts)
            return f"run {event.run}: {event.playbook} {event.profile} on {hosts}"
        case events.HostStarted():
            return f"{event.host}: connected, all questions answered in {event.seconds:.2f} s"
        case events.Waiting():
            return f"{event.host}: waiting for {event.holder}"
        case events.StepStarted():
            return f"{event.host}: {event.step}: started"
        case events.StepNote():
            return f"{event.host}: {event.step}: {event.text}"
        case events.StepProgress():
            return f"{event.host}: {event.step}: {event.phase} {event.detail}".rstrip()
        case events.StepEnded():
            record = event.record
            reason = record.reason if record.status in ("unchanged", "skipped") else ""
            if record.error is not None:
                reason = record.error.what
            return f"{event.host}: {record.step}: {MARKS[record.status]} {reason}".rstrip()
    return ""


@contextmanager
def _live() -> Iterator[Listener]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Console(stderr=True)
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[host]}"),
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=console,
        transient=True,
    )
    tasks: dict[tuple[str, str], TaskID] = {}

    def listen(event: Event) -> None:
        match event:
            case events.StepStarted():
                tasks[event.host, event.step] = progress.add_task(
                    event.step, total=None, host=event.host, note=""
                )
            case events.StepProgress() if (event.host, event.step) in tasks:
                progress.update(
                    tasks[event.host, event.step],
                    total=None if event.fraction is None else 1.0,
                    completed=event.fraction or 0.0,
                    note=printable.line(f"{event.phase} {event.detail}"[:80]),
                )
            case events.StepEnded():
                known = tasks.pop((event.host, event.record.step), None)
                if known is not None:
                    progress.remove_task(known)
                text = printable.line(describe(event))
                console.print(text, markup=False, highlight=False, soft_wrap=True)
            case events.StepNote() | events.RunStarted() | events.Waiting():
                text = printable.line(describe(event))
                console.print(text, markup=False, highlight=False, soft_wrap=True)

    with progress:
        yield listen
