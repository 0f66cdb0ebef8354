"""What `doctor` found, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Each finding with what to do about it, then how many of each kind there are."""
    for host in document["hosts"]:
        yield from _place(host["host"], host["findings"])
    yield from _place("this machine", document["here"]["findings"])
    if document.get("profile") is None:
        yield "hosts were not examined: name a profile"
        yield "  next: deployctl doctor --profile NAME (deployctl profile list shows them)"


def _place(name: str, findings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield name
    for finding in findings:
        yield f"  {finding['verdict']:<8} {finding['check']:<12} {_words(finding)}"
        if finding["lines"]:
            yield f"           on or in {finding['where']}:"
        for line in finding["lines"]:
            yield f"             {line}"
    counts = {
        verdict: sum(f["verdict"] == verdict for f in findings)
        for verdict in ("failed", "unknown", "warning", "ok")
    }
    yield "  " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def of_conf(document: Mapping[str, Any]) -> Iterator[str]:
    """Findings about one file, and the lines to add in one place: they are meant together."""
    for finding in document["findings"]:
        yield f"{finding['verdict']:<8} {finding['where']}: {finding['what']}"
    advice = dict.fromkeys(line for f in document["findings"] for line in f["lines"])
    if advice:
        yield "to do:"
    yield from (f"  {line}" for line in advice)


def _words(finding: Mapping[str, Any]) -> str:
    if finding["say"]:
        return str(finding["say"])
    measured = finding["measured"]
    if isinstance(measured, int) and measured >= 1 << 20:
        return f"{measured / (1 << 30):.1f} GiB"
    if isinstance(measured, (list, tuple)):
        return ", ".join(map(str, measured))
    if isinstance(measured, Mapping):
        return ", ".join(map(str, measured))
    return str(measured)
