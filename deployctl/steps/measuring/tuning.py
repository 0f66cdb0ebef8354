"""Start the candidates of a tuning one after the other, and ask each the same requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field

from deployctl.cancel import Cancelled
from deployctl.config.checks import AcceptanceSettings
from deployctl.errors import Undecided
from deployctl.steps.builds import built
from deployctl.steps.interface import Context, Evidence, Step
from deployctl.steps.servers import plain_server, siblings
from deployctl.steps.servers.client import open_client
from deployctl.steps.servers.plain_server import SPECULATION
from deployctl.vllm.client import load, prompt_sets
from deployctl.vllm.client.client import Client, Request
from deployctl.vllm.tuning import choice, race, speeds
from deployctl.vllm.tuning.choice import SCHEDULE, Candidate, Level
from deployctl.vllm.tuning.race import Race, Unusable
from deployctl.vllm.tuning.speeds import Series

VALUES = (0, 1, 3, 5, 7)
CONCURRENCIES = (1, 4)
ROUNDS = 48
ADVICE = "see the candidate's options: deployctl plan, deployctl explain"


@dataclass
class Tuning:
    """One measurement. `values` begins with the serving number of draft tokens."""

    step: Step
    context: Context
    values: tuple[int, ...]
    concurrencies: tuple[int, ...]
    rounds: int
    confidence: float
    beside: bool
    candidates: dict[int, list[Candidate]] = field(default_factory=dict)
    """By concurrency, in the order in which they were measured."""
    failed: dict[int, str] = field(default_factory=dict)
    """Why a candidate could not be measured."""
    serving: Client | None = None
    """What serves, where that runs beside the candidates."""
    under_way: dict[int, Candidate] = field(default_factory=dict)
    """What was measured of the candidate under way, by concurrency."""
    started: int = 0
    """How many servers were started."""

    @property
    def current(self) -> int:
        """The serving number of draft tokens."""
        return self.values[0]

    def measured(self) -> Evidence:
        """Every candidate against what serves; in its place, against the serving value at the
        beginning and the end. Raises `Undecided` where there is nothing to compare."""
        beside = [*self.context.answers[siblings.UNITS]]
        plain_server.remove_left_over(self.context, beside)
        argv = plain_server.launched(self.context)["argv"]
        missing = [option for option in (SPECULATION, "--port") if option not in argv]
        if missing:
            raise self._undecided(
                f"the server was not started with {' and '.join(missing)}",
                "a server that was adopted may have it in another form",
            )
        with open_client(self.context) if self.beside else nullcontext() as serving:
            self.serving = serving
            self.candidates = {concurrency: [] for concurrency in self.concurrencies}
            self.context.log(self._ahead())
            try:
                again = self._in_turn(argv)
            except Cancelled:
                self.context.so_far.update(self.so_far())
                raise
        return self._evidence(again)

    def _ahead(self) -> str:
        """What is going to be started, in a line."""
        values = self.values[1:] if self.beside else (*self.values, self.current)
        starts = len(values) if self.beside else len(values) + 1
        numbers = ", ".join(map(str, values))
        if self.beside:
            return f"{starts} server starts beside what serves, with {numbers} draft tokens"
        return f"{starts} server starts: with {numbers} draft tokens, then what served"

    def so_far(self) -> Evidence:
        """What an interrupted measurement has found; nothing is proposed from it."""
        for concurrency, one in self.under_way.items():
            self._take(concurrency, one)
        return {**self._evidence({}), "complete": False, "propose": []}

    def _in_turn(self, argv: Sequence[str]) -> dict[int, Candidate]:
        """Measure every candidate; the serving value's second measurement, by concurrency."""
        for value in self.values[1:] if self.beside else self.values:
            found = self._candidate(argv, value)
            self.under_way = {}
            for concurrency, one in found.items():
                self._take(concurrency, one)
        if self.beside or self.current in self.failed:
            self._refuse_unmeasured()
            return {}
        again = self._candidate(argv, self.current, second=True)
        self.under_way = {}
        self._refuse_unmeasured()
        return again

    def _take(self, concurrency: int, found: Candidate) -> None:
        """Keep what was measured. Beside what serves, the first candidate's reference is the
        serving value's own measurement."""
        known = self.candidates[concurrency]
        if self.beside and not known:
            served = found.series.reference
            known.append(Candidate(self.current, Series(served, served)))
        known.append(found)

    def _refuse_unmeasured(self) -> None:
        """Raise `Undecided` where nothing was measured, or the serving value was not."""
        if self.current in self.failed:
            what = f"the serving value {self.current} could not be measured"
            raise self._undecided(what, self.failed[self.current])
        if not all(len(found) > 1 for found in self.candidates.values()):
            raise self._undecided("no candidate could be measured", "\n".join(self.failed.values()))

    # -- one candidate -----------------------------------------------------------------------

    def _candidate(
        self, argv: Sequence[str], value: int, second: bool = False
    ) -> dict[int, Candidate]:
        """What was measured of one value, by concurrency; why not is in `failed`."""
        tokens = "1 draft token" if value == 1 else f"{value} draft tokens"
        called = f"with {tokens}" if value else "without speculation"
        own = with_tokens(argv, value, value == self.current)
        self.started += 1
        self.context.log(f"start {self.started}: the same server {called}")
        with ExitStack() as stack:
            server = plain_server.second_server(self.context, self.step.name, own, called, ADVICE)
            try:
                client = stack.enter_context(server)
                found = self._asked(client, value, called, whole=value == self.current or second)
                self.context.log(f"{called}: {_speeds(found)}")
                return found
            except Unusable as error:
                self.failed[value] = str(error)
            except Undecided as error:
                self.failed[value] = f"{error.what}: {error.why}" if error.why else error.what
            self.under_way = {}
        self.context.log(f"{called}: {self.failed[value]}")
        return {}

    def _asked(self, client: Client, value: int, called: str, whole: bool) -> dict[int, Candidate]:
        found: dict[int, Candidate] = {}
        if value not in {one.value for known in self.candidates.values() for one in known}:
            self.under_way = found
        for concurrency in self.concurrencies:
            show = self._shown(f"{called}, {concurrency} at once")
            known = self.candidates[concurrency]
            leader = None if whole or not known else race.fastest(known, known[0].series)
            each = speeds.shared(self.confidence, len(self.values) - 1)
            of = Race(self._bodies(client, concurrency), concurrency, each, self.serving)
            found[concurrency] = race.measure(client, of, value, leader, show)
        return found

    def _bodies(self, client: Client, concurrency: int) -> list[Request]:
        profile = self.context.wanted.profile
        settings = profile.acceptance or AcceptanceSettings()
        asked = load.Load(
            profile.model.served_name,
            prompt_sets.load(settings.prompts).prompts,
            (concurrency,),
            self.rounds * concurrency,
            settings.max_tokens,
            settings.timeout,
        )
        return load.request_bodies(client, asked)

    def _shown(self, called: str) -> race.Shown:
        def show(done: int, speed: float) -> None:
            text = f"{done} of {self.rounds} rounds, {speed:.1f} tokens/s"
            self.context.progress(called, text, done / self.rounds)

        return show

    # -- what came of it ---------------------------------------------------------------------

    def _evidence(self, again: dict[int, Candidate]) -> Evidence:
        levels = []
        for concurrency, candidates in self.candidates.items():
            if self.current not in {one.value for one in candidates}:
                continue  # interrupted before there was anything to compare with
            second = again.get(concurrency)
            twice = None if second is None else second.series
            level = Level(concurrency, self.current, candidates, twice)
            levels.append(choice.judged(level, self.confidence))
        values = choice.chosen(levels, self.current)
        known = built.knowledge(self.context).knows_key(SCHEDULE)
        return {
            "complete": True,
            "values": sorted(self.values),
            "release": self.context.release.release,
            "current": self.current,
            "beside": self.beside,
            "rounds": self.rounds,
            "confidence": self.confidence,
            "levels": levels,
            "failed": [{"value": value, "why": why} for value, why in self.failed.items()],
            "chosen": [{"concurrency": c, "value": value} for c, value in values.items()],
            "propose": choice.proposal(values, self.current, bool(known)),
            "profile": self.context.wanted.profile.name,
        }

    def _undecided(self, what: str, why: str) -> Undecided:
        host = self.context.wanted.host.name
        return Undecided(host, self.step.name, what, why, "fix the cause shown above and retry")


def _speeds(found: Mapping[int, Candidate]) -> str:
    """A candidate's speeds in a line."""
    return ", ".join(
        f"{speeds.speed(one.series.own, concurrency):.1f} tokens/s at {concurrency} at once"
        for concurrency, one in found.items()
    )


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
