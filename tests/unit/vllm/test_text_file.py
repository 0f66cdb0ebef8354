"""Files as people send them: compressed, in other encodings, cut, and no text at all."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.vllm import text_file
from deployctl.vllm.text_file import NotText, decoded, read_text

LINE = "(APIServer pid=1) INFO Accepted: 44 tokens, Drafted: 161 tokens\n" * 3


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_compressed_in_any_encoding(packed: Callable[[bytes], bytes], encoding: str) -> None:
    assert decoded(packed(LINE.encode(encoding))) == LINE


@pytest.mark.parametrize(
    "data",
    [
        LINE.encode("utf-16-le"),
        LINE.encode("utf-16-be"),
        codecs.BOM_UTF16_BE + LINE.encode("utf-16-be"),
        codecs.BOM_UTF32_BE + LINE.encode("utf-32-be"),
        bytes(4096) + LINE.encode(),
    ],
    ids=["le", "be", "be-mark", "32-be-mark", "zero-bytes-before"],
)
def test_encodings_with_and_without_a_mark(data: bytes) -> None:
    assert decoded(data) == LINE


def test_what_is_no_utf8_is_replaced() -> None:
    assert decoded(b"caf\xe9 44\n") == "caf\ufffd 44\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x28\xb5\x2f\xfd\x24\x10", "compressed by zstd"),
        (b"PK\x03\x04\x14\x00", "zip archive"),
        (b"x" * 257 + b"ustar  ", "tar archive"),
        (gzip.compress(LINE.encode() * 100, mtime=0)[:60], "cut short"),
        (bytes(range(32)) * 100, "not text"),
    ],
)
def test_what_cannot_be_read_is_named(data: bytes, said: str) -> None:
    with pytest.raises(NotText, match=said):
        decoded(data)


def test_a_small_file_does_not_unpack_to_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_file, "LIMIT", 1 << 20)
    with pytest.raises(NotText, match="unpacks to more than 1 MiB"):
        decoded(gzip.compress(bytes(2 << 20)))


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(LINE.encode()))
    assert read_text(path) == LINE


@given(st.binary(max_size=300))
def test_any_bytes_are_text_or_named(data: bytes) -> None:
    try:
        decoded(data)
    except NotText as error:
        assert str(error)


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1))
def test_any_text_is_read_back(text: str) -> None:
    assert decoded(text.encode("utf-8-sig")) == text
