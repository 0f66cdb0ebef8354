"""What moving names (a branch, a pull request, a model's revision) stand for, once a run.

Every host is asked in the round trip that asks everything else. The first that can resolve one
decides for all, so that hosts that were asked before and after a push build the same commit, and
one that cannot reach the repository learns it from another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deployctl import cancel
from deployctl.engine.connections.connect import Connected, ask
from deployctl.engine.connections.pool import Slots
from deployctl.engine.run.plan import questions
from deployctl.steps.interface import WHOLE_ANSWER, Answers, Deployment, Question, Step


class Resolution:
    """What was settled in one run, for the hosts that take part in it."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._settled: dict[str, Any] = {}
        self._asking = {*hosts}
        self._changed = threading.Condition()

    def propose(self, key: str, value: Any) -> None:
        """What a name resolved to on a host; the first one counts."""
        with self._changed:
            self._settled.setdefault(key, value)
            self._changed.notify_all()

    def asked(self, host: str) -> None:
        """This host has proposed all that it can, or takes no part any more."""
        with self._changed:
            self._asking.discard(host)
            self._changed.notify_all()

    def settled(self, key: str, slots: Slots) -> Any:
        """What a name stands for in this run; waits while a host may still answer. None where none
        can."""
        with self._changed:
            waits = self._open(key)
        if waits:
            with slots.given(), self._changed:
                cancel.wait_for(self._changed, lambda: not self._open(key))
        return self._settled.get(key)

    def _open(self, key: str) -> bool:
        return key not in self._settled and bool(self._asking)


def settle(
    resolution: Resolution,
    connected: Connected,
    steps: Sequence[Step],
    wanted: Deployment,
    asked: Mapping[str, Question[Any]],
    answers: Answers,
    slots: Slots,
) -> tuple[Deployment, Answers]:
    """Propose what this host resolved, and use what holds for all: the deployment with that, and
    the answers, some of them asked for once more."""
    own = {key: _told(question, answers) for key, question in asked.items() if question.moving}
    for key, value in own.items():
        if value is not None:
            resolution.propose(key, value)
    resolution.asked(wanted.host.name)
    found = {key: resolution.settled(key, slots) for key in own}
    wanted = replace(wanted, settled={key: value for key, value in found.items() if value})
    differing = [key for key, value in wanted.settled.items() if value != own[key]]
    whole = [key for key in differing if asked[key].moving == WHOLE_ANSWER]
    answers = answers.renewed(Answers({key: wanted.settled[key] for key in whole}))
    if len(whole) < len(differing):
        again = questions(steps, wanted)
        later, _ = ask(connected, {key: again[key] for key in differing if key not in whole})
        answers = answers.renewed(later)
    return wanted, answers


def _told(question: Question[Any], answers: Answers) -> Any:
    """What a moving name resolved to on a host; None where it could not be resolved."""
    answer = answers.get(question.key)
    if not answer or answer.get("commit") is None:
        return None
    return answer if question.moving == WHOLE_ANSWER else answer["commit"]
