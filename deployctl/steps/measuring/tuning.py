"""Start the candidates of a tuning one after the other, and ask each the same requests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from deployctl.config.checks import AcceptanceSettings
from deployctl.errors import RemoteError, Undecided
from deployctl.steps.builds import built
from deployctl.steps.interface import Context, Evidence, Step
from deployctl.steps.servers import plain_server, siblings
from deployctl.steps.servers.client import open_client
from deployctl.steps.servers.plain_server import SPECULATION
from deployctl.vllm.client import load, prompt_sets
from deployctl.vllm.client.client import Client
from deployctl.vllm.counters.metrics import Counters, Restarted, difference
from deployctl.vllm.tuning import choice, race, speeds
from deployctl.vllm.tuning.choice import SCHEDULE, Candidate, Level
from deployctl.vllm.tuning.race import Race, Unusable
from deployctl.vllm.tuning.speeds import Series

VALUES = (0, 1, 3, 5, 7)
CONCURRENCIES = (1, 4)
REQUESTS = 32
ADVICE = "see the candidate's options: deployctl plan, deployctl explain"


@dataclass
class Tuning:
    """One measurement. `values` begins with the serving number of draft tokens."""

    step: Step
    context: Context
    values: tuple[int, ...]
    concurrencies: tuple[int, ...]
    requests: int
    confidence: float
    beside: bool
    candidates: dict[int, list[Candidate]] = field(default_factory=dict)
    """By concurrency, in the order in which they were measured."""
    failed: dict[int, str] = field(default_factory=dict)
    """Why a candidate could not be measured."""

    @property
    def current(self) -> int:
        """The serving number of draft tokens."""
        return self.values[0]

    def measured(self) -> Evidence:
        """Every candidate, and the serving one a second time at the end. Raises `Undecided` where
        the serving one itself cannot be measured."""
        beside = [*self.context.answers[siblings.UNITS]]
        plain_server.remove_left_over(self.context, beside)
        argv = plain_server.launched(self.context)["argv"]
        if SPECULATION not in argv:
            raise self._undecided(
                "the server was not started with --speculative-config",
                "a server that was adopted may have it in another form",
            )
        before = self._served_tokens()
        self.candidates = {concurrency: [] for concurrency in self.concurrencies}
        for value in self.values:
            for concurrency, found in self._candidate(argv, value).items():
                self.candidates[concurrency].append(found)
        if self.current in self.failed:
            raise self._undecided(
                f"the serving value {self.current} could not be measured", self.failed[self.current]
            )
        again = self._candidate(argv, self.current, second=True)
        self.failed.pop(self.current, None)
        return self._evidence(
            {concurrency: one.series for concurrency, one in again.items()},
            _meanwhile(before, self._served_tokens()),
        )

    # -- one candidate -----------------------------------------------------------------------

    def _candidate(
        self, argv: Sequence[str], value: int, second: bool = False
    ) -> dict[int, Candidate]:
        """What was measured of one value, by concurrency; why not is in `failed`."""
        called = f"with {value} draft tokens" if value else "without speculation"
        own = with_tokens(argv, value, value == self.current)
        with ExitStack() as stack:
            server = plain_server.second_server(self.context, self.step.name, own, called, ADVICE)
            try:
                client = stack.enter_context(server)
                return self._asked(client, value, called, whole=value == self.current or second)
            except Unusable as error:
                self.failed[value] = str(error)
            except Undecided as error:
                self.failed[value] = f"{error.what}: {error.why}" if error.why else error.what
        self.context.log(f"{called}: {self.failed[value]}")
        return {}

    def _asked(self, client: Client, value: int, called: str, whole: bool) -> dict[int, Candidate]:
        profile = self.context.wanted.profile
        settings = profile.acceptance or AcceptanceSettings()
        asked = load.Load(
            profile.model.served_name,
            prompt_sets.load(settings.prompts).prompts,
            self.concurrencies,
            self.requests,
            settings.max_tokens,
            settings.timeout,
        )
        bodies = load.request_bodies(client, asked)
        found: dict[int, Candidate] = {}
        for concurrency in self.concurrencies:

            def show(
                done: int, speed: float | None, called: str = f"{called}, {concurrency} at once"
            ) -> None:
                at = "" if speed is None else f", {speed:.1f} tokens/s"
                text = f"{done} of {self.requests} requests{at}"
                self.context.progress(called, text, done / self.requests)

            leader = None
            if not whole:
                leader = race.fastest(self.candidates[concurrency], concurrency)
            each = speeds.shared(self.confidence, len(self.values) - 1)
            of = Race(bodies, concurrency, each)
            found[concurrency] = race.measure(client, of, value, leader, show)
        return found

    # -- what came of it ---------------------------------------------------------------------

    def _evidence(self, again: dict[int, Series], others: int | None) -> Evidence:
        levels = [
            choice.judged(
                Level(concurrency, self.current, candidates, again.get(concurrency)),
                self.confidence,
            )
            for concurrency, candidates in self.candidates.items()
        ]
        values = choice.chosen(levels, self.current)
        known = built.knowledge(self.context).knows_key(SCHEDULE)
        return {
            "release": self.context.release.release,
            "current": self.current,
            "beside": self.beside,
            "requests": self.requests,
            "confidence": self.confidence,
            "levels": levels,
            "failed": [{"value": value, "why": why} for value, why in self.failed.items()],
            "other_tokens": others,
            "chosen": [{"concurrency": c, "value": value} for c, value in values.items()],
            "propose": choice.proposal(values, self.current, bool(known)),
            "profile": self.context.wanted.profile.name,
        }

    def _served_tokens(self) -> Counters | None:
        """What the serving release has counted, where it runs beside the candidates."""
        if not self.beside:
            return None
        with suppress(RemoteError), open_client(self.context) as client:
            return load.read_counters(client)
        return None

    def _undecided(self, what: str, why: str) -> Undecided:
        host = self.context.wanted.host.name
        return Undecided(host, self.step.name, what, why, "fix the cause shown above and retry")


def with_tokens(argv: Sequence[str], tokens: int, current: bool) -> list[str]:
    """A server's command line with another number of draft tokens, 0 for no speculation. The
    serving number's stays as it is: with its schedule by batch size, where it has one."""
    if current:
        return list(argv)
    if not tokens:
        return plain_server.without_speculation(argv)
    made = list(argv)
    at = made.index(SPECULATION) + 1
    document = json.loads(made[at])
    document["num_speculative_tokens"] = tokens
    document.pop(SCHEDULE, None)
    made[at] = json.dumps(document)
    return made


def _meanwhile(before: Counters | None, after: Counters | None) -> int | None:
    """Tokens that the serving release made for its clients; None where that is not known."""
    with suppress(Restarted):
        if before is not None and after is not None:
            return difference(before, after).generation_tokens
    return None
