"""Charts as plain SVG built from data; each has an accessible name and needs no script.

Colours come from the page's style sheet by class, so that a chart follows light and dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from markupsafe import Markup

from deployctl.report.markup import Child, Node, element

WIDTH = 560
LEFT = 52
BAR_TOP, BAR_HEIGHT = 20, 200
MANY = 8
"""More positions than this leave room for two digits over a bar."""


@dataclass(frozen=True)
class Mark:
    """A point on the scale of mean acceptance length, with an interval where there is one."""

    label: str
    value: float
    kind: str
    low: float | None = None
    high: float | None = None


def markup(chart: Node) -> Markup:
    """A chart as it stands in a page."""
    return Markup(ElementTree.tostring(chart, encoding="unicode", method="html"))


def positions(
    rates: Sequence[float | None], last_good: Sequence[float | None] = (), host: str = ""
) -> Node:
    """Acceptance at each position as bars, with the last good release's as lines across."""
    count = max(len(rates), 1)
    slot = (WIDTH - LEFT - 8) / count
    bars: list[Child] = []
    for index, rate in enumerate(rates):
        middle = LEFT + slot * (index + 0.5)
        bars += _bar(middle, min(slot * 0.62, 64), rate, short=count > MANY)
        good = last_good[index] if index < len(last_good) else None
        if good is not None:
            y = _height(good)
            half = min(slot * 0.42, 42)
            bars.append(
                element("line", x1=middle - half, x2=middle + half, y1=y, y2=y, class_="before")
            )
        bars.append(_label(middle, BAR_TOP + BAR_HEIGHT + 18, str(index), "middle"))
    said = ", ".join("none" if rate is None else f"{rate:.3f}" for rate in rates)
    return _chart(
        f"Acceptance per position on {host}" if host else "Acceptance per position",
        f"Share of drafts whose token at each position was accepted: {said}.",
        BAR_TOP + BAR_HEIGHT + 40,
        _grid(),
        bars,
        _label(LEFT + (WIDTH - LEFT) / 2, BAR_TOP + BAR_HEIGHT + 36, "position", "middle"),
    )


def lengths(marks: Sequence[Mark], floor: float | None, most: float) -> Node:
    """Mean acceptance lengths on one scale: ours with its interval, the others beside."""
    top, row = 14, 30
    left = 190
    bottom = top + row * len(marks)

    def x(value: float) -> float:
        return left + (min(value, most) - 1) / (most - 1) * (WIDTH - left - 16)

    parts: list[Child] = []
    for tick in range(1, int(most) + 1):
        parts.append(element("line", x1=x(tick), x2=x(tick), y1=top, y2=bottom, class_="grid"))
        parts.append(_label(x(tick), bottom + 18, str(tick), "middle"))
    if floor is not None:
        parts.append(element("line", x1=x(floor), x2=x(floor), y1=top, y2=bottom, class_="floor"))
    for index, mark in enumerate(marks):
        y = top + row * (index + 0.5)
        parts.append(_label(left - 10, y + 4, mark.label, "end"))
        if mark.low is not None and mark.high is not None:
            parts.append(
                element("line", x1=x(mark.low), x2=x(mark.high), y1=y, y2=y, class_="span")
            )
            parts += [
                element("line", x1=x(end), x2=x(end), y1=y - 9, y2=y + 9, class_="end")
                for end in (mark.low, mark.high)
            ]
        parts.append(element("circle", cx=x(mark.value), cy=y, r=5, class_=f"mark {mark.kind}"))
        side = "end" if x(mark.value) > WIDTH - 90 else "start"
        beside = (
            x(mark.low or mark.value) - 12 if side == "end" else x(mark.high or mark.value) + 12
        )
        parts.append(_label(beside, y + 4, f"{mark.value:.2f}", side))
    said = "; ".join(f"{mark.label} {mark.value:.2f}" for mark in marks)
    below = "" if floor is None else f" The floor is {floor:g}."
    return _chart("Mean acceptance length", f"{said}.{below}", bottom + 26, parts)


