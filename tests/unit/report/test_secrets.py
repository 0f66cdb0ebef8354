"""Values of a profile's secrets are in nothing that is printed or kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployctl import redaction
from deployctl.cli import app, output
from deployctl.config.profile import Profile
from deployctl.config.secret_values import secret_values
from deployctl.report import notify, store
from tests.unit.report import documents

TOKEN, KEY, HOOK = "hf_canary4711", 'key"canary\\4712', "https://hooks.example/canary?4713"
PROFILE = Profile.model_validate(
    {
        "name": "p",
        "hosts": [{"name": "here", "local": True}],
        "model": {"path": "/m", "served_name": "m"},
        "build": {"source": {"release": "1"}},
        "serve": {"port": 1, "secrets": {"HF_TOKEN": {"env": "A"}}, "api_key": {"env": "B"}},
        "notify": [{"webhook": {"env": "C"}}],
    }
)
PROFILE_ALWAYS = PROFILE.model_copy(
    update={"notify": [one.model_copy(update={"on": ["always"]}) for one in PROFILE.notify]}
)
FORMS = [TOKEN, KEY, json.dumps(KEY)[1:-1], HOOK]


@pytest.fixture(autouse=True)
def hidden() -> Iterator[None]:
    before = list(redaction._forms)
    environ = {"A": TOKEN, "B": KEY, "C": HOOK, "D": "other-canary"}
    redaction.hide(secret_values(PROFILE, environ))
    yield
    redaction._forms[:] = before


def clean(text: str) -> bool:
    return "canary" not in text


def test_nothing_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for form in FORMS:
        output.say([f"a {form} b"])
        output.note(form)
        output.answer_text(form)
        output.say_document({form: [form]})
    told = capsys.readouterr()
    assert clean(told.out + told.err)
    assert "a <secret> b" in told.out


def test_nothing_kept_and_for_the_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    store.directory().mkdir(parents=True, mode=0o755)
    document = {**documents.passed(), "log": FORMS, "nested": {"a": (f"x{KEY}y", {TOKEN: HOOK})}}
    report = store.save(document)
    page = store.save_page(redaction.document(document))
    for path in (report, page):
        assert clean(path.read_text("utf-8"))
        assert path.stat().st_mode & 0o777 == 0o600
    assert store.directory().stat().st_mode & 0o777 == 0o700


def test_no_traceback(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    app._internal(ValueError(f"{TOKEN} {KEY} {HOOK}"))
    said = capsys.readouterr().err
    path = Path(said.split("traceback in ")[1].strip())
    try:
        assert clean(said + path.read_text("utf-8"))
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        path.unlink()


def test_a_value_that_is_no_secret_hides_nothing() -> None:
    redaction.hide(["", "1", "true"])
    assert redaction.text("1 is true") == "1 is true"


@pytest.mark.parametrize(
    "url",
    ["https://h:canary/x", "canary://h", "h/canary", "https://[canary", "http://\u2603canary.x:a"],
)
def test_a_malformed_webhook_shows_no_piece_of_it(url: str) -> None:
    (said,) = notify.send(PROFILE_ALWAYS, documents.passed(), {"C": url})
    assert "canary" not in said and "C" in said
