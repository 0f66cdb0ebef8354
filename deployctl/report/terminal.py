"""A run as it goes, for people: bars on a terminal, plain lines with times off it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from deployctl.engine.ledger.record import HostRecord, outcome
from deployctl.engine.run import events
from deployctl.engine.run.events import Event, Listener
from deployctl.report import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

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
    """What receives a run's events: nothing, a live display, or plain lines on stderr."""
    if quiet:
        yield events.nobody
    elif is_terminal(sys.stderr):
        with _live() as listen:
            yield listen
    else:
        plain, over = Plain(), threading.Event()
        beats = threading.Thread(target=plain.beats, args=(over,), name="beats", daemon=True)
        beats.start()
        try:
            yield plain.hear
        finally:
            over.set()
            beats.join()


BEAT = 20.0
"""Seconds after which a step that shows nothing new is shown to be at work."""


@dataclass
class AtWork:
    """A step of a host that is under way: its phase, when it began and was last shown, by a
    monotonic clock."""

    step: str
    began: float
    shown: float
    phase: str = ""


class Plain:
    """Lines with times. Progress is shown when its phase or its tenth changes; a step that shows
    nothing new for long, that it is at work."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], tuple[str, int]] = {}
        self._alone = True
        self._at_work: dict[str, AtWork] = {}
        self._lock = threading.Lock()

    def beats(self, over: threading.Event) -> None:
        """Show now and then what is at work, until it is over."""
        while not over.wait(BEAT / 4):
            self.beat(time.monotonic())

    def beat(self, now: float) -> None:
        """Show each step that was not shown for long."""
        with self._lock:
            for host, work in self._at_work.items():
                if now - work.shown >= BEAT:
                    work.shown = now
                    phase = f", {work.phase}" if work.phase else ""
                    _line(f"{host}: {work.step}: at work for {now - work.began:.0f} s{phase}")

    def _follow(self, event: Event) -> None:
        """Note what is under way, and that it is being shown."""
        now = time.monotonic()
        match event:
            case events.StepStarted():
                self._at_work[event.host] = AtWork(event.step, now, now)
            case events.StepProgress() if event.host in self._at_work:
                self._at_work[event.host].phase = event.phase
                self._at_work[event.host].shown = now
            case events.StepEnded():
                self._at_work.pop(event.host, None)
            case events.HostEnded():
                self._at_work.pop(event.record.host, None)

    def hear(self, event: Event) -> None:
        with self._lock:
            self._hear(event)

    def _hear(self, event: Event) -> None:
        if isinstance(event, events.StepProgress) and not self._is_news(event):
            return
        self._follow(event)
        if isinstance(event, events.RunStarted):
            self._alone = len(event.hosts) == 1
        if isinstance(event, events.HostEnded) and self._alone:
            return
        text = describe(event)
        if text:
            _line(text)

    def _is_news(self, event: events.StepProgress) -> bool:
        key = (event.host, event.step)
        now = (event.phase, int((event.fraction or 0.0) * 10))
        return self._told.get(key) != now and self._told.update({key: now}) is None


def _line(text: str) -> None:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    # A full disk under the log must not end a run in the middle of a switch.
    with suppress(OSError):
        print(f"{stamp} {printable.line(text)}", file=sys.stderr, flush=True)


def describe(event: Event) -> str:
    """An event as one line; empty where it is not worth one off a terminal."""
    match event:
        case events.RunStarted():
            hosts = ", ".join(event.hosts)
            return f"run {event.run}: {event.playbook} {event.profile} on {hosts}"
        case events.HostStarted():
            return f"{event.host}: connected, state collected in {event.seconds:.2f} s"
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
        case events.HostEnded():
            return _ended(event.record)
    return ""


def _ended(host: HostRecord) -> str:
    """How a host's part of a run has ended, in a line."""
    release = f", release {host.release}" if host.release else ""
    why = f": {host.error.what}" if host.error is not None else ""
    why = f": {host.held_back}" if host.held_back else why
    return f"{host.host}: {outcome([host])[0]}{release}{why}"


@contextmanager
def _live() -> Iterator[Listener]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Console(stderr=True)
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[host]}", markup=False),
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=console,
        transient=True,
    )
    with progress:
        yield Lines(progress, console).hear


class Lines:
    """A line for each host at work: its step, how far that is, and since when. What has ended
    scrolls by: each step of an only host, of several each host and every failure."""

    def __init__(self, progress: Progress, console: Console) -> None:
        self._progress = progress
        self._console = console
        self._tasks: dict[str, TaskID] = {}
        self._alone = True

    def hear(self, event: Event) -> None:
        match event:
            case events.RunStarted():
                self._alone = len(event.hosts) == 1
                self._print(describe(event))
            case events.Connecting():
                self._show(event.host, "connect")
            case events.StepStarted():
                self._show(event.host, event.step)
            case events.StepProgress():
                self._show(event.host, event.step, f"{event.phase} {event.detail}", event.fraction)
            case events.StepEnded():
                if self._alone or event.record.error is not None:
                    self._print(describe(event))
            case events.HostEnded():
                known = self._tasks.pop(event.record.host, None)
                if known is not None:
                    self._progress.remove_task(known)
                if not self._alone:
                    self._print(describe(event))
            case events.StepNote() | events.Waiting():
                self._print(describe(event))

    def _print(self, text: str) -> None:
        line = printable.line(text)
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _show(self, host: str, step: str, note: str = "", fraction: float | None = None) -> None:
        if host not in self._tasks:
            self._tasks[host] = self._progress.add_task(step, total=None, host=host, note="")
        known = self._tasks[host]
        if self._progress.tasks[self._progress.task_ids.index(known)].description != step:
            self._progress.reset(known, total=None, description=step)
        self._progress.update(
            known,
            total=None if fraction is None else 1.0,
            completed=fraction or 0.0,
            note=printable.line(note.strip()[:80]),
        )
