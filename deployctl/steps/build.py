"""build: the environment of a release, made beside everything that serves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deployctl.config.build import BuildSettings
from deployctl.errors import RemoteError, StagingFailed
from deployctl.steps import job
from deployctl.steps.identity import digest
from deployctl.steps.interface import (
    Answers,
    Change,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
)
from deployctl.vllm import completeness, recipes

# How a build is carried out does not change what comes out of it.
_NOT_BUILT = {"max_jobs", "stall", "limit"}
SHIM = "deployctl"
"""The installer's name of a dist-info that only lends the name `vllm`."""


def environment_key(wanted: Deployment, answers: Answers) -> str:
    """The name of the wanted environment, from everything that makes it. Pure; `Unanswered`
    where a moving ref could not be resolved."""
    build = wanted.profile.build
    identity: dict[str, Any] = build.model_dump(exclude=_NOT_BUILT)
    if build.source.release is None:
        identity["resolved"] = answers["source"]["identity"]
    return digest(identity, 16)


def job_id(key: str) -> str:
    """The one job that may fill an environment: whoever asks for the same one attaches to it."""
    return f"build-{key}"


def sealed(answers: Answers, key: str) -> dict[str, Any] | None:
    """The seal of an environment; None where it is not there or was never proven whole."""
    seal: dict[str, Any] | None = answers["releases"]["environments"].get(key)
    return seal


def wish(build: BuildSettings, key: str) -> recipes.Wish:
    """The build settings as the recipes take them."""
    return recipes.Wish(
        key=key,
        python=build.python,
        target=build.target,
        distribution=build.source.distribution,
        torch_backend=build.torch_backend,
        wheels=tuple(build.wheels),
        overrides=tuple(build.overrides),
        extra=tuple(build.extra),
        env=dict(build.env),
        compile_bytecode=build.compile_bytecode,
    )


class BuildStep(Step):
    """From a release, branch, pull request, wheel or checkout to a filled environment."""

    name = "build"
    phase = "stage"
    failure = StagingFailed

    def questions(self, wanted: Deployment) -> Sequence[Question]:
        return (
            Question("releases", "releases.state", {"profile": wanted.profile.name}),
            Question("tools", "environment.tools"),
        )

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        key = environment_key(wanted, answers)
        seal = sealed(answers, key)
        if seal is not None:
            return Plan("unchanged", evidence=seal["evidence"]["build"])
        source = wanted.profile.build.source
        requirement = f"{source.distribution}=={source.release}"
        return Plan("change", (Change("environment", None, key, f"{requirement} is not here"),))

    def apply(self, context: Context, plan: Plan) -> None:
        build, key = context.wanted.profile.build, context.release.environment_key
        if self._already_built(context, key):
            context.log(f"environment {key} is built and not sealed yet: it is verified again")
            return
        wanted = wish(build, key)
        if wanted.overrides:
            context.session.call(
                "files.write",
                path=recipes.overrides_path(wanted),
                text=recipes.overrides_text(wanted),
            )
        requirement = f"{build.source.distribution}=={build.source.release}"
        state = job.run(
            context,
            job_id(key),
            recipes.release(wanted, context.answers["tools"]["uv"], requirement),
            stall=build.stall,
            limit=build.limit,
            label={"key": key, "strategy": "release", "reason": "a published version"},
        )
        if state["state"] != "done":
            raise self._failed(context, state)

    def prove(self, context: Context) -> Evidence:
        key = context.release.environment_key
        source = context.wanted.profile.build.source
        session, environment = context.session, context.release.environment
        state = session.call("jobs.state", id=job_id(key))
        facts = session.call("environment.complete", environment=environment)
        found = completeness.provider(facts["providers"], SHIM)
        evidence: Evidence = {
            "key": key,
            "strategy": state.get("label", {}).get("strategy"),
            "job": state["id"],
            "log": state["log"],
            "seconds": state.get("seconds"),
            "commit_requested": None,
            "commit_installed": None,
            "commit_imported": None,
            "version_requested": source.release,
            "version_installed": found and found["version"],
        }
        if found is None:
            problems = completeness.record_problems(facts, SHIM)
            raise self.fail(
                context,
                "the environment holds no whole vllm",
                "; ".join(problems),
                f"look into {state['log']} and run again",
                evidence,
            )
        try:
            imported = session.call("environment.imports", environment=environment, extensions=[])
        except RemoteError as error:
            why = str(error.detail or error.message)
            raise self.fail(
                context,
                f"{found['name']} {found['version']} is installed and does not import",
                why.strip()[-2000:],
                "choose another torch_backend or add what is missing to build.extra",
                evidence,
            ) from error
        evidence["version_imported"] = imported["version"]
        return evidence

    def _already_built(self, context: Context, key: str) -> bool:
        session = context.session
        state = session.call("jobs.state", id=job_id(key))
        if state["state"] != "done":
            return False
        try:
            facts = session.call("environment.complete", environment=context.release.environment)
        except RemoteError as error:
            if error.kind != "no-environment":
                raise
            return False
        return not completeness.record_problems(facts, SHIM)

    def _failed(self, context: Context, state: dict[str, Any]) -> StagingFailed:
        text = job.log(context.session, state["id"])
        return StagingFailed(
            context.wanted.host.name,
            self.name,
            f"job {state['id']} {state['state']}: {state.get('why', '')}",
            "\n".join(text.splitlines()[-20:]),
            f"the whole log is {state['log']} on the host; run again to take the work up",
        )
