"""Speculation must not change answers: the served release against itself without a drafter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from deployctl.config.base import Settings
from deployctl.config.checks import AcceptanceSettings
from deployctl.errors import AcceptanceFailed
from deployctl.steps.interface import ANSWERING, Answers, Context, Deployment, Evidence, Plan, Step
from deployctl.steps.servers.client import open_client
from deployctl.steps.servers.plain_server import plain_server
from deployctl.vllm.acceptance.lossless import compare
from deployctl.vllm.client import prompt_sets

PROMPTS = 8


class LosslessOptions(Settings):
    """lossless: how many prompts are compared."""

    prompts: int = Field(default=PROMPTS, ge=1)
    """Prompts whose answers are compared."""


class LosslessStep(Step):
    """Answers with and without speculation are the same, token by token."""

    name = "lossless"
    phase = "gate"
    roles = ANSWERING
    failure = AcceptanceFailed
    options = LosslessOptions
    needs_release = False

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        if wanted.profile.drafter is None:
            return Plan("unchanged", reason="without a drafter there is nothing to compare")
        if wanted.member is not None:
            return Plan("blocked", reason="a group has no second server to compare with")
        return Plan("check", reason="a second server is started beside what serves")

    def prove(self, context: Context) -> Evidence:
        profile = context.wanted.profile
        settings = profile.acceptance or AcceptanceSettings()
        prompts = prompt_sets.load(settings.prompts).prompts
        count = int(context.wanted.option(self.name, "prompts", PROMPTS))
        with open_client(context) as served, plain_server(context, self.name) as plain:
            found = compare(
                served,
                plain,
                profile.model.served_name,
                prompts[:count],
                settings.max_tokens,
                settings.timeout,
            )
        if found["verdict"] != "pass":
            raise self.fail(context, said(found), found["caveat"], evidence=found)
        return found

    def sentence(self, ended: Mapping[str, Any]) -> str:
        found = ended["evidence"]
        same = f"{found['identical']} of {found['compared']} answers as without speculation"
        return f"{found['verdict']}: {same}, {found['tokens']} tokens"


def said(found: Evidence) -> str:
    """The comparison in one sentence."""
    if found["failures"]:
        return f"not compared: {found['failures'][0]}"
    first = found["first_difference"]
    if first is None:
        return f"{found['compared']} answers are the same, {found['tokens']} tokens"
    return (
        f"{len(found['differences'])} of {found['compared']} answers differ; the first at "
        f"{first['unit']} {first['at']} of prompt {first['prompt']}: with speculation "
        f"{first['speculative']!r}, without {first['plain']!r}"
    )
