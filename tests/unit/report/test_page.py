"""The page of a run: what it says, that it is whole by itself, and how it looks in a browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from deployctl.report import charts, page_parts, store
from deployctl.report.markup import element
from deployctl.report.page import page
from deployctl.report.summary import lines
from tests.unit.report import documents

PAGES: dict[str, Callable[[], dict[str, Any]]] = {
    "passed": documents.passed,
    "failed": documents.failed,
    "refused": documents.refused,
}


class Outline(HTMLParser):
    """Tags, attributes and text of a page; fails on tags that do not close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self.text += data


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_fetched_and_nothing_runs(name: str) -> None:
    text = page(PAGES[name](), [documents.passed()])
    outline = Outline(text)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in outline.tags}
    attributes = {name for _, given in outline.tags for name in given}
    assert not {"src", "href", "onclick", "onload"} & attributes
    assert not re.search(r"url\(|@import|https?://", text)


@pytest.mark.parametrize("name", PAGES)
def test_every_chart_has_a_name_and_a_description(name: str) -> None:
    text = page(PAGES[name](), [documents.passed()])
    pictures = [given for tag, given in Outline(text).tags if tag == "svg"]
    assert pictures
    assert all(given["role"] == "img" and given["aria-label"] for given in pictures)
    assert text.count("<title>") == len(pictures) + 1
    assert text.count("<desc>") == len(pictures)


def test_the_verdict_comes_first_in_one_line() -> None:
    text = Outline(page(documents.passed())).text
    assert "demo: deployed" in text
    assert "acceptance pass, mean acceptance length 7.90 (7.81 to 7.95)" in text
    assert text.index("mean acceptance length 7.90") < text.index("Host local")


def test_a_failure_names_the_wrong_key_and_what_to_do() -> None:
    text = Outline(page(documents.failed())).text
    assert "dflash_config.mask_token_id is 0, wanted 3" in text
    assert "Next: write the wanted config" in text
    assert "confirmed" in text


def test_what_the_page_must_show() -> None:
    text = Outline(page(documents.passed(), [documents.failed()])).text
    for part in (
        "Drafter config",
        "[0, 2, 4]",
        "dflash-layer-offset",
        "0.32.0+cpu",
        "Last runs",
        "20261130T050000Z-c0ffee",
        "vLLM PR #40727",
        "without service for 41.3 s",
        "8 of 8 answers are the same",
        "2.70",
    ):
        assert part in text


def test_what_a_person_must_act_on_is_on_the_page() -> None:
    made = documents.failed()
    (host,) = made["hosts"]
    host |= {"without_service": 61.5, "gaps": [20.0, 41.5], "still_without_service": True}
    host["way_back_error"] = {"what": "the port is held", "why": "by 7", "next": "end 7"}
    config = {"path": "/x/config.json", "sha256": "0", "drifted": True}
    gates = [step for step in host["steps"] if step["step"] in ("smoke", "acceptance")]
    for step in gates:
        step["evidence"]["drafter_config"] = config
    text = Outline(page(made)).text
    assert "without service for 61.5 s, in 2 gaps: 20.0, 41.5 s, still down" in text
    assert "Rollback failed: the port is held" in text and "Next: end 7" in text
    assert gates and text.count("DRIFTED: /x/config.json is not what the server") == 1


def test_several_hosts_have_a_table_first() -> None:
    report = documents.passed()
    (host,) = report["hosts"]
    failed = {**host, "host": "gpu2", "wave": 2, "error": {"what": "x", "why": "", "next": ""}}
    failed |= {"restored": True, "cut_off": 2, "without_service": None}
    rest = {**host, "host": "gpu3", "held_back": "gpu2 failed", "without_service": None}
    report["hosts"] = [{**host, "wave": 1}, failed, rest]
    found = page_parts.hosts(report)
    assert found is not None and found.head == ["host", "wave", "outcome", "serves", "cost"]
    assert [row[:4] for row in found.rows] == [
        ["local", "1", "changed", "3f5be4e74275"],
        ["gpu2", "2", "rolled back", "8b1d0c5a7f21"],
        ["gpu3", "", "not done", "8b1d0c5a7f21"],
    ]
    assert [row[4] for row in found.rows[1:]] == ["2 requests cut off", ""]
    head, *rows = list(lines(report))[:4]
    assert head.split() == ["HOST", "WAVE", "OUTCOME", "SERVES", "COST"]
    assert [row.split()[0] for row in rows] == ["local", "gpu2", "gpu3"]
    assert page(report).index("<h2>Hosts</h2>") < page(report).index("<h2>Host local</h2>")
    assert "<h2>Hosts</h2>" not in page(documents.passed())


def test_text_of_others_is_text() -> None:
    outline = Outline(page(documents.refused()))
    assert 'no route & <no> "name"' in outline.text
    assert "if a < b and c > d" in Outline(page(documents.passed())).text


def test_an_undrafted_position_and_many_positions() -> None:
    drawn = charts.positions([0.5, None])
    assert "none" in "".join(drawn.itertext())
    many = charts.positions([0.9] * 15)
    assert ".90" in "".join(many.itertext())


def test_elements_escape_and_leave_out() -> None:
    node = element("p", "a < b", None, [element("b", "x"), " tail"], class_="y", id=None)
    assert "".join(node.itertext()) == "a < bx tail"
    assert node.attrib == {"class": "y"}


