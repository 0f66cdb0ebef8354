"""Acceptance from what a server left behind: its log, or two readings of its /metrics."""

from __future__ import annotations

import re
from pathlib import Path

from deployctl.config.checks import AcceptanceSettings
from deployctl.errors import UsageError
from deployctl.steps import acceptance
from deployctl.steps.interface import Evidence
from deployctl.vllm import text_file
from deployctl.vllm.acceptance import acceptance_log, evidence
from deployctl.vllm.acceptance.acceptance_log import Log, LogCounts, Mixed
from deployctl.vllm.acceptance.judgement import Certain, Gate, Judgement, judge
from deployctl.vllm.counters import metrics
from deployctl.vllm.counters.counts import NOTHING
from deployctl.vllm.counters.unreadable import Unreadable

LINE_END = re.compile(r"\r\n|\n|\r")
UNKNOWN_FORM = "lines about speculation are in it in a form that is not understood"


def acceptance_from_log(path: Path, settings: AcceptanceSettings) -> Evidence:
    """Acceptance from a server's log (`-`: stdin): all windows that drafted, pooled.

    Raises `UsageError` for a file that is not text.
    """
    log = acceptance_log.scan(LINE_END.split(_text(path, "log")))
    gate = acceptance.gate_of(settings)
    remarks: list[str] = []
    try:
        found = acceptance_log.pool(log.windows)
        judgement = _judged(log, found, gate)
        remarks += found.remarks
    except Mixed as error:
        found = LogCounts(NOTHING, None, (), len(log.windows), 0)
        judgement = Judgement("unknown", (str(error),))
    if log.unread is not None and found.counts.draft_tokens:
        remarks.append(f"{log.unread_lines} {UNKNOWN_FORM}, beginning with: {log.unread}")
    made = evidence.acceptance(
        "log", found.counts, judgement, gate, found.length, found.positions, _certain(found)
    )
    return {**made, "windows": found.windows, "idle_windows": found.idle, "remarks": remarks}


def acceptance_from_metrics(
    before: Path, after: Path, settings: AcceptanceSettings, model: str | None = None
) -> Evidence:
    """Acceptance from two readings of /metrics of one server.

    Raises `UsageError` for files that hold none.
    """
    gate = acceptance.gate_of(settings)
    counts = NOTHING
    try:
        readings = [metrics.parse(_text(path, "metrics"), model) for path in (before, after)]
        counted = metrics.difference(*readings)
    except Unreadable as error:
        raise UsageError(f"{before} and {after}: {error}") from error
    except metrics.Restarted as error:
        judgement = Judgement("unknown", (str(error),))
    else:
        if counted.spec is None:
            judgement = Judgement("unknown", (counted.without,))
        else:
            counts = counted.spec
            judgement = judge(counts, (), gate)
    return {**evidence.acceptance("metrics", counts, judgement, gate), "remarks": []}


def _text(path: Path, what: str) -> str:
    try:
        return text_file.read_text(path)
    except (OSError, text_file.NotText) as error:
        raise UsageError(f"the {what} {path} cannot be read: {error}") from error


def _judged(log: Log, found: LogCounts, gate: Gate) -> Judgement:
    if found.counts.draft_tokens:
        certain = _certain(found)
        return judge(found.counts, (), gate, length=found.length, certain=certain)
    if log.unread is not None:
        return Judgement("unknown", (f"{UNKNOWN_FORM}, beginning with: {log.unread}",))
    if found.windows:
        return judge(found.counts, (), gate)
    if log.plain is not None:
        return Judgement("unknown", (f"the server does not speculate: {log.plain}",))
    nothing = "no line of it is about speculation: whether the server speculates is not known"
    return Judgement("unknown", (nothing,))


def _certain(found: LogCounts) -> Certain:
    return Certain(found.drafts_span, found.length_span, found.position_spans)
