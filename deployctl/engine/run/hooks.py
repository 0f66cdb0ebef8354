"""The user's own commands before and after steps, here or on the host."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from tempfile import TemporaryFile
from typing import IO, Any, Literal

from deployctl import cancel
from deployctl.agent.core import inheritance
from deployctl.agent.wire.jobs import HookAnswer
from deployctl.config.hooks import HookSettings
from deployctl.config.playbook import Playbook
from deployctl.engine.ledger.record import RunRecord, StepRecord, outcome
from deployctl.errors import ConnectionLost, DeployError, RemoteError
from deployctl.hosts.operations import hooks
from deployctl.hosts.session import Session

When = Literal["before", "after"]
RUN = "run"
"""What the last hooks of a playbook stand around, in place of a step."""
KEPT = 4000
"""Characters of a command's output that a report keeps."""
KILLED_WITHIN = 10.0
"""Seconds to wait for a command that was killed; one that hangs in the kernel is left behind."""

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
        """The same for the rollback, which no hook may prevent."""
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
        over = [one for one in self.run.hosts if one.ended or one.host == host]
        word = outcome(over)[0] if step == RUN else "running"
        text = json.dumps({**self.render(self.run), "outcome": word}, default=str)
        extra = {
            "DEPLOYCTL_HOOK_RUN": self.run.run,
            "DEPLOYCTL_HOOK_PROFILE": self.run.profile,
            "DEPLOYCTL_HOOK_HOST": host,
            "DEPLOYCTL_HOOK_STEP": step,
            "DEPLOYCTL_HOOK_WHEN": when,
        }
        extra |= {name: os.environ[name] for name in hook.env if name in os.environ}
        here = hook.where == "here"
        answer = _here(hook, text, extra) if here else _there(hook, text, extra, session)
        said = {"run": list(hook.run), "where": hook.where, **answer}
        seconds = time.monotonic() - began
        name = f"{step}-{when}"
        if answer["rc"] == 0:
            return StepRecord(name, "passed", seconds, said, hook=True)
        what = f"hook {when} {step} failed: {' '.join(hook.run)}"
        how = "it did not end in time" if answer["rc"] is None else f"status {answer['rc']}"
        why = "\n".join(part for part in (how, answer["errors"].strip()) if part)
        if failure is None or not hook.required:
            reason = f"{what}; not required"
            return StepRecord(name, "failed", seconds, said, reason=reason, hook=True)
        error = failure(what, why)
        return StepRecord(name, "failed", seconds, said, error=error, hook=True)


def _here(hook: HookSettings, text: str, extra: Mapping[str, str]) -> HookAnswer:
    """Run a command on this machine. It is given files, not pipes: what it leaves running in the
    background would keep those open, and what it prints is not held in memory."""
    program = shutil.which(hook.run[0])
    if program is None:
        return {"rc": 127, "output": "", "errors": f"there is no program {hook.run[0]} here"}
    with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as errors:
        given.write(text.encode("utf-8"))
        given.seek(0)
        try:
            child = subprocess.Popen(
                [program, *hook.run[1:]],
                stdin=given,
                stdout=output,
                stderr=errors,
                env={**inheritance.kept(os.environ, inheritance.BUILD), **extra},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return {"rc": 126, "output": "", "errors": f"it cannot be started: {error}"}
        rc = _ended(child, hook.timeout)
        return {"rc": rc, "output": _tail(output), "errors": _tail(errors)}


def _ended(child: subprocess.Popen[bytes], timeout: float) -> int | None:
    """The status of a command; None where its time was over and it had to be ended."""
    try:
        with cancel.waking(lambda: _kill(child)):
            rc = child.wait(timeout)
        cancel.check()
        return rc
    except BaseException as error:
        _kill(child)
        with suppress(subprocess.TimeoutExpired):
            child.wait(KILLED_WITHIN)
        if isinstance(error, subprocess.TimeoutExpired):
            return None
        raise


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _tail(file: IO[bytes]) -> str:
    """The last characters of what was printed."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - 4 * KEPT))
    return file.read(4 * KEPT).decode("utf-8", "replace")[-KEPT:]


def _there(
    hook: HookSettings, text: str, extra: Mapping[str, str], session: Session | None
) -> HookAnswer:
    if session is None:
        return {"rc": None, "output": "", "errors": "the host is not reached"}
    try:
        return session.call(
            hooks.run, argv=list(hook.run), text=text, timeout=hook.timeout, env=dict(extra)
        )
    except (RemoteError, ConnectionLost) as error:
        return {"rc": 127, "output": "", "errors": error.what}
