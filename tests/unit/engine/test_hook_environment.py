"""A hook is given what it needs to run, and what it asks for by name; nothing else leaks to it."""

from __future__ import annotations

import pytest

from deployctl import redaction
from deployctl.agent.core import hooks as there
from deployctl.agent.core.interface import Call
from deployctl.config.hooks import HookSettings
from deployctl.config.playbook import Playbook
from deployctl.config.secret_values import hook_values
from deployctl.engine.run.hooks import _here

LEAKS = {
    "AWS_SECRET_ACCESS_KEY": "canary-aws",
    "HF_TOKEN": "canary-hf",
    "UV_PUBLISH_TOKEN": "canary-uv",
    "SSH_AUTH_SOCK": "/canary-agent",
    "ANYTHING": "canary-any",
}


@pytest.fixture(autouse=True)
def leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**LEAKS, "NAMED_TOKEN": "named-1", "HTTPS_PROXY": "http://p"}.items():
        monkeypatch.setenv(name, value)


def names(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def test_here() -> None:
    hook = HookSettings.model_validate({"run": ["env"], "env": ["NAMED_TOKEN", "NOT_SET"]})
    found = names(_here(hook, "", {"DEPLOYCTL_HOOK_RUN": "r"})["output"])
    assert not LEAKS.keys() & found.keys()
    assert found["HTTPS_PROXY"] == "http://p" and found["DEPLOYCTL_HOOK_RUN"] == "r"
    assert "PATH" in found


def test_on_the_host() -> None:
    call = Call("/nowhere", lambda event: None)
    found = names(there.run(call, ["env"], env={"DEPLOYCTL_HOOK_RUN": "r"})["output"])
    assert not LEAKS.keys() & found.keys()
    assert found["DEPLOYCTL_HOOK_RUN"] == "r" and "PATH" in found and "HOME" in found


def test_what_it_is_given_by_name_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_forms", [])
    hook = {"run": ["tell"], "env": ["NAMED_TOKEN", "ANYTHING"]}
    playbook = Playbook.model_validate(
        {"name": "p", "steps": [{"step": "launch", "after": [hook]}], "after": [hook]}
    )
    environ = {"NAMED_TOKEN": "canary-named", "ANYTHING": "plain-word"}
    redaction.hide(hook_values(playbook, environ))
    assert redaction.text("canary-named plain-word") == "<secret> plain-word"
