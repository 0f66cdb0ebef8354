"""One artifact's way from the host that produces it to those that receive it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WAYS = {
    "controller": "through the controller to all at once",
    "relay": "from host to host",
    "auto": "through the controller or from host to host, whichever is measured to be faster",
}
"""The ways of a profile's `share.way`, in words."""


@dataclass(frozen=True)
class Delivery:
    """Who produces an artifact, or has it already (`ready`), who receives it, and by which way. The
    same for every host that takes part; `host` is the one that reports this."""

    artifact: str
    key: str
    producer: str
    receivers: tuple[str, ...]
    way: str
    host: str
    ready: bool = False

    @property
    def receives(self) -> bool:
        return self.host in self.receivers

    @property
    def words(self) -> str:
        """The part of this host, for people."""
        if self.receives:
            return f"from {self.producer}, {WAYS[self.way]}"
        return f"also for {', '.join(self.receivers)}, {WAYS[self.way]}"

    def document(self) -> dict[str, Any]:
        """As a report and a plan have it."""
        return {
            "artifact": self.artifact,
            "key": self.key,
            "role": "receiver" if self.receives else "producer",
            "producer": self.producer,
            "receivers": list(self.receivers),
            "way": self.way,
        }


class MakesItself(Exception):
    """The producer of an artifact has failed, and this receiver makes it in its place; `delivery`
    is what it brings to the others."""

    def __init__(self, delivery: Delivery, why: str) -> None:
        super().__init__(f"{delivery.artifact}: made here, since {why}")
        self.delivery = delivery


def planned_words(document: Mapping[str, Any]) -> str:
    """A delivery's document as a line of a plan."""
    if document["role"] == "receiver":
        return f"{document['artifact']}: from {document['producer']}, {WAYS[document['way']]}"
    receivers = ", ".join(document["receivers"])
    return f"{document['artifact']}: for {receivers} too, {WAYS[document['way']]}"


def delivery_words(evidence: Mapping[str, Any]) -> str:
    """What a step's evidence says of its delivery, as the end of a sentence; empty for none."""
    told = evidence.get("delivery") or {}
    if told.get("role") == "producer":
        return f", also for {', '.join(told['receivers'])}"
    if told.get("role") != "receiver":
        return ""
    ways = " and ".join(told.get("ways") or ()) or "an earlier run"
    return f", {told.get('bytes', 0) / 1e6:.0f} MB from {told['producer']} by {ways}"
