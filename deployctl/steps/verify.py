"""verify: the filled environment is whole, is what was asked for, and has the required fixes.

Only then is it sealed; a sealed environment is never changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deployctl.agent.wire.builds import Distribution, Imports, Installed
from deployctl.config.base import Settings
from deployctl.errors import RemoteError, StagingFailed, StepError
from deployctl.hosts.operations import environment, jobs, modules, releases
from deployctl.steps.build import BuildStep
from deployctl.steps.builds import built, damage, environments
from deployctl.steps.builds.environments import SHIM, environment_key, job_id, sealed
from deployctl.steps.facts import TOOLS
from deployctl.steps.identity import digest
from deployctl.steps.interface import (
    ENVIRONMENT,
    Answers,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
)
from deployctl.vllm.builds import completeness, libraries
from deployctl.vllm.fixes.registry import by_name, probe_source
from deployctl.vllm.fixes.requirements import unmet, uses_v2_runner

PROBE_LIMIT = 120.0
INSTALLERS = ("uv", "pip")
ALWAYS = "always"
"""Option: measure although the environment is sealed; a seal that is not true is broken."""
DEEP = "deep"
"""Option: compare every file's hash as well; implies `always`."""


class VerifyOptions(Settings):
    """verify: also what was verified before, and by every file's hash."""

    always: bool = False
    """Verify again what was verified before."""
    deep: bool = False
    """Compare the hash of every installed file, not only its size."""


