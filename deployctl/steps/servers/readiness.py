"""One start followed to its end, or to the reason why there is none."""

from __future__ import annotations

import time
from typing import Any

from deployctl import cancel
from deployctl.agent.wire.answers import Listener, LogPart, Process, UnitState, UnitStopped
from deployctl.errors import NotReady
from deployctl.hosts import operations
from deployctl.hosts.operations import gpu, network, units
from deployctl.hosts.session import Call, known
from deployctl.steps.gpus import profile_gpus
from deployctl.steps.interface import Context, Step
from deployctl.steps.member import SEE, TOGETHER, PeerFailed, first_to_fail
from deployctl.steps.models.loaded_drafter import loaded_drafter
from deployctl.steps.servers import sleeping
from deployctl.steps.servers.client import open_client
from deployctl.steps.servers.effort import Effort
from deployctl.steps.servers.process import identity, strangers
from deployctl.steps.servers.rendezvous import READY, Rendezvous
from deployctl.steps.servers.stopping import base_url, stop_unit
from deployctl.vllm.client.client import Request
from deployctl.vllm.client.outcome import RequestFailed
from deployctl.vllm.logs.phases import Startup
from deployctl.vllm.logs.server import explain

POLL, STEP = 0.5, 0.1
"""Seconds between two looks at a starting server, and between two questions whether it answers."""
GPU_LOOKS = 4
"""Looks at GPU memory within the time after which a server without progress counts as hung."""
EXIT_AFTER_ENGINE = 8.0
"""Seconds within which an API server ends after its engine died (measured: 5 to 6)."""
KEPT_LOG = 1 << 20
TOKENS = 4
CONNECT = "see whether the hosts reach each other: deployctl plan, and the logs of all ranks"


