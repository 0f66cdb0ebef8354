"""build and verify on this machine, under a root of their own, as a run would call them."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from typing import Any

from deployctl.config.build import BuildSettings
from deployctl.config.profile import Profile
from deployctl.errors import RemoteError
from deployctl.hosts.session import Session
from deployctl.hosts.ways.local import LocalTransport
from deployctl.steps.build import BuildStep, environment_key
from deployctl.steps.identity import ReleasePaths
from deployctl.steps.interface import Answers, Context, Deployment, Plan, Step, Unknown
from deployctl.steps.verify import VerifyStep

STEPS: tuple[Step, ...] = (BuildStep(), VerifyStep())


class BuildHost:
    """A session with a local agent; several of one root are several controllers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.session = Session(LocalTransport("local"), root=str(root))
        self.notes: list[str] = []
        self.phases: list[str] = []

    def stop_jobs(self) -> None:
        """End whatever still builds."""
        for job in self.session.call("jobs.listing"):
            self.session.call("jobs.stop", id=job["id"], grace=0.5)

    def close(self) -> None:
        self.session.close()

    def wanted(self, build: dict[str, Any], **profile: Any) -> Deployment:
        """A profile around these build settings."""
        # How a build runs is another matter than what comes of it: see test_confined.
        own = pwd.getpwuid(os.geteuid()).pw_name
        settings = BuildSettings(**{"python": "3.11", "target": "cpu", "user": own, **build})
        made = Profile.model_validate(
            {
                "name": "built",
                "hosts": [{"name": "local", "local": True}],
                "model": {"path": "/nowhere", "served_name": "none"},
                "build": settings,
                "serve": {"port": 1},
                **profile,
            }
        )
        return Deployment(made, made.hosts[0])

    def answers(self, wanted: Deployment) -> Answers:
        questions = {q.key: q for step in STEPS for q in step.questions(wanted)}
        values: dict[str, Any] = {}
        for key, question in questions.items():
            try:
                values[key] = self.session.follow(question.call, None)
            except RemoteError as error:
                values[key] = Unknown(error.kind, error.message)
        return Answers(values)

    def context(self, wanted: Deployment, answers: Answers) -> Context:
        key = environment_key(wanted, answers)
        return Context(
            wanted,
            answers,
            self.session,
            self.session,
            ReleasePaths("built", "release", key),
            lambda phase, detail="", fraction=None: self.phases.append(phase),
            self.notes.append,
        )

    def up(self, wanted: Deployment) -> dict[str, Any]:
        """Both steps; their plans and evidence by name, and `key`."""
        answers = self.answers(wanted)
        context = self.context(wanted, answers)
        done: dict[str, Any] = {"key": context.release.environment_key, "plans": {}}
        for step in STEPS:
            plan: Plan = step.plan(wanted, answers)
            done["plans"][step.name] = plan.status
            if plan.status == "blocked":
                raise step.fail(context, plan.reason)
            if plan.status == "unchanged":
                done[step.name] = plan.evidence
                continue
            if plan.status == "change":
                step.apply(context, plan)
            done[step.name] = context.evidence[step.name] = step.prove(context)
        return done

    def environment(self, key: str) -> Path:
        return self.root / "environments" / key

    def seal(self, key: str) -> dict[str, Any] | None:
        path = self.environment(key) / "seal.json"
        return json.loads(path.read_text()) if path.exists() else None
