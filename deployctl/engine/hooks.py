"""The user's own commands before and after steps, here or on the host."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from deployctl.config.hooks import HookSettings
from deployctl.config.playbook import Playbook
from deployctl.engine.record import RunRecord, StepRecord, outcome
from deployctl.errors import ConnectionLost, DeployError, RemoteError
from deployctl.hosts.session import Session

When = Literal["before", "after"]
RUN = "run"
"""What the last hooks of a playbook stand around, in place of a step."""
KEPT = 4000
"""Characters of a command's output that a report keeps."""

Render = Callable[[RunRecord], Mapping[str, Any]]
Failure = Callable[[str, str], DeployError]
"""Makes a step's own failure from what failed and why."""


@dataclass(frozen=True)
class Hooks:
    """A playbook's hooks in one run. `render` makes the report's document of what is known yet."""

    run: RunRecord
    render: Render
    steps: Mapping[tuple[str, When], Sequence[HookSettings]] = field(default_factory=dict)
    final: Sequence[HookSettings] = ()

    @classmethod
    def of(cls, playbook: Playbook, run: RunRecord, render: Render) -> Hooks:
        """The hooks of a playbook's steps."""
        steps: dict[tuple[str, When], Sequence[HookSettings]] = {}
        for item in playbook.steps:
            steps[item.step, "before"] = item.before
            steps[item.step, "after"] = item.after
        return cls(run, render, steps, playbook.after)

    def lenient(self) -> Hooks:
        """The same for the way back, which no hook may prevent."""
        steps = {
            place: [hook.model_copy(update={"required": False}) for hook in hooks]
            for place, hooks in self.steps.items()
        }
        return replace(self, steps=steps)

    def around(
        self, when: When, step: str, host: str, session: Session, failure: Failure
    ) -> list[StepRecord]:
        """Run a step's hooks in order; the last record has an error if a required one failed."""
        records = []
        for hook in self.steps.get((step, when), ()):
            records.append(self._one(hook, when, step, host, session, failure))
            if records[-1].error is not None:
                break
        return records

    def finish(self, host: str, session: Session | None) -> list[StepRecord]:
        """The playbook's last hooks, whatever happened; on the host only while it is reached."""
        return [self._one(hook, "after", RUN, host, session, None) for hook in self.final]

    def _one(
        self,
        hook: HookSettings,
        when: When,
        step: str,
        host: str,
        session: Session | None,
        failure: Failure | None,
    ) -> StepRecord:
        began = time.monotonic()
        word = outcome(self.run.hosts)[0] if step == RUN else "running"
        text = json.dumps({**self.render(self.run), "outcome": word}, default=str)
        extra = {
            "DEPLOYCTL_HOOK_RUN": self.run.run,
            "DEPLOYCTL_HOOK_PROFILE": self.run.profile,
            "DEPLOYCTL_HOOK_HOST": host,
            "DEPLOYCTL_HOOK_STEP": step,
            "DEPLOYCTL_HOOK_WHEN": when,
        }
        said = (
            _here(hook, text, extra) if hook.where == "here" else _there(hook, text, extra, session)
        )
        said = {"run": list(hook.run), "where": hook.where, **said}
        seconds = time.monotonic() - began
        name = f"{step}-{when}"
        if said["rc"] == 0:
            return StepRecord(name, "passed", seconds, said, hook=True)
        what = f"hook {when} {step} failed: {' '.join(hook.run)}"
        how = "it did not end in time" if said["rc"] is None else f"status {said['rc']}"
        why = "\n".join(part for part in (how, str(said["errors"]).strip()) if part)
        if failure is None or not hook.required:
            reason = f"{what}; not required"
            return StepRecord(name, "failed", seconds, said, reason=reason, hook=True)
        error = failure(what, why)
        return StepRecord(name, "failed", seconds, said, error=error, hook=True)


def _here(hook: HookSettings, text: str, extra: Mapping[str, str]) -> dict[str, Any]:
    program = shutil.which(hook.run[0])
    if program is None:
        return {"rc": 127, "output": "", "errors": f"there is no program {hook.run[0]} here"}
    child = subprocess.Popen(
        [program, *hook.run[1:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, **extra},
        start_new_session=True,
    )
    rc: int | None
    try:
        output, errors = child.communicate(text, timeout=hook.timeout)
        rc = child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        output, errors = child.communicate()
        rc = None
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        raise
    return {"rc": rc, "output": output[-KEPT:], "errors": errors[-KEPT:]}


def _there(
    hook: HookSettings, text: str, extra: Mapping[str, str], session: Session | None
) -> dict[str, Any]:
    if session is None:
        return {"rc": None, "output": "", "errors": "the host is not reached"}
    try:
        said: dict[str, Any] = session.call(
            "hooks.run", argv=list(hook.run), text=text, timeout=hook.timeout, env=dict(extra)
        )
    except (RemoteError, ConnectionLost) as error:
        return {"rc": 127, "output": "", "errors": error.what}
    return said
