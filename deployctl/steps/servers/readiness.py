"""One start followed to its end, or to the reason why there is none."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from deployctl import cancel
from deployctl.errors import NotReady
from deployctl.hosts.session import Call
from deployctl.steps.interface import Context, Step
from deployctl.steps.measuring.gates import open_client
from deployctl.steps.models.loaded_drafter import loaded_drafter
from deployctl.steps.servers.process import identity, strangers
from deployctl.vllm.client.client import Request
from deployctl.vllm.client.outcome import RequestFailed
from deployctl.vllm.serving.failures import explain
from deployctl.vllm.serving.startup import Startup

POLL = 0.5
"""Seconds between two looks at a starting server."""
BUSY = 0.1
"""Share of one core above which a silent server counts as working: it compiles or captures."""
AFTERMATH = 8.0
"""Seconds within which an API server ends after its engine died (measured: 5 to 6)."""
KEPT_LOG = 1 << 20
TOKENS = 4


def reachable(host: str) -> str:
    """An address, as an URL has it, at which the host itself reaches what listens on `host`."""
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{address}]" if ":" in address else address


class Readiness:
    """Follows one start. Every outcome but readiness is a `NotReady` of its own."""

    def __init__(self, step: Step, context: Context) -> None:
        self.step, self.context = step, context
        self.profile = context.wanted.profile
        self.began = time.monotonic()
        self.startup = Startup()
        self.offset = 0
        self.text = ""
        self.cpu: float | None = None
        self.looked = self.progressed = self.began

    def prove(self) -> dict[str, Any]:
        """Until a completion has come back from the process that was started."""
        unit = self._until_listening()
        self._check_name()
        drafter = self._check_drafter(unit)
        completion = self._complete(unit)
        last, _ = self._look()
        if (last["pid"], last["start"]) != (unit["pid"], unit["start"]):
            raise self._failure("the server was restarted while it was asked", last)
        self.context.session.call("units.keep", name=self.profile.name, **identity(unit))
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

    def abandon(self) -> dict[str, Any] | None:
        """Stop a start that failed, so that it holds neither memory nor port. A server that was
        proven before is left: it may answer others although it did not answer us."""
        unit = self.context.session.call("units.state", name=self.profile.name)
        if unit.get("kept"):
            return None
        stopped: dict[str, Any] = self.context.session.call(
            "units.stop", name=self.profile.name, grace=self.profile.serve.stop_grace
        )
        return stopped

    # -- inside ------------------------------------------------------------------------------

    def _look(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The unit, which must run and be ours, and who holds the port, which must be the unit."""
        name, number = self.profile.name, self.profile.serve.port
        unit, port, log = self._ask(
            Call("units.state", {"name": name}),
            Call("network.listener", {"port": number}),
            Call("units.log", {"name": name, "offset": self.offset}),
        )
        self._take(log)
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

    def _ask(self, *calls: Call) -> list[Any]:
        answers = self.context.session.ask(calls)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def _until_listening(self) -> dict[str, Any]:
        ready = self.profile.serve.ready
        while True:
            unit, port = self._look()
            if port["holders"] and self._healthy(unit):
                return unit
            self._note_progress(unit)
            now = time.monotonic()
            phase = self.startup.phase
            if now - self.progressed > ready.stall:
                silent = f"{ready.stall:g} s without a log line or work"
                raise self._failure(f"it hangs in phase {phase}: {silent}", unit)
            if ready.limit is not None and now - self.began > ready.limit:
                raise self._failure(f"not ready within {ready.limit:g} s, phase {phase}", unit)
            cancel.sleep(POLL)
            # While this machine stood still, nobody looked: that is no silence of the server's.
            overslept = time.monotonic() - now - POLL
            self.looked += overslept
            self.progressed += overslept

    def _healthy(self, unit: Mapping[str, Any]) -> bool:
        serve = self.profile.serve
        url = f"http://{reachable(serve.host)}:{serve.port}/health"
        (answer,) = self._ask(Call("network.http", {"method": "GET", "url": url}))
        if answer["status"] == 503:
            self._read_log()
            raise self._failure("the engine died behind a live API server", unit)
        return bool(answer["status"] == 200)

    def _note_progress(self, unit: Mapping[str, Any]) -> None:
        """Processor time counts as progress: compiling and capturing print nothing for minutes."""
        now = time.monotonic()
        if self.cpu is None or unit["cpu"] - self.cpu > BUSY * (now - self.looked):
            self.progressed = now
        self.cpu, self.looked = unit["cpu"], now
        self.context.progress(self.startup.phase, self.startup.detail)

    def _take(self, log: Mapping[str, Any]) -> bool:
        if not log["text"]:
            return False
        self.offset = log["offset"]
        self.text = (self.text + log["text"])[-KEPT_LOG:]
        self.progressed = time.monotonic()
        self.startup.feed(log["text"], self.progressed - self.began)
        return True

    def _read_log(self) -> None:
        """All that the log has by now."""
        while self._take(
            self._ask(Call("units.log", {"name": self.profile.name, "offset": self.offset}))[0]
        ):
            pass

    def _check_name(self) -> None:
        wanted = self.profile.model.served_name
        with open_client(self.context) as client:
            try:
                names = client.models()
            except RequestFailed as error:
                raise self._refused("/v1/models", error) from error
        if wanted not in names:
            raise self._failure(f"it serves {', '.join(names) or 'nothing'}, not {wanted}")

    def _check_drafter(self, unit: Mapping[str, Any]) -> dict[str, Any] | None:
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

    def _complete(self, unit: Mapping[str, Any]) -> dict[str, Any]:
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
        if not answer.completion_tokens:
            raise self._failure("it answers and generates nothing: no tokens came back", unit)
        return {"seconds": round(answer.seconds, 3), "tokens": answer.completion_tokens}

    def _refused(self, what: str, error: RequestFailed) -> NotReady:
        """A request failed: wait for an engine that died to show, then say what is known."""
        if error.kind == "key":
            return self._failure(
                f"{what}: the server wants an API key",
                next="name its variable in the profile: serve.api_key: {env: VARIABLE}",
            )
        end = time.monotonic() + AFTERMATH
        while error.kind != "timeout" and time.monotonic() < end:
            try:
                unit, _ = self._look()
                self._healthy(unit)
            except NotReady as found:
                return found
            cancel.sleep(POLL)
        self._read_log()
        return self._failure(f"{what}: {error}")

    def _ended(self, unit: Mapping[str, Any], others: list[dict[str, Any]]) -> NotReady:
        status = unit["rc"]
        how = {None: "", 0: ", status 0 before anybody asked"}.get(status, f", status {status}")
        if status is not None and status < 0:
            how = f", killed by signal {-status}"
        if others and explain(self.text).cause in ("", "port-in-use"):
            return self._held(others[0], unit)
        return self._failure(f"the server ended: {unit['error'] or unit['state']}{how}", unit)

    def _held(self, who: Mapping[str, Any], unit: Mapping[str, Any]) -> NotReady:
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
        unit: Mapping[str, Any] | None = None,
        next: str = "",
        known: bool = True,
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
        why = [what, *said.lines] if named else list(said.lines)
        failure = self.step.fail(
            self.context,
            said.sentence if named else what,
            "\n".join(why),
            next or (said.next if named else "") or "read the server's log: deployctl logs",
            evidence,
        )
        assert isinstance(failure, NotReady)
        return failure
