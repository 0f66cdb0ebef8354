"""The clocks of a host and of this machine. Certificates, tokens and signatures depend on them."""

from __future__ import annotations

from collections.abc import Iterator

from deployctl.engine.inspect.checks.interface import There, found
from deployctl.engine.inspect.checks.machine import MACHINE
from deployctl.steps.gpus.finding import Finding, Verdict

WARNS, FAILS = 5.0, 300.0
"""Seconds: logs and reports no longer fit together; certificates and signatures are refused."""


def difference(host: float, asked: tuple[float, float]) -> float:
    """Seconds by which a host's clock is ahead, at least: 0 where the question was under way."""
    before, after = asked
    return host - after if host > after else min(0.0, host - before)


def judge(there: There) -> Iterator[Finding]:
    machine = there.answers.get(MACHINE)
    if machine is None:
        return
    seconds = difference(machine["time"], there.asked)
    if abs(seconds) < WARNS:
        yield found("clock", "ok", f"{seconds:+.1f} s")
        return
    say = f"the host's clock is {abs(seconds):.0f} s {'ahead' if seconds > 0 else 'behind'}"
    if abs(seconds) >= FAILS:
        say = f"{say}: certificates may be refused"
    verdict: Verdict = "failed" if abs(seconds) >= FAILS else "warning"
    lines = ("timedatectl set-ntp true", "timedatectl status")
    yield found("clock", verdict, f"{seconds:+.1f} s", f"{say}; set it", lines)
