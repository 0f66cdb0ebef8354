"""Messages to webhooks: when, in which shape, bounded, without secrets, never a failure."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from typing import Any

import pytest

from deployctl.config.profile import Profile
from deployctl.report import notify
from tests.hosts.lab.ports import free_port
from tests.hosts.served.webhook import Webhook
from tests.unit.vllm.loopback import serving

SECRET = 'tok"en-of-the-hub'


def profile(**notify: Any) -> Profile:
    settings = {"webhook": {"env": "HOOK"}, "timeout": 60, **notify}
    return Profile.model_validate(
        {
            "name": "toy",
            "hosts": [{"name": "here", "local": True}],
            "model": {"path": "/m", "served_name": "toy"},
            "build": {"source": {"release": "0.32.0"}},
            "serve": {"port": 8123, "secrets": {"HF_TOKEN": {"env": "HF_TOKEN"}}},
            "notify": [settings],
        }
    )


def document(outcome: str = "failed", restored: bool = False) -> dict[str, Any]:
    host = {
        "host": "here",
        "release": "abc",
        "restored": restored,
        "error": {"what": "here: ready: no", "why": f"key {SECRET}", "next": f"mend {SECRET}"},
        "way_back_error": None,
        "without_service": 2.5,
    }
    return {
        "run": "r1",
        "profile": "toy",
        "outcome": outcome,
        "exit_code": 7,
        "seconds": 3.0,
        "hosts": [host],
    }


def environ(webhook: Webhook) -> dict[str, str]:
    return {"HOOK": webhook.url, "HF_TOKEN": SECRET}


@pytest.mark.parametrize(
    ("outcome", "restored", "on", "told"),
    [
        ("failed", False, ["failure"], True),
        ("rolled-back", True, ["rollback"], True),
        ("rolled-back", True, ["failure"], True),
        ("interrupted", True, ["rollback"], True),
        ("deployed", False, ["change"], True),
        ("deployed", False, ["failure", "rollback"], False),
        ("unchanged", False, ["failure", "rollback", "change"], False),
        ("skipped", False, ["failure"], False),
        ("unchanged", False, ["always"], True),
    ],
)
def test_only_on_the_occasions_that_are_wanted(
    webhook: Webhook, outcome: str, restored: bool, on: list[str], told: bool
) -> None:
    assert notify.send(profile(on=on), document(outcome, restored), environ(webhook)) == []
    assert bool(webhook.bodies) is told


@pytest.mark.parametrize("template", ["json", "slack", "ntfy"])
def test_no_secret_in_any_shape(webhook: Webhook, template: str) -> None:
    notify.send(profile(template=template), document(), environ(webhook))
    (body,) = webhook.bodies
    assert SECRET not in body and json.dumps(SECRET)[1:-1] not in body
    assert notify.REDACTED in body
    if template == "json":
        assert json.loads(body)["run"] == "r1"
    elif template == "slack":
        assert "without service for 2.5 s" in json.loads(body)["text"]
    else:
        assert webhook.headers[0]["Title"] == "deployctl toy: failed"
        assert webhook.headers[0]["Priority"] == "high"


def test_a_webhook_that_hangs_costs_its_time_and_no_more() -> None:
    hanging = Webhook(slow=True)
    try:
        (complaint,) = notify.send(profile(timeout="300ms"), document(), environ(hanging))
        assert complaint.endswith("Timeout: no answer within 0.3 s")
    finally:
        hanging.close()


def test_what_cannot_be_told_is_a_sentence_without_the_url() -> None:
    refusing = Webhook(status=403)
    try:
        assert notify.send(profile(), document(), environ(refusing)) == ["notify: json: HTTP 403"]
    finally:
        refusing.close()
    nobody = f"http://127.0.0.1:{free_port()}/hook/T0K3N"
    (gone,) = notify.send(profile(), document(), {"HOOK": nobody})
    assert "T0K3N" not in gone
    (bad,) = notify.send(profile(), document(), {"HOOK": "no url at all"})
    assert bad.startswith("notify: json: ") and "no url" not in bad
    (unset,) = notify.send(profile(), document(), {})
    assert unset == "notify: the variable HOOK is not set"


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", "Timeout: no answer within 0.5 s"),
        (b"HTTP/1.1 500 No\r\n\r\n", "HTTP 500"),
    ],
)
def test_a_webhook_that_trickles_costs_its_time_and_no_more(head: bytes, why: str) -> None:
    """It trickles until we have gone."""

    def trickle(connection: socket.socket, request: bytes) -> None:
        connection.sendall(head)
        with suppress(OSError):
            while True:
                connection.sendall(b"x")
                time.sleep(0.05)

    limit = 0.5 if "Timeout" in why else 60.0
    with serving(trickle) as url:
        said = notify.send(profile(timeout=limit), document(), {"HOOK": url})
    assert said == [f"notify: json: {why}"]


def test_half_a_character_is_replaced() -> None:
    with Webhook() as hook:
        told = document()
        told["hosts"][0]["error"]["what"] = "x\ud800"
        assert notify.send(profile(template="ntfy"), told, {"HOOK": hook.url}) == []
