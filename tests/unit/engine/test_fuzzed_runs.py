"""Whole runs of `plan` and `up` with an agent that sends what no agent sends: ten thousand
messages, and each run ends, as exit code 4 where it was not understood."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deployctl.config.loader import load_playbook
from deployctl.config.playbook import Playbook
from deployctl.config.profile import Profile
from deployctl.engine.connections import connect
from deployctl.engine.inspect import history, status
from deployctl.engine.run import coordinator, plan
from deployctl.engine.run.options import Options
from deployctl.errors import HostError
from deployctl.hosts import session as sessions
from deployctl.hosts.session import Session
from deployctl.hosts.ways.local import LocalTransport
from deployctl.steps import registry
from deployctl.steps.interface import Deployment
from tests.unit.hosts.scripted_agent import HASTY, Message, ScriptedHost
from tests.unit.hosts.test_fuzzed_agent import ODD, Fuzz, _places

RUNS = 200
EACH = 50
"""Messages of a run: RUNS and EACH make ten thousand."""
HURRIED = replace(HASTY, start=0.2, ping=0.02, answer=0.05)
PROFILE = Profile.model_validate(
    {
        "name": "fuzzed",
        "hosts": [{"name": "liar", "local": True}],
        "model": {"path": "/nowhere", "served_name": "m"},
        "build": {"source": {"release": "0.33.0"}},
        "serve": {"port": 1},
    }
)
LEDGER = [
    {"kind": "begin", "run": "r1", "time": 1.0, "release": "a", "current": None, "pid": 1}
    | {"user": "u", "from": "h", "playbook": "up", "profile_digest": "d"},
    {"kind": "phase", "run": "r1", "time": 2.0, "release": "a", "phase": "staging"}
    | {"changed": ["fetch"], "step": "launch", "why": ""},
    {"kind": "end", "run": "r1", "time": 3.0, "release": "a", "outcome": "deployed"}
    | {"changed": ["launch"], "failed": [], "error": None, "without_service": 1.0, "gaps": []}
    | {"restored": None, "playbook": "up", "figures": {"tokens_per_second": 1.0}}
    | {"verdicts": {"acceptance": {"verdict": "pass", "asked": "x", "process": {}, "time": 3}}},
    {"kind": "begin", "run": "r2", "time": 4.0, "release": "b", "current": "a", "pid": 1}
    | {"user": "u", "from": "h", "playbook": "up", "profile_digest": "d"},
]
RELEASES = {
    "current": "a",
    "previous": None,
    "releases": {
        "a": {"release": "a", "identity": {"environment": "e"}, "skip": [], "evidence": {}}
        | {"wanted": {"name": "fuzzed"}, "profile_digest": "d", "time": 3.0}
    },
    "environments": {"e": {"key": "e", "evidence": {"build": {}, "verify": {}}, "knowledge": {}}},
    "broken": {"e": ["x.py is missing"]},
    "elsewhere": ["f"],
    "ledger": LEDGER,
}
WRITES = {"releases.lock": {"held": True}, "releases.record": {"recorded": True, "time": 1.0}}
QUESTIONS: dict[str, dict[str, Any]] = {
    "units.state": {"profile": "fuzzed", "unit": "server"},
    "network.listener": {"port": 1},
    "files.read": {"path": "@/nothing"},
}
"""What `status` asks beyond a plan."""
Answered = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def playbook() -> Playbook:
    return load_playbook("up", registry.options())


@pytest.fixture(scope="module")
def answered(playbook: Playbook, tmp_path_factory: pytest.TempPathFactory) -> Answered:
    """What a real agent of an empty host answers, by operation."""
    root = tmp_path_factory.mktemp("root")
    steps = [registry.steps()[item.step] for item in playbook.steps]
    asked = plan.questions(steps, Deployment(PROFILE, PROFILE.hosts[0]))
    found: Answered = {}
    with Session(LocalTransport("real"), root=str(root)) as session:
        for question in asked.values():
            (answer,) = session.ask((question.call,))
            failed = isinstance(answer, HostError)
            found[question.call.op] = (
                {"error": {"kind": "k", "message": str(answer), "detail": None}}
                if failed
                else {"value": answer}
            )
        for op, args in QUESTIONS.items():
            found[op] = {"value": session.call(op, **args)}
    told = {**WRITES, "releases.ledger": LEDGER, "releases.state": RELEASES}
    return {**found, **{op: {"value": value} for op, value in told.items()}}


class Liar:
    """Answers as the real agent did, but for what `how` makes of it."""

    def __init__(self, answered: Answered, seed: int, how: str) -> None:
        self._answered = answered
        self._how = how
        self._random = random.Random(seed)
        self._fuzz = Fuzz(seed)

    def script(self, message: Message) -> Iterable[Message | bytes]:
        if "calls" not in message:
            return
        if self._how == "noise":
            for _ in range(EACH):
                yield self._fuzz.message(message["id"])
            return
        results = [self._result(call["op"]) for call in message["calls"]]
        whole = {"id": message["id"], "results": results}
        for _ in range(EACH - 1):
            yield {"id": message["id"], "call": 0, "event": self._random.choice(({}, {"x": 1}))}
        pairs = zip(results, message["calls"], strict=True)
        typed = [result for result, call in pairs if call["op"] in vars(sessions)["RESULTS"]]
        places = list(_places(typed)) or [(whole, "id")]
        for _ in range(self._random.randrange(1, 4)):
            holder, key = self._random.choice(places)
            if isinstance(holder, dict) and self._random.random() < 0.3:
                holder.pop(key, None)
            elif isinstance(holder, dict) or key < len(holder):
                holder[key] = self._random.choice(ODD)
        yield whole

    def _result(self, op: str) -> dict[str, Any]:
        missing = {"error": {"kind": "no-such-operation", "message": op, "detail": None}}
        found: dict[str, Any] = json.loads(json.dumps(self._answered.get(op, missing)))
        return found


@pytest.fixture(params=["plan", "up", "status", "history"])
def command(
    request: pytest.FixtureRequest, playbook: Playbook, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """The exit code of a command against a liar."""
    monkeypatch.setattr(connect, "Session", partial(Session, limits=HURRIED))

    def ends(liar: Liar) -> int:
        monkeypatch.setattr(connect, "transport", lambda host: ScriptedHost(liar.script))
        try:
            if request.param == "up":
                return coordinator.run(PROFILE, playbook, Options()).exit_code
            looks: dict[str, Callable[[], list[dict[str, Any]]]] = {
                "plan": lambda: coordinator.survey(PROFILE, playbook, Options()),
                "status": lambda: status.survey(PROFILE)["hosts"],
                "history": lambda: history.ledger(PROFILE, 9)["hosts"],
            }
            (host,) = looks[request.param]()
            return int(host["error"]["exit_code"]) if host.get("error") else 0
        except HostError as error:
            return error.exit_code

    before = threading.active_count()
    yield ends
    assert threading.active_count() <= before


@pytest.mark.parametrize("how", ["noise", "wrong values"])
def test_every_run_ends(
    command: Any, answered: Answered, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    codes = [command(Liar(answered, seed, how)) for seed in range(RUNS // 8)]
    tracebacks = [path.read_text("utf-8") for path in tmp_path.glob("*.traceback")]
    assert 1 not in codes, tracebacks[:1]
    if how == "noise":
        assert codes.count(4) >= len(codes) - 1
    else:
        # A lie may be believed; whatever is not understood is a host that cannot be used.
        assert 4 in codes
