"""ready: the process that answers is the process that was started, and it generates."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from deployctl.errors import NotReady
from deployctl.steps.interface import (
    Answers,
    Change,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
)
from deployctl.steps.release import release_paths
from deployctl.vllm.client import Client, Request, RequestFailed
from deployctl.vllm.failures import explain
from deployctl.vllm.startup import Startup

POLL = 0.5
"""Seconds between two looks at a starting server."""
TOKENS = 4


class ReadyStep(Step):
    """Follows a start to its end: a completion from the very process that was started."""

    name = "ready"
    phase = "switch"
    failure = NotReady
    follows = ("launch",)

    def questions(self, wanted: Deployment) -> Sequence[Question]:
        serve = wanted.profile.serve
        url = f"http://{_reachable(serve.host)}:{serve.port}/v1/models"
        return [
            Question("unit", "units.state", {"name": wanted.profile.name}),
            Question("port", "network.listener", {"port": serve.port}),
            Question("health", "network.http", {"method": "GET", "url": url}),
        ]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        unit, port, health = answers["unit"], answers["port"], answers["health"]
        release = release_paths(wanted, answers).release
        if unit["state"] != "running" or unit["release"] != release:
            return Plan("change", (Change("readiness", unit["state"], "ready"),))
        strangers = _strangers(port, unit)
        if strangers or not port["holders"] or not unit["kept"]:
            return Plan("check", reason="it runs and was not proven")
        names = served_names(health)
        if wanted.profile.model.served_name not in names and health["status"] != 401:
            return Plan("check", reason=f"/v1/models says {names or health}")
        return Plan("unchanged", evidence={"pid": unit["pid"], "started": unit["started"]})

    def prove(self, context: Context) -> Evidence:
        return Readiness(self, context).prove()


def _reachable(host: str) -> str:
    """An address at which the host itself reaches what listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)


def served_names(answer: Mapping[str, Any]) -> list[str]:
    """The names in an answer of /v1/models; empty where it is no such answer."""
    try:
        return [str(one["id"]) for one in json.loads(answer.get("body") or "")["data"]]
    except (ValueError, KeyError, TypeError):
        return []


def _strangers(port: Mapping[str, Any], unit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Who holds the port without belonging to the unit."""
    ours = {(m["pid"], m["start"]) for m in unit["members"]}
    return [h for h in port["holders"] if (h["pid"], h["start"]) not in ours]


class Readiness:
    """One start followed to its end."""

    def __init__(self, step: ReadyStep, context: Context) -> None:
        self.step, self.context = step, context
        self.profile = context.wanted.profile
        self.began = time.monotonic()
        self.startup = Startup()
        self.offset = 0
        self.text = ""
        self.cpu = 0.0
        self.progressed = self.began

    def prove(self) -> Evidence:
        unit = self._until_listening()
        self._names()
        completion = self._completion(unit)
        unit = self._alive()
        self.context.session.call("units.keep", name=self.profile.name)
        seconds = time.monotonic() - self.began
        return {
            "pid": unit["pid"],
            "started": unit["started"],
            "release": unit["release"],
            "seconds": round(seconds, 2),
            "phases": self.startup.seconds(seconds),
            "completion": completion,
        }

    def _alive(self) -> dict[str, Any]:
        """The unit, running and of this release; a failure at once where it is not."""
        unit: dict[str, Any] = self.context.session.call("units.state", name=self.profile.name)
        if unit["state"] != "running" or unit["restarts"]:
            self._read_log()
            raise self._failure(f"the server ended: {unit['state']}, status {unit['rc']}", unit)
        if unit["release"] != self.context.release.release:
            raise self._failure(f"the unit runs release {unit['release']}", unit)
        return unit

    def _until_listening(self) -> dict[str, Any]:
        ready = self.profile.serve.ready
        while True:
            unit = self._alive()
            self._read_log()
            port = self.context.session.call("network.listener", port=self.profile.serve.port)
            strangers = _strangers(port, unit)
            if strangers:
                who = strangers[0]
                raise self._failure(
                    f"port {self.profile.serve.port} is held by pid {who['pid']} "
                    f"({who['command']}), not by the server that was started",
                    unit,
                    next="stop that program, or give the profile another serve.port",
                )
            if port["holders"] and self._healthy():
                return unit
            self._note_progress(unit)
            now = time.monotonic()
            if now - self.progressed > ready.stall:
                raise self._failure(
                    f"no progress for {ready.stall:g} s in phase {self.startup.phase}", unit
                )
            if ready.limit is not None and now - self.began > ready.limit:
                raise self._failure(f"not ready within {ready.limit:g} s", unit)
            time.sleep(POLL)

    def _healthy(self) -> bool:
        serve = self.profile.serve
        url = f"http://{_reachable(serve.host)}:{serve.port}/health"
        answer = self.context.session.call("network.http", method="GET", url=url)
        return bool(answer["status"] == 200)

    def _note_progress(self, unit: Mapping[str, Any]) -> None:
        """Processor time counts as progress: compiling and capturing print nothing for minutes."""
        if unit["cpu"] - self.cpu > POLL / 10:
            self.progressed = time.monotonic()
        self.cpu = unit["cpu"]
        self.context.progress(self.startup.phase, self.startup.detail)

    def _read_log(self) -> None:
        while True:
            part = self.context.session.call(
                "units.log", name=self.profile.name, offset=self.offset
            )
            if not part["text"]:
                return
            self.offset = part["offset"]
            self.text = (self.text + part["text"])[-1_000_000:]
            self.progressed = time.monotonic()
            self.startup.feed(part["text"], self.progressed - self.began)

    def _client(self) -> Client:
        key = self.profile.serve.api_key
        return Client(self.context.base_url(), os.environ.get(key.env) if key else None)

    def _names(self) -> None:
        with self._client() as client:
            try:
                names = client.models()
            except RequestFailed as error:
                raise self._failure(f"/v1/models: {error}") from error
        if self.profile.model.served_name not in names:
            wanted = self.profile.model.served_name
            raise self._failure(f"it serves {', '.join(names)}, not {wanted}")

    def _completion(self, unit: Mapping[str, Any]) -> dict[str, Any]:
        limit = self.profile.serve.ready.completion
        body = {
            "model": self.profile.model.served_name,
            "prompt": "def main():",
            "max_tokens": TOKENS,
            "temperature": 0,
        }
        with self._client() as client:
            try:
                answer = client.send(Request(body, limit, "completions"))
            except RequestFailed as error:
                self._read_log()
                raise self._failure(
                    f"it listens and generates nothing: {error}", self._alive()
                ) from error
        return {"seconds": round(answer.seconds, 3), "tokens": answer.completion_tokens}

    def _failure(
        self, what: str, unit: Mapping[str, Any] | None = None, next: str = ""
    ) -> NotReady:
        known = explain(self.text)
        evidence: Evidence = {
            "phase": self.startup.phase,
            "unit": unit and {k: unit.get(k) for k in ("state", "pid", "rc", "release")},
            "lines": known.lines,
            "cause": known.cause,
        }
        failure = self.step.fail(
            self.context,
            known.sentence or what,
            "\n".join(([what] if known.sentence else []) + list(known.lines)),
            next or known.next or "read the server's log: deployctl logs",
            evidence,
        )
        assert isinstance(failure, NotReady)
        return failure
