"""Who produces what for whom, and what becomes of those who wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deployctl.engine.shipping.needs import Need, assign
from deployctl.engine.shipping.orders import Order, producer_failed
from deployctl.errors import HostError, StagingFailed
from deployctl.hosts.shipping.parties import MOST_RANGES, ranges
from deployctl.hosts.shipping.shipment import piece_name
from deployctl.steps.delivery import Delivery, delivery_words, planned_words

HAS, MAKES, OFFLINE, PERHAPS = (
    Need("k", True, None),
    Need("k", False, True),
    Need("k", False, False, "no route"),
    Need("k", False, None),
)
OTHER = Need("another machine", False, True)


@pytest.mark.parametrize(
    ("hosts", "producer", "receivers"),
    [
        ({"a": MAKES, "b": MAKES, "c": OFFLINE}, "a", ("b", "c")),
        ({"a": OFFLINE, "b": PERHAPS, "c": MAKES}, "c", ("a", "b")),
        ({"a": OFFLINE, "b": PERHAPS}, "b", ("a",)),
        ({"a": MAKES, "b": HAS, "c": OFFLINE}, "b", ("a", "c")),
        ({"a": HAS, "b": HAS}, None, ()),
        ({"a": OFFLINE, "b": OFFLINE}, None, ()),
        ({"a": MAKES, "b": OTHER}, None, ()),
        ({"a": MAKES, "b": OTHER, "c": OFFLINE}, "a", ("c",)),
        ({"a": MAKES}, None, ()),
    ],
)
def test_one_makes_it_for_all_of_its_kind(
    hosts: dict[str, Need], producer: str | None, receivers: tuple[str, ...]
) -> None:
    made = assign({host: {"environment": need} for host, need in hosts.items()}, "auto")
    told = {host: own["environment"] for host, own in made.items() if own}
    assert set(told) == ({producer, *receivers} if producer else set())
    for host, delivery in told.items():
        assert (delivery.producer, delivery.receivers) == (producer, receivers)
        assert delivery.receives == (host in receivers)


def test_machines_that_differ_have_producers_of_their_own() -> None:
    needs = {"a": MAKES, "b": OTHER, "c": PERHAPS, "d": Need("another machine", False, False)}
    made = assign({host: {"environment": need} for host, need in needs.items()}, "relay")
    assert {host: own["environment"].producer for host, own in made.items()} == {
        "a": "a",
        "c": "a",
        "b": "b",
        "d": "b",
    }


def test_an_order_is_due_once_all_who_take_part_wait() -> None:
    order = Order(Delivery("model", "k", "a", ("b", "c"), "auto", "a"))
    order.left.add("c")
    assert not order.due and not order.settled
    order.fail(StagingFailed("a", "fetch", "gone", "404", "look"))
    order.waiting["b"] = None  # type: ignore[assignment]
    assert order.due
    assert order.failure is not None and "a: fetch: gone" in order.failure.why
    order.results["b"] = order.failure
    assert order.settled


def test_a_producer_that_ended_without_a_failure_is_named() -> None:
    told = producer_failed(Delivery("model", "k", "a", ("b",), "auto", "a"), None)
    assert isinstance(told, HostError) and told.host == "a" and "nothing is touched" in told.what


def test_pieces_are_named_by_ranges() -> None:
    assert ranges([4, 0, 1, 2, 9]) == [(0, 2), (4, 4), (9, 9)]
    assert len(ranges(range(0, 4 * MOST_RANGES, 2))) == MOST_RANGES
    files = [{"name": "a", "size": 5}, {"name": "b", "size": 9}]
    manifest = {"piece": 8, "files": files}
    assert piece_name(manifest, 0) == "piece 0 (a bytes 0-4, b bytes 0-2)"
    assert piece_name(manifest, 1) == "piece 1 (b bytes 3-8)"


def test_a_delivery_in_words() -> None:
    delivery = Delivery("environment", "k", "a", ("b", "c"), "controller", "b")
    assert delivery.words == "from a, through the controller to all at once"
    told = {**delivery.document(), "bytes": 2_000_000, "ways": ["controller"]}
    assert delivery_words({"delivery": told}) == ", 2 MB from a by controller"
    assert delivery_words({}) == ""
    assert planned_words(delivery.document()) == f"environment: {delivery.words}"
    own = replace(delivery, host="a").document()
    assert planned_words(own) == "environment: for b, c too, through the controller to all at once"
