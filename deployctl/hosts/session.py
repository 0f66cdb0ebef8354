"""The agent's client side: one conversation with one host, however it is reached."""

from __future__ import annotations

import base64
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from deployctl import cancel
from deployctl.agent.wire.messages import About
from deployctl.agent.wire.records import strange
from deployctl.agent.wire.results import RESULTS
from deployctl.errors import ConnectionLost, RemoteError
from deployctl.hosts import refusal
from deployctl.hosts.bundle import BOOTSTRAP, bundle
from deployctl.hosts.interface import Ending, Transport
from deployctl.hosts.link import Limits, Link, Request
from deployctl.hosts.shapes import mismatch
from deployctl.hosts.stream import Stream

if TYPE_CHECKING:
    from deployctl.agent.core.interface import Call as Running

__all__ = ["Call", "Event", "Limits", "Session", "known"]

Args = ParamSpec("Args")
Answer = TypeVar("Answer")
One = TypeVar("One")
Two = TypeVar("Two")
Three = TypeVar("Three")
Four = TypeVar("Four")
Event = Callable[[dict[str, Any]], None]


def known(answer: Answer | RemoteError) -> Answer:
    """An answer of `Session.ask`; raises the `RemoteError` that stands in its place."""
    if isinstance(answer, RemoteError):
        raise answer
    return answer


STANDARD = Limits()
ALONE = ("-I", "-S")
"""The agent needs the standard library alone: what a host adds to every start of Python (site,
sitecustomize) costs a third of it."""
WAITS = ("timeout", "wait", "grace", "patience", "still")
"""Arguments of operations that give the seconds for which each may wait, some of them thrice: for
what ran before, for what it started, and for what is left of either."""


@dataclass(frozen=True, init=False)
class Call(Generic[Answer]):
    """One operation of the agent, as `hosts.operations` has it, and its arguments, which travel as
    JSON. By its name alone, as in tests, neither they nor its answer are known to mypy."""

    op: str
    args: Mapping[str, Any]

    @overload
    def __init__(
        self: Call[Answer],
        op: Callable[Concatenate[Running, Args], Answer],
        /,
        *unnamed: Args.args,
        **args: Args.kwargs,
    ) -> None: ...

    @overload
    def __init__(self: Call[Any], op: str, /, **args: Any) -> None: ...

    def __init__(self, op: Any, /, *unnamed: Any, **args: Any) -> None:
        object.__setattr__(self, "op", op)
        object.__setattr__(self, "args", args)

    @property
    def patience(self) -> float:
        """Seconds that it may be silent because it was asked to wait."""
        given = (self.args.get(name) for name in WAITS)
        return 3 * sum(float(one) for one in given if isinstance(one, (int, float)))


