"""Deterministic requests to the served model, with checks on the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deployctl.config.checks import SmokeRequest, SmokeSettings
from deployctl.errors import SmokeFailed, Undecided
from deployctl.steps.interface import (
    ANSWERING,
    SERVER,
    Answers,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
)
from deployctl.steps.measuring.gates import (
    ASKED,
    asked_digest,
    gate_plan,
    gate_questions,
    one_process,
)
from deployctl.steps.servers.client import open_client
from deployctl.vllm.client import requests
from deployctl.vllm.client.outcome import REFUSALS
from deployctl.vllm.client.smoke import Expectation
from deployctl.vllm.client.smoke_run import Asked, run

NEXT = {
    "dead": "read the server's log: deployctl logs --profile {profile}",
    "wrong": "read the answers in the report; a wrong chat template or model shows like this",
    "thinking": "raise max_tokens of the request, or set thinking: false",
    "slow": "look for other load on the host, or relax the bounds in the profile's smoke section",
    "unknown": "read what refused: where it wants a key, name its variable as serve.api_key",
}


class SmokeStep(Step):
    """The server's answers are what the profile expects."""

    name = "smoke"
    phase = "gate"
    roles = ANSWERING
    failure = SmokeFailed
    needs_release = False
    uses = (SERVER,)
    compared = ("verdict",)

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        return gate_questions(wanted)

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        return gate_plan(self.name, asked_digest(wanted.profile.smoke), wanted, answers)

    def prove(self, context: Context) -> Evidence:
        profile = context.wanted.profile
        with one_process(self, context) as of, open_client(context) as client:
            evidence = run(
                client, asked(profile.smoke, profile.model.served_name), context.progress
            )
        evidence |= {ASKED: asked_digest(profile.smoke), **of}
        verdict = evidence["verdict"]
        if verdict == "pass":
            return evidence
        said, again = f"{verdict}: {problem(evidence)}", NEXT[verdict].format(profile=profile.name)
        if verdict == "unknown":
            raise Undecided(context.wanted.host.name, self.name, said, "", again, evidence)
        raise self.fail(context, said, next=again, evidence=evidence)

    def sentence(self, ended: Mapping[str, Any]) -> str:
        checks = ended["evidence"].get("checks") or []
        return ", ".join(f"{check['name']}: {check['result']['verdict']}" for check in checks)


def asked(settings: SmokeSettings, served_name: str) -> list[Asked]:
    """The profile's requests, as they are sent."""
    return [_asked(request, served_name) for request in settings.requests]


def problem(evidence: Evidence) -> str:
    """The first thing that went wrong, with the name of its request."""
    for check in evidence["checks"]:
        if check["result"]["verdict"] == evidence["verdict"]:
            return f"{check['name']}: {'; '.join(check['result']['problems'])}"
    return "no request was made"


def refusal(evidence: Evidence) -> str | None:
    """How the server refused the first request that it did; None where it refused none."""
    failures = (check["result"].get("failure") for check in evidence["checks"])
    return next((str(kind) for kind in failures if kind in REFUSALS), None)


def _asked(request: SmokeRequest, served_name: str) -> Asked:
    body = requests.chat(
        served_name,
        request.messages or requests.user(request.prompt or ""),
        request.max_tokens,
        request.temperature,
        request.stream,
        request.thinking,
        request.tools,
        request.extra,
    )
    check = request.check
    expected = Expectation(
        finish_reason=None if check.finish_reason is None else tuple(check.finish_reason),
        contains=tuple(check.contains),
        regex=tuple(check.regex),
        json_valid=check.json_valid,
        python_compiles=check.python_compiles,
        tool_call=check.tool_call,
        min_tokens=check.min_tokens,
        max_ttft=check.max_ttft,
        min_tokens_per_second=check.min_tokens_per_second,
        served_name=served_name,
    )
    return Asked(request.name, body, request.timeout, expected, request.prompt_tokens)
