"""Carries one artifact out to all that wait for it, and tidies up behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.engine.shipping.orders import Order
from deployctl.errors import HostError
from deployctl.hosts.operations import files, shipping
from deployctl.hosts.shipping.parties import CONTROLLER, RELAY, Party, Receiver
from deployctl.hosts.shipping.shipment import Shipment
from deployctl.steps.builds.environments import BUILD
from deployctl.steps.builds.shared import pack, parcel
from deployctl.steps.delivery import Delivery
from deployctl.steps.interface import ENVIRONMENT, Context
from deployctl.steps.verify import VerifyStep

Results = dict[str, Mapping[str, Any] | HostError]
FACTS = (
    *("strategy", "commit_installed", "commit_imported", "merge_base", "version_installed"),
    *("files_compared", "wheel"),
)
"""Of a producer's evidence: what its receivers repeat in theirs."""


def carry(order: Order, way: str, port: int | None) -> Results:
    """What came of it at each host that waits; raises `HostError` where the source fails."""
    if order.failure is not None or order.source is None:
        failure = order.failure or HostError(order.delivery.producer, "nothing was offered")
        return dict.fromkeys(order.waiting, failure)
    source, delivery = order.source, order.delivery
    facts: dict[str, Any] = {}
    if delivery.artifact == ENVIRONMENT:
        pack(source, delivery.key)
        facts = _proven(source)
    receivers = [
        Receiver(_party(waiting.context, way), waiting.folder) for waiting in order.waiting.values()
    ]
    shipment = Shipment(
        Party(source.wanted.host, source.session),
        next(iter(order.waiting.values())).folder,
        receivers,
        way,
        port,
        _notes(order),
    )
    shipment.tell = _progress(order, shipment)
    shipment.run()
    return {one.name: _result(one, shipment, facts) for one in receivers}


def _result(one: Receiver, shipment: Shipment, facts: Mapping[str, Any]) -> Any:
    if one.failure is not None:
        return one.failure
    figures = {way: shipment.figures[way] for way in one.ways if way in shipment.figures}
    told = {
        "bytes": shipment.total,
        "ways": list(one.ways),
        "pieces_kept": one.kept,
        "seconds": round(sum(known["seconds"] for known in figures.values()), 3),
        "figures": {
            way: {name: round(value, 3) for name, value in known.items()}
            for way, known in figures.items()
        },
    }
    return {"delivery": told, "producer": facts}


def _proven(source: Context) -> dict[str, Any]:
    """What the producer has proven of its environment, from the seal."""
    path = f"{source.release.environment}/seal.json"
    read = source.session.call(files.read, path=path, limit=64 << 20)
    if read["text"] is None:
        raise HostError(source.wanted.host.name, f"{read['path']} is gone")
    evidence = json.loads(read["text"])["evidence"]
    built = evidence[BUILD]
    return {
        **{name: built.get(name) for name in FACTS},
        "packages": evidence[VerifyStep.name]["packages"],
    }


def _party(context: Context, way: str) -> Party:
    host = context.wanted.host
    address = "" if way == CONTROLLER else address_of(host)
    if way == RELAY and not address:
        raise HostError(
            host.name,
            "other hosts have no address of it",
            "it is reached through another machine",
            "set address: in its host file; or share.way: controller",
        )
    return Party(host, context.session, address)


def address_of(host: HostSettings) -> str:
    """Where other hosts may reach a host; empty where that is not known."""
    if host.address is not None or host.ssh is None:
        return host.address or ""
    from deployctl.hosts.ssh_config import resolve

    endpoint = resolve(host.name, host.ssh)
    return "" if endpoint.jumps or endpoint.proxy_command else endpoint.hostname


def _notes(order: Order) -> Callable[[str], None]:
    def note(text: str) -> None:
        for waiting in order.waiting.values():
            waiting.context.log(text)

    return note


def _progress(order: Order, shipment: Shipment) -> Callable[[Receiver, int], None]:
    came: dict[str, int] = {}

    def tell(receiver: Receiver, count: int) -> None:
        done = came[receiver.name] = came.get(receiver.name, 0) + count
        total = max(1, shipment.total)
        detail = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB from {order.delivery.producer}"
        context = order.waiting[receiver.name].context
        context.progress("receiving", detail, min(1.0, done / total))

    return tell


def clear(context: Context, delivery: Delivery, results: Mapping[str, Any] | None = None) -> None:
    """Remove an environment's wheels, which were only made to travel: of a receiver once it is
    proven there, of the producer once all have them. What failed keeps them for the next run."""
    failed = [one for one in (results or {}).values() if isinstance(one, HostError)]
    if delivery.artifact != ENVIRONMENT or failed:
        return
    folder = parcel(delivery.key)
    with suppress(HostError):
        context.session.call(shipping.forget, folder=folder)
        context.session.call(files.remove_tree, path=folder)