class Session:
    """A started agent. Requests may come from several threads; each waits for its own answer.

    `round_trips` counts requests, which is what a redeploy without changes is measured by.
    """

    def __init__(
        self,
        transport: Transport,
        root: str = "",
        python: str = "python3",
        limits: Limits = STANDARD,
    ) -> None:
        self.name = transport.name
        self.round_trips = 0
        self._limits = limits
        self._transport = transport
        self._python = python
        try:
            channel = transport.open([python, *ALONE, "-c", BOOTSTRAP])
        except BaseException:
            transport.close()
            raise
        self._link = Link(self.name, channel, limits)
        self._link.send({"hash": bundle().sha256, "root": root, "silence": limits.silence})
        try:
            self.agent: About = self._start()
        except BaseException:
            self.close()
            raise
        self._link.started()

    @property
    def root(self) -> str:
        """The directory on the host that holds everything of deployctl's."""
        return self.agent["root"]

    @overload
    def ask(self, calls: tuple[Call[One]], /) -> tuple[One | RemoteError]: ...

    @overload
    def ask(
        self, calls: tuple[Call[One], Call[Two]], /
    ) -> tuple[One | RemoteError, Two | RemoteError]: ...

    @overload
    def ask(
        self, calls: tuple[Call[One], Call[Two], Call[Three]], /
    ) -> tuple[One | RemoteError, Two | RemoteError, Three | RemoteError]: ...

    @overload
    def ask(
        self, calls: tuple[Call[One], Call[Two], Call[Three], Call[Four]], /
    ) -> tuple[One | RemoteError, Two | RemoteError, Three | RemoteError, Four | RemoteError]: ...

    @overload
    def ask(
        self, calls: Sequence[Call[Answer]], on_event: Event | None = None, /
    ) -> tuple[Answer | RemoteError, ...]: ...

    def ask(self, calls: Sequence[Call[Any]], on_event: Event | None = None, /) -> Any:
        """Several operations in one round trip; each answer is a value or a `RemoteError`."""
        return tuple(self._answers(calls, self._request(calls, on_event)))

    @overload
    def call(
        self,
        op: Callable[Concatenate[Running, Args], Answer],
        /,
        *unnamed: Args.args,
        **args: Args.kwargs,
    ) -> Answer: ...

    @overload
    def call(self, op: str, on_event: Event | None = None, /, **args: Any) -> Any: ...

    def call(self, op: Any, on_event: Any = None, /, *unnamed: Any, **args: Any) -> Any:
        """One operation; raises `RemoteError` where the agent could not answer."""
        return self.follow(Call(op, **args), on_event)

    def follow(self, call: Call[Answer], on_event: Event | None) -> Answer:
        """The same, with what the operation emits while it runs."""
        (answer,) = self.ask([call], on_event)
        return known(answer)

    @overload
    def stream(
        self,
        op: Callable[Concatenate[Running, Args], Answer],
        /,
        *unnamed: Args.args,
        **args: Args.kwargs,
    ) -> Stream[Answer]: ...

    @overload
    def stream(self, op: str, /, **args: Any) -> Stream[Any]: ...

    def stream(self, op: Any, /, *unnamed: Any, **args: Any) -> Stream[Any]:
        """Start an operation that is fed and heard while it runs (a relayed connection)."""
        calls = (Call(op, **args),)
        request = self._open(calls, eventful=True)
        return Stream(self._link, request, lambda results: self._answers(calls, results))

    def close(self) -> None:
        """End the conversation; the agent ends and its locks fall."""
        self._link.close()
        self._transport.close()
        self._link.join()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside ------------------------------------------------------------------------------

    def _start(self) -> About:
        deadline = time.monotonic() + self._limits.start
        while True:
            try:
                word = self._link.starting.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise self._transport.explain(None) or ConnectionLost(
                    self.name,
                    "the agent did not start",
                    f"no answer within {self._limits.start:g} s",
                    "look whether the host is overloaded or its disk is full",
                ) from None
            if isinstance(word, Ending):
                explained = self._transport.explain(word)
                noise = self._link.noise.decode(errors="replace").strip()
                raise explained or refusal.of_ending(self.name, self._python, word, noise)
            if "need" in word:
                self._link.send({"code": base64.b64encode(bundle().data).decode("ascii")})
            elif "refused" in word:
                raise refusal.of_agent(self.name, self._python, word)
            else:
                ready: About = word["ready"]
                return ready

    def _request(self, calls: Sequence[Call[Any]], on_event: Event | None) -> list[Any]:
        cancel.check()
        request = self._open(calls, eventful=on_event is not None)
        try:
            while "results" not in (message := self._link.receive(request)):
                if on_event is not None:
                    on_event(message["event"])
        except BaseException:
            self._link.send({"cancel": request.number})
            raise
        finally:
            self._link.forget(request)
        return list(message["results"])

    def _open(self, calls: Sequence[Call[Any]], eventful: bool) -> Request:
        quiet = self._limits.answer + sum(call.patience for call in calls)
        ops = [{"op": call.op, "args": dict(call.args)} for call in calls]
        request = self._link.open(ops, eventful, quiet)
        self.round_trips += 1
        return request

    def _answers(self, calls: Sequence[Call[Any]], results: Sequence[dict[str, Any]]) -> list[Any]:
        return [
            self._value(call, result["value"]) if "value" in result else self._error(call, result)
            for call, result in zip(calls, results, strict=True)
        ]

    def _value(self, call: Call[Any], value: Any) -> Any:
        wrong = mismatch(value, RESULTS[call.op]) or strange(call.op, value)
        if wrong:
            raise self._link.lose(
                "the agent sends what cannot be understood", f"{call.op}: {wrong}"
            )
        return value

    def _error(self, call: Call[Any], result: Mapping[str, Any]) -> RemoteError:
        error = result["error"]
        return RemoteError(self.name, call.op, error["kind"], error["message"], error.get("detail"))
