"""Every failure that deployctl reports, and the exit code of each.

::

    DeployError                      1   internal error
    ├── InternalError                1   a bug of ours at one host, or of a command
    ├── UsageError                   2   the command line is wrong
    ├── ConfigError                  3   a profile, host file or playbook is invalid
    ├── HostError                    4   a host cannot be used
    │   ├── Unreachable                  no connection: name, route, port or time limit
    │   ├── AccessRefused                the host refuses every key that was offered
    │   ├── UnknownHostKey               the host's key is not in known_hosts
    │   ├── ChangedHostKey               the host's key differs from known_hosts
    │   ├── NoPython                     no usable python3 (3.9 or newer) there
    │   ├── ConnectionLost               the connection ended in the middle
    │   └── RemoteError                  the agent could not answer a request
    ├── LockHeld                     5   another run holds the lock: skipped
    ├── Interrupted                130   Ctrl-C, or the signal that ends a service
    └── StepError                    a step of a run failed on a host
        ├── StepBroken               1   the step itself is at fault: a bug of ours
        ├── StagingFailed            6   preflight, build, verify, fetch or drafter
        ├── NotReady                 7   clean, launch or ready
        ├── SmokeFailed              8
        ├── AcceptanceFailed         9
        └── Undecided               11   too little evidence for a verdict

Exit codes 0 (done or nothing to do) and 10 (failed and the previous release was restored) belong
to a run's outcome and have no class here.
"""

from __future__ import annotations

from typing import Any, ClassVar


class DeployError(Exception):
    """A failure in three lines: what failed, why, and what to do next.

    `why` carries the remote's own words or the tail of a log; `next` is one instruction, and
    `next_when_restored` replaces it where the previous release serves again.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, why: str = "", next: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.next = next
        self.next_when_restored = ""

    def __str__(self) -> str:
        return "\n".join(line for line in (self.what, self.why, self.next) if line)

    def parts(self) -> dict[str, str]:
        """Its three lines, for a document."""
        return {"what": self.what, "why": self.why, "next": self.next}


class InternalError(DeployError):
    """A bug of ours; its traceback is in a file, which `next` names."""


class UsageError(DeployError):
    """The command line asks for something that does not exist or contradicts itself."""

    exit_code = 2


class ConfigError(DeployError):
    """A profile, host file or playbook is invalid; the message names file, line, column and key."""

    exit_code = 3


class HostError(DeployError):
    """A host cannot be used; `host` is its name in the profile."""

    exit_code = 4

    def __init__(self, host: str, what: str, why: str = "", next: str = "") -> None:
        super().__init__(f"{host}: {what}", why, next)
        self.host = host


class Unreachable(HostError):
    """No connection within the time limits: the name, the route or the port."""


class AccessRefused(HostError):
    """The host was reached and refused every key that was offered."""


class UnknownHostKey(HostError):
    """The host's key is not in known_hosts; it is never accepted silently."""


class ChangedHostKey(HostError):
    """The host's key differs from the one in known_hosts."""


class NoPython(HostError):
    """The host has no python3, or one older than 3.9."""


class ConnectionLost(HostError):
    """The connection to the agent ended, or the host stopped answering, in the middle."""


class RemoteError(HostError):
    """The agent could not do what a request asked; `kind` is the agent's word for why."""

    def __init__(self, host: str, op: str, kind: str, message: str, detail: Any = None) -> None:
        super().__init__(host, f"{op}: {message}")
        self.op = op
        self.kind = kind
        self.message = message
        self.detail = detail


class LockHeld(DeployError):
    """Another run holds the lock of this profile on this host; nothing was touched."""

    exit_code = 5


class Interrupted(DeployError):
    """Somebody ended the run; the message says what serves now."""

    exit_code = 130


class StepError(DeployError):
    """A step failed on a host. `evidence` is what was measured until then, for the report."""

    def __init__(
        self,
        host: str,
        step: str,
        what: str,
        why: str = "",
        next: str = "",
        evidence: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{host}: {step}: {what}", why, next)
        self.host = host
        self.step = step
        self.thing = what
        self.evidence = evidence or {}


class StepBroken(StepError):
    """The step raised something that it must not: a bug of ours, reported with its traceback."""

    exit_code = 1


class StagingFailed(StepError):
    """Something beside the serving release could not be prepared or proven."""

    exit_code = 6


class NotReady(StepError):
    """The server does not serve: cleaning, launching or readiness failed."""

    exit_code = 7


class SmokeFailed(StepError):
    """The server answers, and an answer is wrong."""

    exit_code = 8


class AcceptanceFailed(StepError):
    """The drafter's measured acceptance is below its gate."""

    exit_code = 9


class Undecided(StepError):
    """There is too little evidence for a verdict: neither pass nor fail."""

    exit_code = 11