def timeline(steps: Sequence[Mapping[str, Any]], host: str) -> Node:
    """Steps one after the other, as long as they took."""
    row, left = 26, 112
    total = sum(step["seconds"] for step in steps) or 1.0
    parts: list[Child] = []
    at = 0.0
    for index, step in enumerate(steps):
        y = 8 + row * index
        x = left + at / total * (WIDTH - left - 90)
        width = max(step["seconds"] / total * (WIDTH - left - 90), 2.0)
        parts += [
            _label(left - 10, y + 15, step["step"], "end"),
            element(
                "rect", x=x, y=y + 4, width=width, height=14, rx=3, class_=f"step {step['status']}"
            ),
            _label(x + width + 8, y + 15, f"{step['seconds']:.1f} s", "start"),
        ]
        at += step["seconds"]
    said = ", ".join(f"{s['step']} {s['status']} {s['seconds']:.1f} s" for s in steps)
    return _chart(f"Steps on {host}", said + ".", 14 + row * len(steps), parts)


def history(runs: Sequence[Mapping[str, Any]], most: float) -> Node:
    """Mean acceptance length of the last runs, oldest first."""
    height, top = 120, 12
    slot = (WIDTH - LEFT - 16) / max(len(runs), 1)

    def y(value: float) -> float:
        return top + height * (1 - (min(value, most) - 1) / (most - 1))

    parts: list[Child] = []
    for tick in range(1, int(most) + 1, 1 if most < 6 else 2):
        parts.append(element("line", x1=LEFT, x2=WIDTH - 8, y1=y(tick), y2=y(tick), class_="grid"))
        parts.append(_label(LEFT - 8, y(tick) + 4, str(tick), "end"))
    points = [
        (LEFT + slot * (index + 0.5), y(run["length"]), run)
        for index, run in enumerate(runs)
        if run["length"] is not None
    ]
    if len(points) > 1:
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py, _ in points)
        parts.append(element("polyline", points=path, class_="path"))
    parts += [
        element("circle", cx=px, cy=py, r=5, class_=f"mark {run['verdict']}")
        for px, py, run in points
    ]
    said = ", ".join(f"{run['run']} {run['length']:.2f}" for _, _, run in points)
    return _chart("Mean acceptance length of the last runs", said + ".", top + height + 14, parts)


def _chart(name: str, said: str, height: float, *parts: Child | Sequence[Child]) -> Node:
    return element(
        "svg",
        element("title", name),
        element("desc", said),
        *parts,
        viewBox=f"0 0 {WIDTH} {height:g}",
        role="img",
        aria_label=f"{name}. {said}",
    )


def _bar(middle: float, width: float, rate: float | None, short: bool) -> list[Child]:
    if rate is None:
        return [_label(middle, BAR_TOP + BAR_HEIGHT - 6, "none", "middle")]
    said = f"{rate:.2f}".removeprefix("0") if short else f"{rate:.3f}"
    y = _height(rate)
    return [
        element(
            "rect",
            x=middle - width / 2,
            y=y,
            width=width,
            height=max(BAR_TOP + BAR_HEIGHT - y, 1.0),
            rx=2,
            class_="bar",
        ),
        _label(middle, y - 6, said, "middle"),
    ]


def _height(rate: float) -> float:
    return BAR_TOP + BAR_HEIGHT * (1 - rate)


def _grid() -> list[Child]:
    parts: list[Child] = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _height(tick)
        parts.append(element("line", x1=LEFT, x2=WIDTH - 8, y1=y, y2=y, class_="grid"))
        parts.append(_label(LEFT - 8, y + 4, f"{tick:g}", "end"))
    return parts


def _label(x: float, y: float, text: str, anchor: str) -> Node:
    return element("text", text, x=x, y=y, text_anchor=anchor)
