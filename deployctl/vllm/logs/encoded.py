"""The text of a log file as people send it: compressed, or written by another system."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import zlib
from contextlib import suppress
from io import BytesIO

MOST = 256 << 20
"""Bytes of a log that are read: longer ones are known by their end."""
_PACKED = ((b"\x1f\x8b", "gzip"), (b"BZh", "bz2"), (b"\xfd7zXZ\x00", "xz"))
_MARKS = (
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)


def text(data: bytes) -> str:
    """A log's text; bytes of no known encoding become U+FFFD, and line ends stay as they are."""
    data = _unpacked(data)
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    sample = data[:4096]
    if len(sample) > 3 and sample[1::2].count(0) > len(sample) // 3:
        return data.decode("utf-16-le", "replace")
    return data.decode("utf-8", "replace")


def _unpacked(data: bytes) -> bytes:
    """What a compressed file holds, as far as it is whole."""
    form = next((form for magic, form in _PACKED if data.startswith(magic)), None)
    if form is None:
        return data
    pieces: list[bytes] = []
    size = 0
    with suppress(OSError, EOFError, zlib.error, lzma.LZMAError), _opened(form, data) as file:
        while size < MOST and (piece := file.read(1 << 20)):
            pieces.append(piece)
            size += len(piece)
    return b"".join(pieces) or data


def _opened(form: str, data: bytes) -> gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile:
    if form == "gzip":
        return gzip.GzipFile(fileobj=BytesIO(data))
    return bz2.BZ2File(BytesIO(data)) if form == "bz2" else lzma.LZMAFile(BytesIO(data))