# -- in a browser --------------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium")
WIDTHS = {"desktop": 1280, "phone": 500}
"""A headless window is never narrower than 500."""


def chromium(*arguments: str) -> str:
    """Run the browser without a network of its own; what it prints."""
    assert CHROMIUM, "chromium is missing: run scripts/packages unit"
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    # Nothing may be fetched: every name resolves to nowhere.
    alone = "--host-resolver-rules=MAP * ~NOTFOUND"
    done = subprocess.run(
        [CHROMIUM, *flags, alone, *arguments], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for name, make in PAGES.items():
        text = page(make(), [documents.failed(), documents.passed()])
        (folder / f"{name}.html").write_text(text)
    return folder


MEASURE = """\
<script>onload = () => {
  document.title = JSON.stringify([...document.querySelectorAll("iframe")].map(frame => [
    frame.id, frame.contentDocument.documentElement.scrollWidth, frame.contentWindow.innerWidth,
    [...frame.contentDocument.querySelectorAll("svg")].map(
      s => Math.round(s.getBoundingClientRect().width))]));
}</script>"""


@pytest.fixture(scope="module")
def measured(written: Path) -> dict[str, tuple[int, int, list[int]]]:
    """Each page at each width: how wide its content is, its window, and each of its charts. One
    browser has all of them in frames: most of what it costs is its start."""
    frames = [
        f'<iframe id="{name} {width}" width={pixels} height=1200 frameborder=0 '
        f'srcdoc="{html.escape((written / f"{name}.html").read_text())}"></iframe>'
        for name in PAGES
        for width, pixels in WIDTHS.items()
    ]
    place = written / "measured.html"
    place.write_text("<!doctype html>" + "".join(frames) + MEASURE)
    dom = chromium("--window-size=1600,1200", "--dump-dom", place.as_uri())
    title = re.search(r"<title>(\[\[.*?\]\]\])</title>", dom)
    assert title is not None
    return {
        frame: (content, window, charts) for frame, content, window, charts in json.loads(title[1])
    }


@pytest.mark.xdist_group("pages in a browser")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_the_layout_fits_the_window(
    measured: dict[str, tuple[int, int, list[int]]], name: str, width: str
) -> None:
    """Nothing sticks out sideways, and every chart has a size."""
    content, window, pictures = measured[f"{name} {width}"]
    assert window == WIDTHS[width]
    assert content <= window
    assert pictures
    assert all(300 <= picture <= window for picture in pictures)


@pytest.mark.parametrize("width", WIDTHS)
def test_light_and_dark_are_the_same_layout_in_other_colours(
    written: Path, tmp_path: Path, width: str
) -> None:
    shots = {}
    for scheme, setting in {"dark": 0, "light": 1}.items():
        shot = tmp_path / f"{scheme}.png"
        chromium(
            f"--window-size={WIDTHS[width]},900",
            f"--blink-settings=preferredColorScheme={setting}",
            f"--screenshot={shot}",
            (written / "passed.html").as_uri(),
        )
        shots[scheme] = rows(shot)
    light, dark = shots["light"], shots["dark"]
    assert len(light) == len(dark)
    # The corner is paper: bright in the one, dark in the other.
    assert sum(light[0][:3]) > 600
    assert sum(dark[0][:3]) < 150
    # What differs from the paper stands in the same lines of the picture.
    drawn = [
        [any(row[i : i + 3] != row[:3] for i in range(0, len(row), 3)) for row in shot]
        for shot in (light, dark)
    ]
    same = sum(one == other for one, other in zip(*drawn, strict=True))
    assert same / len(light) > 0.98
    assert sum(drawn[0]) > len(light) * 0.5


def rows(png: Path) -> list[bytes]:
    """The lines of an 8-bit RGB or RGBA picture as RGB bytes (PNG, ISO/IEC 15948)."""
    data = png.read_bytes()
    packed, at, width, depth = b"", 8, 0, 3
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, _, bits, colour = struct.unpack(">IIBB", body[:10])
            assert (bits, colour) in ((8, 2), (8, 6))
            depth = 3 if colour == 2 else 4
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    raw, stride = zlib.decompress(packed), width * depth
    lines: list[bytes] = []
    before = bytes(stride)
    for start in range(0, len(raw), stride + 1):
        before = _unfiltered(raw[start], raw[start + 1 : start + 1 + stride], before, depth)
        pixels = before if depth == 3 else b"".join(before[i : i + 3] for i in range(0, stride, 4))
        lines.append(pixels)
    return lines


def _unfiltered(kind: int, line: bytes, above: bytes, depth: int) -> bytes:
    if kind == 0:
        return line
    made = bytearray(line)
    for i, value in enumerate(made):
        left = made[i - depth] if i >= depth else 0
        up, corner = above[i], above[i - depth] if i >= depth else 0
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = up
        elif kind == 3:
            guess = (left + up) // 2
        else:
            far = left + up - corner
            guess = min((left, up, corner), key=lambda near: abs(far - near))
        made[i] = (value + guess) & 0xFF
    return bytes(made)


def test_a_page_can_be_kept_whatever_an_answer_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    document = {**documents.passed(), "profile": "half \ud800 a character"}
    store.save(document)
    kept = store.save_page(document)
    assert "half \\ud800 a character" in kept.read_text("utf-8")
