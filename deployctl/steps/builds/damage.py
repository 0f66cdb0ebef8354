"""An environment that was proven whole and is not any more: found out, and its seal broken.

It stays as it is, since something may serve from it: the next build makes another one beside it.
"""

from __future__ import annotations

from deployctl.errors import ConnectionLost, RemoteError, StepError
from deployctl.hosts.operations import releases
from deployctl.steps.builds import environments
from deployctl.steps.builds.environments import SHIM, sealed
from deployctl.steps.interface import Context, Step
from deployctl.vllm.builds import completeness

REBUILT = "run: deployctl up (another one is built beside it)"


def in_base(base: str | None) -> str:
    """What to do about a base that somebody edited: another link of it is as it is."""
    return (
        f"install these distributions again in {base} (pip install --force-reinstall --no-deps "
        "NAME==VERSION), or choose another build.base"
    )


def break_seal(context: Context, problems: list[str]) -> None:
    """From now on the environment counts as never proven; the old seal is kept beside it."""
    key = context.release.environment_key
    context.session.call(releases.break_seal, key=key, why=problems)
    context.log(f"environment {key} is damaged: its seal is broken")


def blamed(step: Step, context: Context, failure: StepError) -> StepError:
    """The failure of a start, or the damage of its environment where that is incomplete.

    An environment that cannot be examined now is left out.
    """
    key = context.release.environment_key
    if not step.runs_release or sealed(context.answers, key) is None:
        return failure
    try:
        problems = _problems(context)
        if not problems:
            return failure
        break_seal(context, problems)
    except (RemoteError, ConnectionLost):
        return failure
    evidence = {**failure.evidence, "environment_problems": problems}
    why = "\n".join([*problems, f"this caused the failure: {failure.thing}"])
    return step.fail(
        context, f"environment {key} was damaged after it was proven", why, REBUILT, evidence
    )


def _problems(context: Context) -> list[str]:
    try:
        facts = environments.complete(context)
    except RemoteError as error:
        if error.kind != "no-environment":
            raise
        return [error.message]
    return completeness.record_problems(facts, SHIM)
