"""Secrets in a growing log are overwritten where they lie, in every form, whole and across ends."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from deployctl.agent.core import redaction
from deployctl.agent.core.redaction import LogMask, forms, hidden

SECRET = 'hf_can"ary/4711'


@pytest.mark.parametrize(
    "form", [SECRET, json.dumps(SECRET)[1:-1], quote(SECRET), quote(SECRET, safe="")]
)
def test_every_form_of_a_value(form: str) -> None:
    data = f"before {form} after".encode()
    shown = hidden(data, forms([SECRET]))
    assert shown == b"before " + b"*" * len(form) + b" after"


def test_a_log_that_grows_in_the_middle_of_a_secret(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"a " + SECRET[:7].encode())
    mask = LogMask(str(log), [SECRET])
    mask.tend()
    with log.open("ab") as file:
        file.write(SECRET[7:].encode() + b" b\n")
    mask.tend()
    assert log.read_bytes() == b"a " + b"*" * len(SECRET) + b" b\n"


def test_a_secret_across_two_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "PIECE", 64)
    log = tmp_path / "log"
    log.write_text("".join("x" * shift + SECRET for shift in range(80)))
    LogMask(str(log), [SECRET]).tend()
    assert SECRET not in log.read_text()


def test_a_log_that_was_emptied_is_read_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x" * 100)
    mask = LogMask(str(log), [SECRET])
    mask.tend()
    log.write_text(SECRET)
    mask.tend()
    assert log.read_text() == "*" * len(SECRET)


def test_what_is_too_short_hides_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("1 on true")
    for values in (["1", "on", "true", ""], []):
        LogMask(str(log), values).tend()
    assert log.read_text() == "1 on true"
    LogMask(str(tmp_path / "none"), [SECRET]).tend()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text(SECRET)
    (tmp_path / "log").symlink_to("other")
    with pytest.raises(OSError):
        LogMask(str(tmp_path / "log"), [SECRET]).tend()
    assert (tmp_path / "other").read_text() == SECRET
