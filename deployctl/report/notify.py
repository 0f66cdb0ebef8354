"""A message to webhooks when a run has ended. Never raises for what a webhook does.

Slack's shape is an incoming webhook's `{"text": …}`; ntfy's is a body with Title, Priority and
Tags headers, as its documentation describes publishing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import httpx

from deployctl.config.hooks import NotifySettings
from deployctl.config.profile import Profile
from deployctl.report.outcomes import gap, meaning

FAILURES = ("failed", "rolled-back", "undecided", "interrupted")
REDACTED = "[redacted]"
SHORTEST_SECRET = 4
"""Shorter values are no secrets, and replacing them would garble a text."""


def occasions(document: Mapping[str, Any]) -> set[str]:
    """What a run's end was: failure, rollback, change; `always` is among them in any case."""
    outcome = document["outcome"]
    found = {"always"}
    if outcome in FAILURES:
        found.add("failure")
    if any(host["restored"] for host in document["hosts"]):
        found.add("rollback")
    if outcome in ("deployed", "changed"):
        found.add("change")
    return found


def send(profile: Profile, document: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Notify every webhook that asked for it; yields what failed, in sentences."""
    secrets = secret_values(profile, environ)
    complaints = []
    for settings in profile.notify:
        if not occasions(document) & set(settings.on):
            continue
        url = environ.get(settings.webhook.env)
        if not url:
            complaints.append(f"notify: the variable {settings.webhook.env} is not set")
            continue
        why = _post(url, settings, document, secrets)
        if why:
            complaints.append(redacted(f"notify: {settings.template}: {why}", secrets))
    return complaints


def secret_values(profile: Profile, environ: Mapping[str, str]) -> list[str]:
    """The values of every secret that the profile names, longest first."""
    named = [*profile.serve.secrets.values(), *(one.webhook for one in profile.notify)]
    if profile.serve.api_key is not None:
        named.append(profile.serve.api_key)
    values = {environ.get(settings.env) or "" for settings in named}
    return sorted((v for v in values if len(v) >= SHORTEST_SECRET), key=len, reverse=True)


def redacted(text: str, secrets: Iterable[str]) -> str:
    """A text in which no secret stands, neither as it is nor as JSON writes it."""
    for secret in secrets:
        for form in {secret, json.dumps(secret)[1:-1]}:
            text = text.replace(form, REDACTED)
    return text


def message(document: Mapping[str, Any]) -> tuple[str, str]:
    """A title and a text of a few lines, for people."""
    title = f"deployctl {document['profile']}: {document['outcome']}"
    lines = [f"{document['profile']}: {meaning(document)} ({document['seconds']:.0f} s)"]
    for host in document["hosts"]:
        lines.append(f"{host['host']}: release {host['release'] or 'unknown'}")
        if host["error"]:
            lines.append(f"{host['error']['what']}")
            lines += [line for line in (host["error"]["next"],) if line]
        if host["way_back_error"]:
            lines.append(f"rollback failed: {host['way_back_error']['what']}")
        lines += [line for line in (gap(host),) if line]
    lines.append(f"run {document['run']}, exit code {document['exit_code']}")
    return title, "\n".join(lines)


def _post(
    url: str, settings: NotifySettings, document: Mapping[str, Any], secrets: Sequence[str]
) -> str:
    """Send one message; why it could not be sent, or nothing."""
    headers, body = _rendered(settings.template, document, secrets)
    try:
        status = asyncio.run(
            _status(url, body.encode("utf-8", "replace"), headers, settings.timeout)
        )
    except TimeoutError:
        return f"Timeout: no answer within {settings.timeout:g} s"
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, ValueError):
        # Its words hold a part of the URL, which is a secret as a whole.
        return f"the value of {settings.webhook.env} is not a webhook URL"
    except httpx.HTTPError as error:
        return f"{type(error).__name__}: {error}"
    return "" if 200 <= status < 300 else f"HTTP {status}"


async def _status(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> int:
    """A webhook's answer without its body, within one limit on all of it."""
    async with (
        asyncio.timeout(timeout),
        httpx.AsyncClient(timeout=None) as client,
        client.stream("POST", url, content=body, headers=headers) as answer,
    ):
        return answer.status_code


def _rendered(
    template: str, document: Mapping[str, Any], secrets: Sequence[str]
) -> tuple[dict[str, str], str]:
    title, text = (redacted(part, secrets) for part in message(document))
    if template == "ntfy":
        failed = "failure" in occasions(document)
        headers = {
            "Title": title.encode("ascii", "replace").decode(),
            "Priority": "high" if failed else "default",
            "Tags": "rotating_light" if failed else "white_check_mark",
        }
        return headers, text
    content = {"text": f"*{title}*\n{text}"} if template == "slack" else document
    return (
        {"Content-Type": "application/json"},
        redacted(json.dumps(content, default=str), secrets),
    )
