"""Columns of text, for terminals of any width."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

GAP = "  "


def columns(
    rows: Sequence[Mapping[str, str]],
    heads: Sequence[str],
    width: int | None = None,
    least: Sequence[str] = (),
) -> Iterator[str]:
    """Rows in columns below their heads, without those that are empty in every row. Where that is
    wider than `width` characters, the columns in `least` are left out, the first ones first, and
    what is still too long is cut."""
    kept = [head for head in heads if any(row.get(head) for row in rows)]
    widths = {head: max(len(head), *(len(row.get(head, "")) for row in rows)) for head in kept}
    for head in least:
        if width is None or _total([widths[one] for one in kept]) <= width:
            break
        kept = [one for one in kept if one != head]
    for row in ({head: head.upper() for head in kept}, *rows):
        line = GAP.join(f"{row.get(head, ''):<{widths[head]}}" for head in kept).rstrip()
        yield line if width is None or len(line) <= width else line[: width - 1] + "…"


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)
