"""The command line, environment and secrets of a release's server, for the vLLM that was built."""

from __future__ import annotations

import os
from typing import Any

from deployctl.steps.builds import built
from deployctl.steps.facts import DRAFTER, MODEL, PLACE
from deployctl.steps.interface import Answers, Context, Deployment, Step
from deployctl.steps.models import sources
from deployctl.steps.servers import ranks, ray
from deployctl.steps.servers.serving import secrets, serve_settings
from deployctl.vllm.serving.command import command, compiled_caches, environment, problems


def render(step: Step, context: Context, answers: Answers | None = None) -> dict[str, Any]:
    """argv and environment with the host's absolute paths; raises the step's failure where this
    vLLM cannot run what is wanted. `answers` are newer ones about the models."""
    wanted, release, root = context.wanted, context.release, context.session.root
    knowledge = built.knowledge(context)
    model = sources.source(wanted, DRAFTER)
    settings = serve_settings(
        wanted,
        f"{root}{release.environment[1:]}/bin/vllm",
        sources.place(wanted, answers or context.answers, MODEL),
        f"{root}{release.drafter[1:]}" if model is not None else None,
        knowledge,
    )
    wrong = problems(settings, knowledge, wanted.profile.build.target)
    if wrong:
        raise step.fail(
            context, "this vLLM cannot run what is wanted", "\n".join(wrong), "change the profile"
        )
    found = ranks.variables(wanted, place(step, context)) if wanted.member is not None else {}
    given = {**found, **wanted.profile.serve.env}
    argv = command(settings)
    if ray.cluster(wanted) is not None:
        argv = ray.node_command(wanted, release, root, argv)
    return {
        "argv": argv,
        "env": {
            **compiled_caches(f"{root}{release.compiled[1:]}"),
            **environment(given, wanted.profile.serve.gpus),
        },
    }


def place(step: Step, context: Context) -> str:
    """The interface that has a rank's address; raises the step's failure where none has."""
    found = context.answers[PLACE]
    if found["interface"] is None:
        raise step.fail(
            context,
            f"no interface has {found['address']}",
            f"this host has {', '.join(found['interfaces']) or 'none'}",
            "set address: and interface: of this host",
        )
    return found["interface"]


def unset_secrets(wanted: Deployment) -> list[str]:
    """The server's secret variables without a value in deployctl's own environment, in
    sentences."""
    return [
        f"the secret {name} has no value: set {settings.env} in deployctl's environment"
        for name, settings in secrets(wanted).items()
        if not os.environ.get(settings.env)
    ]


def secret_values(step: Step, context: Context) -> dict[str, str]:
    """The server's secret variables from deployctl's own environment."""
    values = {}
    for name, settings in secrets(context.wanted).items():
        value = os.environ.get(settings.env)
        if not value:
            raise step.fail(
                context,
                f"the secret {name} has no value",
                f"the variable {settings.env} is not set here",
                f"set {settings.env} in deployctl's environment and run again",
            )
        values[name] = value
    return values
