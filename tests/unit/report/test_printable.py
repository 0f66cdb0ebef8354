"""Text of hosts, servers and processes reaches a terminal as text, and forges no line."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deployctl
from deployctl.cli import app, output
from deployctl.engine.run import events
from deployctl.errors import HostError
from deployctl.report import printable
from deployctl.report.page import page
from deployctl.report.terminal import Plain, listener
from tests.unit.report import documents

HOSTILE = "x\n\x1b[2Jerror: forged\r\x9b1A\u202eevil\u2066\u2028\x7f\ud800\U000e0041"
SHOWN = (
    "x\\n\\u001b[2Jerror: forged\\r\\u009b1A\\u202eevil\\u2066\\u2028\\u007f\\ud800\\udb40\\udc41"
)


def test_every_kind_is_escaped_on_a_line() -> None:
    assert printable.line(HOSTILE) == SHOWN


def test_a_block_keeps_its_lines() -> None:
    assert printable.block("a\r\nb\rc\n\td\x1b") == "a\nb\nc\n\td\\u001b"


@given(st.text())
def test_a_line_is_one_line_of_printable_text(text: str) -> None:
    shown = printable.line(text).replace("\t", " ")
    assert len(shown.splitlines()) <= 1
    shown.encode()


@pytest.mark.parametrize(
    "text", ["", "pl\u00e4in \u4f60\u597d \U0001f600 e\u0301", "a\tb", "\\x1b"]
)
def test_other_text_is_left_alone(text: str) -> None:
    assert printable.line(text) == printable.block(text) == text


@given(st.text())
def test_json_stays_the_same_document(text: str) -> None:
    shown = printable.block(json.dumps({text: text}, ensure_ascii=False))
    assert json.loads(shown) == {text: text}


def test_nothing_that_is_printed_gets_past(capsys: pytest.CaptureFixture[str]) -> None:
    output.say([HOSTILE])
    output.answer([HOSTILE])
    output.note(HOSTILE)
    output.warn(HOSTILE)
    Plain().hear(events.StepNote("host", "step", HOSTILE))
    told = capsys.readouterr()
    assert told.out.splitlines() == [SHOWN] * 2
    noted, warned, heard = told.err.splitlines()
    assert (noted, warned) == (SHOWN, f"warning: {SHOWN}")
    assert heard.endswith(f"host: step: {SHOWN}")


def test_a_live_display_escapes_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with listener() as listen:
        listen(events.StepNote("host", "step", HOSTILE))
    told = capsys.readouterr().err
    assert "\\u202e" in told and "\u202e" not in told
    assert "\x1b[2J" not in told


def test_a_failure_forges_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    app._tell(HostError("host", HOSTILE, f"first\n{HOSTILE}", HOSTILE))
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("error:")] == [f"error: host: {SHOWN}"]
    assert all(line.isprintable() for line in lines)


def test_a_page_holds_no_control_either() -> None:
    made = documents.failed()
    (host,) = made["hosts"]
    host["error"] = {"what": HOSTILE, "why": HOSTILE, "next": HOSTILE}
    host["steps"][0]["step"] = HOSTILE
    text = page({**made, "profile": HOSTILE, "playbook": HOSTILE}, [made])
    assert "\\u202e" in text and all(c.isprintable() or c == "\n" for c in text)


def test_one_place_prints() -> None:
    """Whatever prints goes through `output` or the display of a run."""
    root = Path(deployctl.__file__).parent
    run_elsewhere = {"agent", "steps", "vllm"}
    """On a host or in a child process, whose output is read by us."""
    found = []
    for path in root.rglob("*.py"):
        relative = path.relative_to(root)
        if relative.parts[0] in run_elsewhere:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and (
                ast.unparse(node.func) in ("print", "console.print", "typer.echo", "typer.secho")
                or ast.unparse(node.func).startswith(("sys.stdout.write", "sys.stderr.write"))
            ):
                found.append(str(relative))
    assert sorted(set(found)) == ["cli/app.py", "cli/output.py", "report/terminal.py"]
    assert found.count("cli/app.py") == 1, "the version alone"
