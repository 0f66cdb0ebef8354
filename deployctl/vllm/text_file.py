"""Text of a file that somebody sent: compressed or not, in whichever encoding it was saved."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

LIMIT = 1 << 30
"""Bytes of text that are read at most, so that a small file cannot unpack to any size."""
SAMPLE = 1 << 16
COMPRESSED: tuple[tuple[bytes, Callable[[IO[bytes]], Any]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\x00", lzma.open),
)
"""How a compressed file begins that the standard library unpacks."""
FOREIGN: tuple[tuple[bytes, int, str], ...] = (
    (b"\x28\xb5\x2f\xfd", 0, "compressed by zstd"),
    (b"\x04\x22\x4d\x18", 0, "compressed by lz4"),
    (b"LZIP", 0, "compressed by lzip"),
    (b"\x1f\x9d", 0, "compressed by compress"),
    (b"PK\x03\x04", 0, "a zip archive"),
    (b"7z\xbc\xaf\x27\x1c", 0, "a 7z archive"),
    (b"Rar!", 0, "a rar archive"),
    (b"ustar", 257, "a tar archive"),
    (b"LPKSHHRH", 0, "a journal of systemd"),
)
"""Magic, its offset, and what it is: named, and left to the program that made it."""
BYTE_ORDER_MARKS: tuple[tuple[bytes, str], ...] = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)


class NotText(Exception):
    """The bytes are no text that can be read; the message says what they are."""


def read_text(path: Path) -> str:
    """The text of a file, `-` for stdin. Raises OSError, and `NotText` for any other file."""
    return decoded(sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes())


def decoded(data: bytes) -> str:
    """The text in some bytes: gzip, bzip2 and xz are unpacked, UTF-8, 16 and 32 are decoded.

    What is not UTF-8 becomes replacement characters. Raises `NotText`.
    """
    data = _unpacked(data)
    for mark, encoding in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    wide = _wide(data[:SAMPLE])
    if wide is not None:
        return data.decode(wide, "replace")
    # A log that was cut while it was written to begins with a run of zero bytes.
    data = data.replace(b"\x00", b"")
    if _binary(data[:SAMPLE]):
        raise NotText("it is not text")
    return data.decode("utf-8", "replace")


def _unpacked(data: bytes) -> bytes:
    for magic, offset, what in FOREIGN:
        if data.startswith(magic, offset):
            raise NotText(f"it is {what}: unpack it first")
    for magic, opened in COMPRESSED:
        if not data.startswith(magic):
            continue
        try:
            with opened(io.BytesIO(data)) as stream:
                text: bytes = stream.read(LIMIT + 1)
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise NotText(f"it is compressed, and damaged or cut short: {error}") from error
        if len(text) > LIMIT:
            raise NotText(f"it is compressed, and unpacks to more than {LIMIT >> 20} MiB")
        return text
    return data


def _wide(sample: bytes) -> str | None:
    """UTF-16 without a mark: of each pair of bytes, one is zero in nearly all of a log."""
    pairs = len(sample) // 2
    even, odd = sample[0 : 2 * pairs : 2].count(0), sample[1 : 2 * pairs : 2].count(0)
    if not pairs or max(even, odd) < 0.7 * pairs or min(even, odd) > 0.1 * pairs:
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _binary(sample: bytes) -> bool:
    """Whether much of it is control characters that no log has (colours begin with ESC)."""
    allowed = b"\t\n\v\f\r\b\a\x1b"
    control = sum(1 for byte in sample if byte < 32 and byte not in allowed)
    return control > 0.02 * len(sample)
