"""build: the environment of a release, made beside everything that serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deployctl.agent.wire.builds import BuildUser, Distribution, Imports, Installed
from deployctl.agent.wire.jobs import JobState
from deployctl.errors import RemoteError, StagingFailed
from deployctl.hosts.operations import environment, jobs
from deployctl.hosts.session import Call
from deployctl.steps import facts
from deployctl.steps.builds import building, commits, environments, patches, shared
from deployctl.steps.builds.environments import BUILD, SHIM, environment_key, job_id, sealed
from deployctl.steps.builds.uv import ensure_uv
from deployctl.steps.delivery import MakesItself, delivery_words
from deployctl.steps.facts import BUILD_USER, SOURCE
from deployctl.steps.identity import ReleasePaths
from deployctl.steps.interface import (
    ENVIRONMENT,
    WHOLE_ANSWER,
    Answers,
    Change,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
)
from deployctl.vllm.builds import completeness, sources

__all__ = ["SHIM", "BuildStep", "environment_key", "job_id", "sealed"]

PACKAGES = "packages"
COMMITS = ("requested", "installed", "imported")


class BuildStep(Step):
    """From a release, branch, pull request, wheel or checkout to a filled environment."""

    name = BUILD
    phase = "stage"
    failure = StagingFailed
    produces = frozenset({ENVIRONMENT})
    compared = ("seconds",)

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        asked: list[Question[Any]] = [facts.release_state(wanted), facts.tools()]
        source = wanted.profile.build.source
        if source.release is None:
            call = Call(
                environment.resolve_source,
                url=source.url,
                ref=source.ref,
                pr=source.pr,
                wheel=source.wheel,
                path=source.path,
            )
            moving = WHOLE_ANSWER if environments.moves(source) else ""
            asked.append(Question(SOURCE, call, moving=moving))
        if environments.asks_for_user(wanted.profile.build):
            whom = Call(environment.build_user, user=wanted.profile.build.user)
            asked.append(Question(BUILD_USER, whom))
        return asked

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        build = wanted.profile.build
        if build.strategy not in ("auto",) and not environments.is_git(build.source):
            return Plan("blocked", reason=f"strategy {build.strategy} is for a git source")
        unfit = patches.objection(patches.read(build))
        if unfit:
            return Plan("blocked", reason=unfit)
        key = environment_key(wanted, answers)
        seal = sealed(answers, key)
        if seal is not None:
            return Plan("unchanged", evidence=seal["evidence"][self.name])
        name = environments.describe(build.source, answers.get(SOURCE))
        delivery = wanted.deliveries.get(ENVIRONMENT)
        damage = environments.damage_before(wanted, answers)
        why = f"the one before was damaged: {damage[0]}" if damage else f"{name} is not here"
        if build.patches:
            why = f"{why}; with {', '.join(patch.name for patch in patches.read(build))}"
        if delivery is not None:
            why = f"{why}; {delivery.words}"
        if environments.asks_for_user(build):
            refused = answers.unknown(BUILD_USER)
            if refused is not None and refused.kind == "not-confined":
                return Plan("blocked", reason=f"{refused.reason}; choose another build.user")
            why += f"; {_as_whom(answers[BUILD_USER])}"
        return Plan("change", (Change("environment", None, key, why),))

    def apply(self, context: Context, plan: Plan) -> None:
        if building.already_built(context):
            key = context.release.environment_key
            context.log(f"environment {key} is built and not sealed yet: it is verified again")
            return
        build = building.Build(self, context, ensure_uv(self, context))
        delivery = context.wanted.deliveries.get(ENVIRONMENT)
        if delivery is not None and delivery.receives:
            try:
                build.finish(shared.install(self, context, build.wish, build.uv))
                return
            except MakesItself as told:
                context.log(str(told))
        build.run()

    def prove(self, context: Context) -> Evidence:
        key = context.release.environment_key
        session = context.session
        state = session.call(jobs.state, id=job_id(key))
        holds = environments.complete(context)
        found = completeness.provider(holds["providers"], SHIM)
        evidence = self._evidence(context, state, found)
        if found is None:
            problems = completeness.record_problems(holds, SHIM)
            raise self.fail(
                context,
                "the vLLM installation is incomplete",
                "; ".join(problems),
                f"read {state['log']} and retry",
                evidence,
            )
        self._same_packages(context, holds, state, evidence)
        imported = self._import(context, found, evidence)
        evidence["version_imported"] = imported["version"]
        if environments.is_git(context.wanted.profile.build.source):
            commits.prove(context, found, holds["site_packages"], imported, evidence)
        self._compare(context, evidence)
        return evidence

    def manifest(self, evidence: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "commits": {name: evidence.get(f"commit_{name}") for name in COMMITS},
            "version": evidence.get("version_installed"),
            "wheel": evidence.get("wheel"),
            "patches": evidence.get("patches") or [],
        }

    def sentence(self, ended: Mapping[str, Any]) -> str:
        evidence = ended["evidence"]
        commit = evidence.get("commit_installed")
        what = commit[:12] if commit else evidence.get("version_installed") or "unknown version"
        how = evidence.get("strategy") or "unknown strategy"
        return f"{what} by {how}{delivery_words(evidence)}"

    def goes_on(self, wanted: Deployment, release: ReleasePaths) -> str:
        stop = f"deployctl build --stop {job_id(release.environment_key)}"
        return (
            "the build continues on the host and a retry attaches to it "
            f"(to stop it: {stop} --profile {wanted.profile.name})"
        )

    def _evidence(self, context: Context, state: JobState, found: Distribution | None) -> Evidence:
        label = state.get("label", {})
        producer = label.get("producer") or {}
        resolved = context.answers.get(SOURCE)
        whom = context.answers.get(BUILD_USER)
        return {
            "key": context.release.environment_key,
            "user": whom and whom["user"],
            "user_reason": whom and whom["why"],
            "cache": label.get("cache"),
            "strategy": label.get("strategy"),
            "reason": label.get("reason"),
            "attempts": label.get("attempts", []),
            "job": state["id"],
            "log": state["log"],
            "seconds": state.get("seconds"),
            "commit_requested": resolved and resolved["commit"],
            "commit_installed": None,
            "commit_imported": None,
            "merge_base": label.get("merge_base"),
            "delivery": self._delivery(context, label),
            "producer": {k: v for k, v in producer.items() if k != PACKAGES} or None,
            "patches": [patch.document() for patch in patches.read(context.wanted.profile.build)],
            "version_requested": context.wanted.profile.build.source.release,
            "version_installed": found and found["version"],
            "version_imported": None,
        }

    def _same_packages(
        self,
        context: Context,
        facts: Installed,
        state: JobState,
        evidence: Evidence,
    ) -> None:
        """What came from another host is what that one has proven, package by package."""
        producer = (state.get("label") or {}).get("producer") or {}
        here = {one["name"]: one["version"] for one in facts["distributions"]}
        differing = shared.differences(producer, here)
        if differing:
            raise self.fail(
                context,
                "other packages are installed than the producer has",
                "\n".join(differing),
                "run again; to build on this host instead, set share.way: none",
                evidence,
            )

    def _delivery(self, context: Context, label: Mapping[str, Any]) -> Evidence | None:
        delivery = context.wanted.deliveries.get(ENVIRONMENT)
        if label.get("delivery"):
            return dict(label["delivery"])
        return delivery.document() if delivery is not None and not delivery.receives else None

    def _import(self, context: Context, found: Distribution, evidence: Evidence) -> Imports:
        try:
            return environments.imports(context, [])
        except RemoteError as error:
            raise self.fail(
                context,
                f"{found['name']} {found['version']} is installed and does not import",
                str(error.detail or error.message).strip()[-2000:],
                "choose another torch_backend or add what is missing to build.extra",
                evidence,
            ) from error

    def _compare(self, context: Context, evidence: Evidence) -> None:
        """Asked, installed and imported must be the same."""
        version = evidence["version_requested"]
        if version is not None:
            names, values = "version", (evidence["version_installed"], evidence["version_imported"])
            agree = all(value and sources.same_version(version, value) for value in values)
        elif evidence["commit_requested"] is not None and not evidence.get("dirty"):
            names, values = "commit", (evidence["commit_installed"], evidence["commit_imported"])
            agree = all(value == evidence["commit_requested"] for value in values)
        else:
            return
        if not agree:
            asked = version or evidence["commit_requested"]
            raise self.fail(
                context,
                f"another {names} than requested is in the environment",
                f"asked {asked}, installed {values[0]}, imported {values[1]}"
                + (
                    f"; files that differ: {evidence.get('files_different')}" if not version else ""
                ),
                "retry; if it fails again, remove the kept wheel: deployctl build --prune",
                evidence,
            )


def _as_whom(answer: BuildUser) -> str:
    if answer["user"] is not None:
        return f"built as {answer['user']}"
    return f"built as {answer['agent']}: {answer['why']}"
