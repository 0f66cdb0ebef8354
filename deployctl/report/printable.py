"""Text of others as it may be printed: without secrets of ours, and without a character that moves
a cursor, hides or reorders.

Escaped, as JSON writes them: C0 and C1 controls (ECMA-48), the characters that change the
direction of text (Unicode's Bidi_Control) or end a line beside LF, tags and halves of characters.
"""

from __future__ import annotations

import re

from deployctl import redaction

_UNSAFE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\u2028\u2029\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
)
_IN_BLOCK = re.compile(f"[{_UNSAFE}]")
_IN_LINE = re.compile(f"[\n{_UNSAFE}]")
_SHORT = {"\n": "\\n", "\r": "\\r"}


def line(text: str) -> str:
    """A text on one line: what it holds of line ends is escaped, too."""
    return _IN_LINE.sub(_escaped, redaction.text(text))


def block(text: str) -> str:
    """A text of several lines; CR LF and a lone CR (a progress bar's) end one as LF does."""
    return _IN_BLOCK.sub(_escaped, redaction.text(text).replace("\r\n", "\n").replace("\r", "\n"))


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    if character in _SHORT:
        return _SHORT[character]
    data = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{data[at : at + 4]}" for at in range(0, len(data), 4))
