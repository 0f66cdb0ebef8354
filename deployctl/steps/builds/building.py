"""Carries out a build on a host: uv brought along, the strategies tried in order, each as a job."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deployctl.agent.wire.builds import ResolvedSource
from deployctl.agent.wire.jobs import JobState
from deployctl.errors import RemoteError, StagingFailed
from deployctl.hosts.operations import environment, files, jobs
from deployctl.steps import job
from deployctl.steps.builds import environments, patches
from deployctl.steps.facts import SOURCE, TOOLS
from deployctl.steps.interface import Context, Step
from deployctl.vllm.builds import completeness, recipes, sources, strategies
from deployctl.vllm.builds.strategies import Choice, SourceFacts
from deployctl.vllm.builds.wish import Origin
from deployctl.vllm.logs import build as build_log

PATCH_RECORD = "deployctl-patch.json"
"""In the dist-info of a patched release: the commit whose changes it has."""
FINAL = {"no-space", "no-network", "no-python", "stopped", "stalled", "lost", "killed"}
"""Failures that another strategy would meet as well, or that no strategy is to blame for."""


@dataclass
class Build:
    """One build of one environment. `attempts` lists every strategy that was tried or skipped, with
    its reason and what became of it.
    """

    step: Step
    context: Context
    uv: str
    attempts: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.settings = self.context.wanted.profile.build
        self.key = self.context.release.environment_key
        profile, answers = self.context.wanted.profile, self.context.answers
        confined = environments.confinement(profile, answers)
        self.wish = environments.wish(self.settings, self.key, confined)
        damage = environments.damage_before(self.context.wanted, self.context.answers)
        if not all(text.endswith("is missing") for text in damage):
            # Installed files may be links into uv's cache: what changed them changed it as well.
            self.wish = replace(self.wish, env={**self.wish.env, "UV_NO_CACHE": "1"})

    def run(self) -> None:
        """Fill the environment; raises `StagingFailed` with the first error of the last try."""
        if self.wish.overrides:
            self.context.session.call(
                files.write,
                path=self.wish.overrides_file,
                text=self.wish.overrides_text,
                mode=0o644,  # a build user reads it
            )
        found = zip(self.wish.patch_files, patches.read(self.settings), strict=True)
        for path, patch in found:
            self.context.session.call(files.write, path=path, text=patch.text)
        source = self.settings.source
        if not environments.is_git(source):
            requirement = source.wheel or f"{source.distribution}=={source.release}"
            steps = recipes.release(self.wish, self.uv, requirement)
            kind = "wheel" if source.wheel else "release"
            self._job(Choice(kind, True, environments.describe(source, None)), steps)
            return
        self._from_git()

    def finish(self, state: JobState) -> None:
        """Judge the job of an environment that was built elsewhere; raises `StagingFailed`."""
        if state["state"] != "done":
            raise self._failed(state)

    # -- git ---------------------------------------------------------------------------------

    def _from_git(self) -> None:
        resolved = self.context.answers[SOURCE]
        origin = environments.origin(self.settings.source, resolved, self.settings.submodules)
        if resolved["place"]:
            origin = replace(origin, repository=resolved["place"])
        facts = self._facts(origin, resolved)
        last: StagingFailed | None = None
        for choice in strategies.choices(facts, self.settings.strategy):
            if not choice.possible:
                self._note(choice, "passed over")
                continue
            try:
                self._job(choice, self._steps(choice, origin, facts), origin.commit)
                return
            except StagingFailed as error:
                self._note(choice, error.thing)
                last = error
                if error.evidence.get("kind") in FINAL:
                    break
        if last is None:
            why = "\n".join(f"{a['strategy']}: {a['reason']}" for a in self.attempts)
            raise self.step.fail(
                self.context,
                "no strategy can build this",
                why,
                "change build.strategy, or fix the causes shown above",
                {"attempts": self.attempts},
            )
        raise last

    def _facts(self, origin: Origin, resolved: ResolvedSource) -> SourceFacts:
        """What the choice depends on; the repository is fetched only where nothing is kept."""
        session, settings = self.context.session, self.settings
        tools = self.context.answers[TOOLS]
        facts = SourceFacts(
            commit=origin.commit,
            kept=self._kept_key(resolved) is not None,
            dirty=resolved["dirty"],
            target=settings.target,
            tools=tools,
        )
        if not origin.checkout:
            self._fetch(origin)
        known = session.call(
            environment.source_facts, repository=origin.repository, commit=origin.commit
        )
        facts = replace(
            facts, merge_base=known["merge_base"], changed=known["changed"], tag=known["tag"]
        )
        wanted = settings.strategy == "precompiled" or (
            settings.strategy == "auto" and not facts.kept
        )
        wanted = wanted and settings.index != "none"
        if wanted and settings.target == "cuda" and facts.merge_base:
            urls = sources.precompiled_urls(
                settings.precompiled_index, facts.merge_base, settings.torch_backend
            )
            found = session.call(environment.first_found, urls=urls)
            facts = replace(facts, precompiled=found["url"], tried=found["tried"])
        self.merge_base = facts.merge_base
        return facts

    def _fetch(self, origin: Origin) -> None:
        label = {"key": self.key, "strategy": "fetch", "commit": origin.commit}
        name = origin.repository.rsplit("/", 1)[-1].removesuffix(".git")
        state = job.run(
            self.context,
            f"fetch-{name}-{origin.commit[:12]}",
            recipes.fetch(origin),
            stall=self.settings.stall,
            limit=self.settings.limit,
            label=label,
        )
        if state["state"] != "done":
            raise self._failed(state)

    def _kept_key(self, resolved: ResolvedSource) -> str | None:
        """A kept wheel of this source and these settings, compiled here before upstream's."""
        kept = self.context.session.call(environment.wheels)
        whole = {wheel["key"] for wheel in kept if wheel["whole"]}
        keys = (self._wheel_key(name, resolved) for name in ("source", "precompiled"))
        return next((key for key in keys if key in whole), None)

    def _wheel_key(self, strategy: str, resolved: ResolvedSource) -> str:
        tools = self.context.answers[TOOLS]
        return environments.wheel_key(self.settings, resolved["identity"], strategy, tools)

    def _steps(self, choice: Choice, origin: Origin, facts: SourceFacts) -> list[recipes.JobStep]:
        resolved = self.context.answers[SOURCE]
        if choice.strategy == "reuse":
            key = self._kept_key(resolved)
            assert key is not None
            return recipes.reuse(self.wish, self.uv, key)
        if choice.strategy == "patch":
            assert facts.merge_base and facts.tag
            return recipes.patch(self.wish, self.uv, origin, facts.merge_base, facts.tag)
        tools = self.context.answers[TOOLS]
        env = strategies.compile_environment(self.settings.target, tools, self.settings.max_jobs)
        if choice.strategy == "precompiled":
            assert facts.merge_base
            env |= {
                "VLLM_USE_PRECOMPILED": "1",
                "VLLM_PRECOMPILED_WHEEL_COMMIT": facts.merge_base,
            }
        record = {
            "commit": origin.commit,
            "identity": resolved["identity"],
            "url": origin.url,
            "ref": origin.ref,
            "strategy": choice.strategy,
            "merge_base": facts.merge_base,
        }
        key = self._wheel_key(choice.strategy, resolved)
        log = f"@/jobs/{environments.job_id(self.key)}/log"
        return recipes.build(self.wish, self.uv, origin, key, record, env, log)

    # -- jobs --------------------------------------------------------------------------------

    def _job(
        self, choice: Choice, steps: Sequence[recipes.JobStep], commit: str | None = None
    ) -> None:
        self.context.log(f"strategy {choice.strategy}: {choice.reason}")
        state = job.run(
            self.context,
            environments.job_id(self.key),
            [*steps, *recipes.patched(self.wish)],
            stall=self.settings.stall,
            limit=self.settings.limit,
            label={
                "key": self.key,
                "strategy": choice.strategy,
                "reason": choice.reason,
                "commit": commit,
                "merge_base": getattr(self, "merge_base", None),
                "attempts": self.attempts,
                "cache": self.wish.confinement and self.wish.confinement.cache,
            },
        )
        if state["state"] != "done":
            raise self._failed(state)

    def _note(self, choice: Choice, outcome: str) -> None:
        self.attempts.append(
            {"strategy": choice.strategy, "reason": choice.reason, "outcome": outcome}
        )
        self.context.log(f"not by {choice.strategy}: {choice.reason} ({outcome})")

    def _failed(self, state: JobState) -> StagingFailed:
        found = build_log.explain(job.log(self.context.session, state["id"]))
        kind, sentence, advice = found.cause or "unknown", found.sentence, found.next
        if state["state"] != "failed":
            kind = state["state"]
            sentence = state.get("why") or "its supervisor was killed, or the host restarted"
            advice = "retry: the work continues"
        elif (status := state.get("rc") or 0) < 0:
            kind = "killed"
            sentence = f"its command was ended by signal {-status}"
            advice = "retry: the work continues"
        evidence = {
            "kind": kind,
            "job": state["id"],
            "state": state["state"],
            "phase": state.get("phase"),
            "seconds": state.get("seconds"),
            "log": state["log"],
            "first_error": list(found.lines),
            "attempts": self.attempts,
        }
        return StagingFailed(
            self.context.wanted.host.name,
            self.step.name,
            f"{state.get('phase') or 'start'} {state['state']}: {sentence}",
            "\n".join(found.lines),
            f"{advice} (log: {state['log']})",
            evidence,
        )


def already_built(context: Context) -> bool:
    """Whether the environment's job is done and its records are whole: it only wants its seal."""
    session, key = context.session, context.release.environment_key
    state = session.call(jobs.state, id=environments.job_id(key))
    if state["state"] != "done":
        return False
    try:
        facts = environments.complete(context)
    except RemoteError as error:
        if error.kind != "no-environment":
            raise
        return False
    return not completeness.record_problems(facts, environments.SHIM)


def patched_commit(text: str) -> str:
    """The commit that a patched release's record names."""
    return str(json.loads(text)["commit"])