class Readiness:
    """Follows one start. Every outcome but readiness is a `NotReady` of its own."""

    def __init__(self, step: Step, context: Context) -> None:
        self.step, self.context = step, context
        self.profile, self.unit_id = context.wanted.profile, context.wanted.unit_id
        self.began = time.monotonic()
        self.startup = Startup()
        self.rendezvous = Rendezvous(context)
        self.offset = 0
        self.text = ""
        self.effort = Effort(self.began)
        self.gpu_looked = self.began
        self.health = ""
        """What /health answered last, where that was not 200."""
        self.asked = False
        """Whether a request of ours has reached it."""

    def prove(self) -> dict[str, Any]:
        """Until a completion has come back from the process that was started."""
        try:
            unit = self._until_listening()
        except PeerFailed as error:
            raise self._lost(error) from error
        self._check_name()
        drafter = self._check_drafter(unit)
        completion = self._complete(unit)
        self._check_guard(unit)
        last, _ = self._look()
        if (last["pid"], last["start"]) != (unit["pid"], unit["start"]):
            raise self._failure("the server restarted during the check", last)
        self.context.session.call(units.keep, **self.unit_id, **identity(unit))
        self.context.peers.tell(READY, READY)
        seconds = time.monotonic() - self.began
        return {
            **identity(unit),
            "started": unit["started"],
            "release": unit["release"],
            "kind": unit["kind"],
            "seconds": round(seconds, 2),
            "phases": self.startup.seconds(seconds),
            "drafter": drafter,
            "completion": completion,
        }

    def abandon(self) -> UnitStopped | None:
        """Stop a start that failed, so that it holds neither memory nor port. A server that was
        proven before is left: it may answer others although it did not answer us."""
        unit = self.context.session.call(units.state, **self.unit_id)
        if unit.get("kept"):
            return None
        return stop_unit(self.context.session, self.context.wanted)

    # -- inside ------------------------------------------------------------------------------

    def _look(self) -> tuple[UnitState, Listener]:
        """The unit, which must run and be ours, and who holds the port, which must be the unit."""
        number = self.profile.serve.port
        unit, port, log = self.context.session.ask(
            (
                Call(units.state, **self.unit_id),
                Call(network.listener, port=number),
                Call(units.log, **self.unit_id, offset=self.offset),
            )
        )
        unit, port = known(unit), known(port)
        self._take(known(log))
        if unit["state"] != "running":
            self._read_log()
            raise self._ended(unit, strangers(port, unit))
        if unit["restarts"] and not unit["kept"]:
            raise self._failure("the server ended and was started again", unit)
        if unit["release"] != self.context.release.release:
            raise self._failure(f"the unit runs another release, {unit['release']}", unit)
        others = strangers(port, unit)
        if others:
            raise self._held(others[0], unit)
        return unit, port

    def _until_listening(self) -> UnitState:
        ready = self.profile.serve.ready
        while True:
            unit, port = self._look()
            if port["holders"] and self._healthy(unit):
                return unit
            self._note_progress(unit)
            missing, why = self.rendezvous.overdue()
            if missing:
                raise self._failure(missing, unit, next=CONNECT, why=why, known=False)
            now = time.monotonic()
            phase = f"phase {self.startup.phase}{self.health}"
            if now - self.effort.since > ready.stall:
                silent = f"{ready.stall:g} s without a new phase or work of its own"
                raise self._failure(f"it hangs in {phase}: {silent}", unit)
            if ready.limit is not None and now - self.began > ready.limit:
                raise self._failure(f"not ready within {ready.limit:g} s, {phase}", unit)
            self._pause()
            # While this machine stood still, nothing was checked: that does not count as silence of
            # the server.
            self.effort.overslept(max(0.0, time.monotonic() - now - POLL))

    def _pause(self) -> None:
        """Until the next look, or until it answers: clients wait for it."""
        url, end = f"{base_url(self.profile)}/health", time.monotonic() + POLL
        while time.monotonic() < end:
            cancel.sleep(STEP)
            answer = self.context.session.call(network.http, method="GET", url=url, timeout=STEP)
            if answer["status"] is not None:
                return

    def _lost(self, error: PeerFailed) -> NotReady:
        """Another rank failed: the one that fails first is the one to look at."""
        member = self.context.wanted.member
        assert member is not None, "it has other ranks"
        return self._failure(first_to_fail(member, error), next=SEE, why=TOGETHER, known=False)

    def _healthy(self, unit: UnitState) -> bool:
        url = f"{base_url(self.profile)}/health"
        answer = self.context.session.call(network.http, method="GET", url=url)
        if answer["status"] == 503:
            self._read_log()
            raise self._failure("the engine died behind a live API server", unit)
        status = answer["status"]
        self.health = "" if status in (None, 200) else f" (/health answers {status})"
        return bool(status == 200)

    def _note_progress(self, unit: UnitState) -> None:
        """What it works counts, not what it writes: compiling prints nothing for minutes, and a
        server that only answers our own questions prints all the while."""
        now = time.monotonic()
        moved = unit.get("io") or {}
        self.effort.look(
            now,
            cpu=unit["cpu"],
            read=moved.get("read"),
            written=moved.get("written"),
            log=self.offset,
            gpu=self._gpu_memory(unit, now),
        )
        self.context.progress(self.startup.phase, self.startup.detail)

    def _gpu_memory(self, unit: UnitState, now: float) -> float | None:
        """MiB that the server holds on GPUs, asked seldom and only while nothing else moves."""
        pause = self.profile.serve.ready.stall / GPU_LOOKS
        idle = now - max(self.effort.since, self.gpu_looked)
        if not profile_gpus.uses_gpus(self.context.wanted) or idle < pause:
            return None
        self.gpu_looked = now
        state = self.context.session.call(gpu.state)
        members = {member["pid"] for member in unit["members"]}
        held = [row["memory"] or 0 for row in state["apps"] if row["pid"] in members]
        return float(sum(held))

    def _take(self, log: LogPart) -> bool:
        self.rendezvous.look(log["text"], self.startup.phase)
        if not log["text"]:
            return False
        self.offset = log["offset"]
        self.text = (self.text + log["text"])[-KEPT_LOG:]
        now = time.monotonic()
        if self.startup.feed(log["text"], now - self.began):
            self.effort.spoke(now)
        return True

    def _read_log(self) -> None:
        """All that the log has by now."""
        session = self.context.session
        while self._take(session.call(units.log, **self.unit_id, offset=self.offset)):
            pass

    def _check_name(self) -> None:
        wanted = self.profile.model.served_name
        self.asked = True
        with open_client(self.context) as client:
            try:
                names = client.models()
            except RequestFailed as error:
                raise self._refused("/v1/models", error) from error
        if wanted not in names:
            raise self._failure(f"it serves {', '.join(names) or 'nothing'}, not {wanted}")

    def _check_drafter(self, unit: UnitState) -> dict[str, Any] | None:
        """The config on disk is still the one that was proven, and the one that was read."""
        self._read_log()
        found = loaded_drafter(self.context, self.text)
        if found is None:
            return None
        if found.problem:
            raise self._failure(found.problem, unit, next="run again", known=False)
        if found.note:
            self.context.log(found.note)
        return found.evidence

    def _check_guard(self, unit: UnitState) -> None:
        """Control endpoints answer with their key alone."""
        if not sleeping.guard(unit["argv"]):
            return
        found = self.context.session.call(operations.sleeping.guarded, **self.unit_id)
        if found != {"without_key": 404, "with_key": 200}:
            raise self._failure(
                f"its control endpoints are not guarded: without their key /is_sleeping answers "
                f"{found['without_key']}, with it {found['with_key']}",
                unit,
                next="set switch.strategy: recreate, and please report it",
                known=False,
            )

    def _complete(self, unit: UnitState) -> dict[str, Any]:
        body = {
            "model": self.profile.model.served_name,
            "prompt": "def main():",
            "max_tokens": TOKENS,
            "temperature": 0,
        }
        request = Request(body, self.profile.serve.ready.completion, "completions")
        with open_client(self.context) as client:
            try:
                answer = client.send(request)
            except RequestFailed as error:
                raise self._refused("it listens and generates nothing", error) from error
        # A server need not count its tokens; text is proof as well.
        text = bool(answer.content or answer.reasoning)
        if not answer.completion_tokens and not (answer.completion_tokens is None and text):
            raise self._failure("it answers and generates nothing: no tokens came back", unit)
        return {"seconds": round(answer.seconds, 3), "tokens": answer.completion_tokens}

    def _refused(self, what: str, error: RequestFailed) -> NotReady:
        """A request failed: wait for an engine that died to show, then say what is known."""
        if error.kind == "key":
            return self._failure(
                f"{what}: the server wants an API key",
                next="name its variable in the profile: serve.api_key: {env: VARIABLE}",
            )
        end = time.monotonic() + EXIT_AFTER_ENGINE
        while error.kind != "timeout" and time.monotonic() < end:
            try:
                unit, _ = self._look()
                self._healthy(unit)
            except NotReady as found:
                return found
            cancel.sleep(POLL)
        self._read_log()
        again = "start it again: deployctl run redeploy" if self._kept() else ""
        return self._failure(f"{what}: {error}", next=again)

    def _kept(self) -> bool:
        """Whether it is a server that was proven before: then it is left as it is."""
        unit = self.context.session.call(units.state, **self.unit_id)
        return unit.get("kept", False)

    def _ended(self, unit: UnitState, others: list[Process]) -> NotReady:
        first = self.rendezvous.blamed(unit)
        if first:
            return self._failure(first, unit, next=SEE, why=TOGETHER, known=False)
        status = unit["rc"]
        early = "after a request of ours" if self.asked else "before any request"
        how = {None: "", 0: f", status 0 {early}"}.get(status, f", status {status}")
        if status is not None and status < 0:
            how = f", killed by signal {-status}"
        if others and explain(self.text).cause in ("", "port-in-use"):
            return self._held(others[0], unit)
        return self._failure(f"the server ended: {unit['error'] or unit['state']}{how}", unit)

    def _held(self, who: Process, unit: UnitState) -> NotReady:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(who["started"]))
        return self._failure(
            f"port {self.profile.serve.port} is held by pid {who['pid']} ({who['command']}), "
            f"started {since}, which is not the server that was started (pid {unit['pid']})",
            unit,
            next="stop that program, or give the profile another serve.port",
            known=False,
        )

    def _failure(
        self,
        what: str,
        unit: UnitState | None = None,
        next: str = "",
        known: bool = True,
        why: str = "",
    ) -> NotReady:
        said = explain(self.text)
        named = known and bool(said.sentence)
        evidence: dict[str, Any] = {
            "phase": self.startup.phase,
            "seconds": round(time.monotonic() - self.began, 2),
            "unit": unit and {k: unit.get(k) for k in ("state", "pid", "rc", "release")},
            "outcome": what,
            "cause": said.cause if known else "",
            "lines": list(said.lines),
        }
        reasons = [what, *said.lines] if named else [why] if why else list(said.lines)
        failure = self.step.fail(
            self.context,
            said.sentence if named else what,
            "\n".join(reasons),
            next or (said.next if named else "") or "read the server's log: deployctl logs",
            evidence,
        )
        assert isinstance(failure, NotReady)
        return failure
