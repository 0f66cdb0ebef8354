"""Steps on this machine without the engine: a real agent, a root of its own, real answers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployctl.config.profile import Profile
from deployctl.errors import RemoteError
from deployctl.hosts.session import Session
from deployctl.hosts.ways.local import LocalTransport
from deployctl.steps.build import BuildStep
from deployctl.steps.interface import Answers, Context, Deployment, Evidence, Plan, Step, Unknown
from deployctl.steps.release import release_paths

PROFILE: dict[str, Any] = {
    "name": "toy",
    "hosts": [{"name": "here", "local": True}],
    "model": {"bundled": "tiny-target", "served_name": "tiny"},
    "drafter": {
        "method": "dflash",
        "model": {"bundled": "tiny-dflash-full"},
        "num_speculative_tokens": 7,
    },
    "build": {"source": {"release": "0.32.0"}, "target": "cpu", "python": "3.11"},
    "serve": {"port": 8123, "supervisor": "agent", "stop_grace": "2s"},
}


NOTHING_DEPLOYED: dict[str, object] = {
    "current": None,
    "previous": None,
    "releases": {},
    "environments": {},
    "broken": {},
    "elsewhere": [],
    "ledger": [],
}
"""What `releases.state` says of a host that has none."""


def deployment(changes: Mapping[str, Any] | None = None, **more: Any) -> Deployment:
    """What is wanted: the toy profile with sections replaced; build and serve are merged."""
    data = dict(PROFILE)
    for key, value in (changes or {}).items():
        data[key] = {**data[key], **value} if key in ("build", "serve") else value
    profile = Profile.model_validate(data)
    return Deployment(profile, profile.hosts[0], **more)


@dataclass
class Bench:
    """One deployment on this machine: ask, plan, apply and prove its steps one by one."""

    root: Path
    wanted: Deployment
    session: Session
    evidence: dict[str, Evidence] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def at(cls, root: Path, wanted: Deployment) -> Bench:
        return cls(root, wanted, Session(LocalTransport("here"), root=str(root)))

    def ask(self, *steps: Step) -> Answers:
        """Real answers to the questions of the steps, and of what a release's id follows from."""
        asked = {q.key: q for step in (BuildStep(), *steps) for q in step.questions(self.wanted)}
        results = self.session.ask([q.call for q in asked.values()])
        return Answers(
            {
                key: Unknown(r.kind, r.message) if isinstance(r, RemoteError) else r
                for key, r in zip(asked, results, strict=True)
            }
        )

    def context(self, answers: Answers, base_url: str = "") -> Context:
        release = release_paths(self.wanted, answers)
        return Context(
            wanted=self.wanted,
            answers=answers,
            session=self.session,
            node=self.session,
            release=release,
            progress=lambda phase, detail="", fraction=None: None,
            log=self.notes.append,
            evidence=self.evidence,
            base_url=lambda: base_url,
        )

    def environment(self, answers: Answers, real: Path | None = None) -> Path:
        """The wanted environment: a real one linked in, or one with just the tests' Python."""
        key = release_paths(self.wanted, answers).environment_key
        place = self.root / "environments" / key
        place.parent.mkdir(parents=True, exist_ok=True)
        if real is not None:
            place.symlink_to(real)
        elif not place.exists():
            python = place / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
            python.chmod(0o755)
        return place

    def run(self, step: Step, *others: Step) -> tuple[Plan, Evidence]:
        """Plan one step from fresh answers, and carry it out."""
        answers = self.ask(step, *others)
        plan = step.plan(self.wanted, answers)
        context = self.context(answers)
        if plan.status == "change":
            step.apply(context, plan)
        evidence = plan.evidence if plan.status == "unchanged" else step.prove(context)
        self.evidence[step.name] = evidence
        return plan, evidence
