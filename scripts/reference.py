"""The reference pages and the picture of the packages, generated from the code itself.

`scripts/docs` runs it before it builds the site; the argument is the folder to write.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from typer.main import get_command

from deployctl.cli import reference
from deployctl.cli.app import app
from deployctl.cli.reference import PACKAGE

LAYERS = (
    ("cli",),
    ("report",),
    ("engine",),
    ("steps",),
    ("hosts",),
    ("config",),
    ("vllm",),
    ("agent",),
)


def edges() -> set[tuple[str, str]]:
    """Which package imports which, from the source."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                to = name.split(".")
                if len(parts) > 1 and to[0] == "deployctl" and len(to) > 1 and to[1] != parts[0]:
                    found.add((parts[0], to[1]))
    return found


def direct(found: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The imports that no longer path of imports implies."""
    below: dict[str, set[str]] = {}
    for start, end in found:
        below.setdefault(start, set()).add(end)

    def reaches(start: str, end: str) -> bool:
        return end in below.get(start, ()) or any(reaches(n, end) for n in below.get(start, ()))

    return {(a, b) for a, b in found if not any(reaches(n, b) for n in below[a] if n != b)}


def picture() -> str:
    """The packages as SVG: a row for each layer, an arrow for each import."""
    width, high, gap = 150, 34, 62
    place = {
        name: (400 + int((i - (len(row) - 1) / 2) * 220), 20 + y * gap)
        for y, row in enumerate(LAYERS)
        for i, name in enumerate(row)
    }
    lines = []
    for start, end in sorted(direct(edges())):
        if start not in place or end not in place:
            continue
        (x1, y1), (x2, y2) = place[start], place[end]
        bend = _bend((y2 - y1) // gap)
        side = (bend > 0) - (bend < 0)
        half = width // 2 * side
        a, b = (x1 + half, y1 + high // (2 if bend else 1)), (x2 + half, y2 + high // 2 * abs(side))
        control = (
            f"{a[0] + bend},{a[1]} {b[0] + bend},{b[1]}" if bend else f"{a[0]},{b[1]} {b[0]},{a[1]}"
        )
        lines.append(f'<path d="M{a[0]},{a[1]} C{control} {b[0]},{b[1]}" marker-end="url(#tip)"/>')
    boxes = [
        f'<rect x="{x - width // 2}" y="{y}" width="{width}" height="{high}" rx="5"/>'
        f'<text x="{x}" y="{y + 22}">{name}</text>'
        for name, (x, y) in place.items()
    ]
    style = (
        "text{font:15px sans-serif;text-anchor:middle;fill:#222}rect{fill:#e8eef2;stroke:#567}"
        "path{fill:none;stroke:#567;stroke-width:1.2}#tip path{fill:#567;stroke:none}"
        "@media(prefers-color-scheme:dark){text{fill:#eee}rect{fill:#37474f;stroke:#9ab}"
        "path{stroke:#9ab}#tip path{fill:#9ab}}"
    )
    body = "\n".join([*lines, *boxes])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {30 + len(LAYERS) * gap}" '
        'role="img" aria-label="Packages and their imports">\n'
        f"<style>{style}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker></defs>\n'
        f"{body}\n</svg>\n"
    )


def _bend(rows: int) -> int:
    """How far an arrow over several rows goes around what lies between."""
    return 0 if rows <= 1 else (70 + 26 * rows) * (1 if rows % 2 else -1)


def main(folder: Path) -> None:
    """Write every page."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in reference.TITLES:
        (folder / f"{name}.md").write_text(reference.page(name, get_command(app)), "utf-8")
    (folder / "architecture.svg").write_text(picture(), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