class VerifyStep(Step):
    """Records, extensions, fixes; then the seal."""

    name = "verify"
    phase = "stage"
    failure = StagingFailed
    options = VerifyOptions

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        return BuildStep().questions(wanted)

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        seal = sealed(answers, environment_key(wanted, answers))
        asked = any(wanted.option(self.name, name, False) for name in (ALWAYS, DEEP))
        if seal is None or asked:
            return Plan("check")
        evidence = seal["evidence"][self.name]
        # A fix that this version knows and the seal does not say: the probes run again.
        if not {entry["fix"] for entry in evidence.get("fixes", ())} >= set(by_name()):
            return Plan("check")
        if _unmet(wanted, evidence):
            return Plan("check")
        return Plan("unchanged", evidence=evidence)

    def prove(self, context: Context) -> Evidence:
        build = context.wanted.profile.build
        deep = bool(context.wanted.option(self.name, DEEP, False))
        context.progress("checking records")
        try:
            holds = environments.complete(context, deep)
        except RemoteError as error:
            if error.kind != "no-environment":
                raise
            raise self._missing(context, error) from error
        problems = completeness.record_problems(holds, SHIM)
        missing = completeness.missing_extensions(holds["extensions"], build.target)
        problems += [f"no {name}: not a complete build for {build.target}" for name in missing]
        ray = context.wanted.profile.ray_version
        if ray is not None:
            problems += completeness.ray_problems(holds["distributions"], ray)
        evidence: Evidence = {
            "distributions": len(holds["distributions"]),
            "entries": holds["entries"],
            "deep": deep,
            "freeze": freeze_digest(holds["distributions"]),
            "packages": {d["name"]: d["version"] for d in holds["distributions"]},
            "problems": problems,
            "checks": [
                {"name": "base", "verdict": "warning", "message": text, "say": text}
                for text in completeness.inherited(holds, SHIM)
            ],
        }
        from_base = bool(problems) and all(text.endswith(" already") for text in problems)
        if not problems:
            context.progress("importing extensions")
            imports = self._imports(context, holds)
            evidence["extensions"] = imports["extensions"]
            evidence["torch"] = imports["torch"]
            problems += completeness.import_problems(imports, build.target)
            if ray is not None:
                problems += completeness.ray_import_problems(imports)
            self._libraries(context, problems, evidence)
        if problems:
            self._damaged(context, problems)
        else:
            tools = context.answers.get(TOOLS)
            problems += completeness.torch_problems(
                imports["torch"], build.target, tools and tools["capabilities"]
            )
            problems += self._builders(context)
        if problems:
            raise self.fail(
                context,
                f"environment {context.release.environment_key} is incomplete",
                "\n".join(problems),
                damage.in_base(build.base) if from_base else damage.REBUILT,
                evidence,
            )
        self._fixes(context, holds["site_packages"], evidence)
        self._seal(context, evidence)
        return evidence

    def manifest(self, evidence: Mapping[str, Any]) -> dict[str, Any]:
        return {name: evidence.get(name) for name in ("freeze", "packages", "torch")}

    def _missing(self, context: Context, error: RemoteError) -> StepError:
        self._damaged(context, [error.message])
        profile = context.wanted.profile.name
        return self.fail(
            context,
            "nothing is built here",
            error.message,
            f"run: deployctl up --profile {profile}",
        )

    def _damaged(self, context: Context, problems: list[str]) -> None:
        if sealed(context.answers, context.release.environment_key) is not None:
            damage.break_seal(context, problems)

    def _fixes(self, context: Context, tree: str, evidence: Evidence) -> None:
        context.progress("probing fixes")
        report = context.session.call(
            modules.run,
            source=probe_source(),
            function="examine",
            args={"tree": tree},
            timeout=PROBE_LIMIT,
        )
        evidence["fixes"] = report["fixes"]
        for text in _unmet(context.wanted, evidence, context.wanted.profile.fixes.prefer):
            context.log(f"a preferred fix is missing: {text}")
        missing = _unmet(context.wanted, evidence)
        if missing:
            raise self.fail(
                context,
                "a required fix is missing",
                "\n".join(missing),
                "choose a build.source that has it, or take it out of fixes.require",
                evidence,
            )

    def _knowledge(self, context: Context) -> dict[str, Any]:
        """What this vLLM knows, for the plans of later runs; empty where it cannot be read."""
        try:
            return built.probe(context.session, context.release.environment)
        except RemoteError as error:
            context.log(f"what this vLLM knows could not be read: {error.message}")
            return {}

    def _imports(self, context: Context, holds: Installed) -> Imports:
        names = [completeness.module_name(path) for path in holds["extensions"]]
        if context.wanted.profile.ray_version is not None:
            names.append(completeness.RAY)
        try:
            return environments.imports(context, names)
        except RemoteError as error:
            if error.kind == "import-failed":
                self._libraries(context, [error.message], {})
                self._damaged(context, [error.message])
            raise self.fail(
                context,
                "vllm does not import",
                str(error.detail or error.message)[-2000:],
                damage.REBUILT,
            ) from error

    def _libraries(self, context: Context, problems: list[str], evidence: Evidence) -> None:
        """What the host lacks is not damage: a rebuilt environment would lack it as well."""
        missing = libraries.lacked(problems)
        if missing:
            raise self.fail(
                context,
                f"the host lacks {', '.join(missing)}, which vLLM loads",
                "\n".join(problems),
                f"{'; '.join(missing.values())}; then retry",
                evidence,
            )

    def _builders(self, context: Context) -> list[str]:
        """No process may work on it any more, whoever began it."""
        key = context.release.environment_key
        session, paths = context.session, [f"@/builds/{key}", f"@/environments/{key}"]
        members = session.call(jobs.state, id=job_id(key)).get("members", [])
        found = session.call(environment.builders, paths=paths)
        # A server that runs from a sealed environment is not a builder.
        at_work = [p for p in found if p["comm"] in INSTALLERS or paths[0][1:] in p["command"]]
        alive = {p["pid"]: p["command"] for p in at_work}
        alive |= {pid: alive.get(pid, "of the build's job") for pid in members}
        return [f"still at work on it: {pid} {command}" for pid, command in alive.items()]

    def _seal(self, context: Context, evidence: Evidence) -> None:
        key = context.release.environment_key
        before = sealed(context.answers, key)
        made = (before["evidence"] if before else context.evidence).get(BuildStep.name)
        if made is None:
            context.log(f"environment {key} is not sealed: its build was left out of this run")
            return
        seal = {
            "key": key,
            "evidence": {BuildStep.name: made, self.name: evidence},
            "knowledge": self._knowledge(context),
        }
        context.session.call(releases.seal_environment, key=key, seal=seal)
        if ENVIRONMENT in context.wanted.deliveries:
            context.courier.made(context, ENVIRONMENT)


def _unmet(wanted: Deployment, evidence: Evidence, names: Sequence[str] | None = None) -> list[str]:
    """The fixes of these names (those that are required, where None) that are not proven there."""
    profile = wanted.profile
    names = profile.fixes.require if names is None else names
    v2_runner = uses_v2_runner(profile.serve.env, profile.build.target)
    speculative = profile.drafter.speculative if profile.drafter is not None else {}
    return unmet(evidence, names, v2_runner, speculative)


def freeze_digest(distributions: Sequence[Distribution]) -> str:
    """One digest of every installed distribution, its version and its origin."""
    return digest([[d["name"], d["version"], d["direct_url"]] for d in distributions])
