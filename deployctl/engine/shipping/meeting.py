"""Where the workers of a run meet over what they share: who needs what, and who waits for whom."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployctl import cancel
from deployctl.agent.wire.stored import Model
from deployctl.config.profile import Profile
from deployctl.config.replicas import firsts
from deployctl.engine.connections.connect import Connected, ask
from deployctl.engine.connections.pool import Slots
from deployctl.engine.shipping import carrying
from deployctl.engine.shipping.needs import Need, able, assign, needs, reach_question
from deployctl.engine.shipping.orders import Order, Waiting
from deployctl.errors import DeployError, HostError
from deployctl.steps.delivery import Delivery, MakesItself
from deployctl.steps.interface import Answers, Context, Deployment, Key, Step
from deployctl.steps.models import sources


def _makes(need: Need | None) -> bool:
    """Whether a host that lacks an artifact could make it."""
    return need is not None and not need.has and need.makes is not False


@dataclass(frozen=True)
class _Declared:
    needs: Mapping[str, Need]
    told: Mapping[Key[Model], Model | None]
    """What the hub answered this host, by role."""


class Meeting:
    """One run's hosts, in the order of the profile."""

    def __init__(self, profile: Profile, slots: Slots) -> None:
        self._way = profile.share.way
        self._port = profile.share.relay_port
        self._hosts = firsts(profile.hosts)
        self._slots = slots
        self._declared: dict[str, _Declared] = {}
        self._left: set[str] = set()
        self._orders: dict[tuple[str, str], Order] | None = None
        self._deliveries: dict[str, dict[str, Delivery]] = {}
        self._attending: dict[str, Context] = {}
        self._changed = threading.Condition()

    @property
    def alone(self) -> bool:
        """Whether nothing is shared."""
        return self._way == "none" or len(self._hosts) < 2

    def settle(
        self, connected: Connected, steps: Sequence[Step], wanted: Deployment, answers: Answers
    ) -> tuple[Deployment, Answers]:
        """Agree with the other hosts on who brings what: the deployment with that, and the answers
        with what another host got from the hub. Waits for the others only where this host lacks
        something."""
        if self.alone or wanted.host.name not in self._hosts:
            return wanted, answers
        question = reach_question(wanted, answers)
        if question is not None and needs(steps, wanted, answers):
            found, _ = ask(connected, {question.key: question})
            answers = answers.renewed(found)
        host, own = wanted.host.name, needs(steps, wanted, answers)
        if not all(need.has for need in own.values()):
            own = able(own, steps, wanted, answers)
        told = {role: answers.get(role) for role in sources.ROLES if role in own}
        with self._changed:
            self._left.discard(host)
            self._declared[host] = _Declared(own, told)
            self._changed.notify_all()
        if all(need.has for need in own.values()):
            return wanted, answers
        with self._slots.given(), self._changed:
            cancel.wait_for(self._changed, self._agreed)
            mine = self._deliveries.get(host, {})
            for role in sources.ROLES:
                if role in mine:
                    known = self._declared[mine[role].producer].told.get(role)
                    answers = sources.adopted(answers, role, known)
        return replace(wanted, deliveries=mine), answers

    def _agreed(self) -> bool:
        """Whether every host has declared what it needs, or takes no part; called with the lock."""
        if self._orders is None and {*self._declared, *self._left} >= {*self._hosts}:
            found = {h: self._declared[h].needs for h in self._hosts if h in self._declared}
            self._deliveries = assign(found, self._way)
            every = (one for own in self._deliveries.values() for one in own.values())
            self._orders = {}
            for one in every:
                able = {host for host, own in found.items() if _makes(own.get(one.artifact))}
                made = Order(one, able=frozenset(able))
                order = self._orders.setdefault((one.artifact, one.key), made)
                order.left |= self._left & {*one.receivers}
            for order in self._orders.values():
                if order.delivery.producer in self._left:
                    self._fail(order, None)
            for context in self._attending.values():
                self._offer(context)
        return self._orders is not None

    def attend(self, context: Context) -> None:
        """A host is at work, with all that it has already: what others lack of that they get."""
        with self._changed:
            self._attending[context.wanted.host.name] = context
            self._offer(context)
            self._changed.notify_all()

    def _offer(self, context: Context) -> None:
        for order in (self._orders or {}).values():
            own = order.delivery.producer == context.wanted.host.name
            if own and order.delivery.ready and order.source is None:
                order.source = context

    def deliveries(self, host: str) -> tuple[Delivery, ...]:
        """What this host gets and gives, once that is agreed on."""
        with self._changed:
            return tuple(self._deliveries.get(host, {}).values())

    def left(self, host: str, error: DeployError | None = None) -> None:
        """This host takes no part any more, and why."""
        with self._changed:
            self._left.add(host)
            self._agreed()
            for order in (self._orders or {}).values():
                order.left |= {host} & {*order.delivery.receivers}
                if order.delivery.producer == host:
                    self._fail(order, error)
            self._changed.notify_all()

    # -- as the steps see it -----------------------------------------------------------------

    def made(self, context: Context, artifact: str) -> None:
        """An artifact is here and proven."""
        delivery = context.wanted.deliveries[artifact]
        with self._changed:
            order = self._order(delivery)
            if order.delivery.producer == context.wanted.host.name:
                order.source = context
            self._changed.notify_all()
        if order.source is not context:
            carrying.clear(context, delivery)

    def receive(self, context: Context, artifact: str, folder: str) -> dict[str, Any]:
        """Wait until it lies there; raises `HostError`, and `MakesItself` where this host takes the
        place of a producer that failed. One of those who wait carries it to all."""
        delivery, host = context.wanted.deliveries[artifact], context.wanted.host.name
        context.progress(f"waiting for {delivery.producer}")
        with self._slots.given():
            with self._changed:
                order = self._order(delivery)
                if order.deputy != host:
                    order.waiting[host] = Waiting(context, folder)
                self._changed.notify_all()
                cancel.wait_for(self._changed, lambda: order.is_over_for(host))
                if order.deputy == host:
                    raise MakesItself(replace(order.delivery, host=host), order.why)
                carries = order.due
                order.taken = order.taken or carries
            if carries:
                self._carry(order)
        result = order.results[host]
        if isinstance(result, HostError):
            raise result
        # Another one than was planned where that has failed.
        made_by = {"producer": order.delivery.producer}
        return {**result, "delivery": {**result["delivery"], **made_by}}

    def _carry(self, order: Order) -> None:
        results: Mapping[str, Mapping[str, Any] | HostError] = {}
        failure: HostError | None = None
        try:
            results = carrying.carry(order, self._way, self._port)
        except HostError as error:
            failure = error
        finally:
            with self._changed:
                for host in order.waiting:
                    known = failure or HostError(host, "it was not brought to its end")
                    order.results[host] = results.get(host, known)
                self._changed.notify_all()

    def _fail(self, order: Order, error: DeployError | None) -> None:
        """The producer of an order ends; where another host takes its place, all deliveries say
        so. Called with the lock."""
        before = order.delivery
        order.fail(error)
        now = order.delivery
        if now is before:
            return
        self._deliveries.get(before.producer, {}).pop(before.artifact, None)
        for host in (now.producer, *now.receivers):
            self._deliveries.setdefault(host, {})[now.artifact] = replace(now, host=host)

    def _order(self, delivery: Delivery) -> Order:
        assert self._orders is not None, "who has a delivery has agreed on it"
        return self._orders[delivery.artifact, delivery.key]

    # -- the producer's end ------------------------------------------------------------------

    def serve(self, host: str, error: DeployError | None) -> None:
        """Stay for as long as others wait for what this host has; called before its connection
        ends, with what its own part has failed with."""
        if self.alone or host not in self._declared:
            return
        with self._slots.given(), self._changed:
            cancel.wait_for(self._changed, self._agreed)
            for order in (self._orders or {}).values():
                if order.delivery.producer == host:
                    self._fail(order, error)
            own = [o for o in (self._orders or {}).values() if o.delivery.producer == host]
            self._changed.notify_all()
            cancel.wait_for(self._changed, lambda: all(order.settled for order in own))
        for order in own:
            if order.source is not None:
                carrying.clear(order.source, order.delivery, order.results)
