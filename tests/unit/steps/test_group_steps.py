"""What the ranks of a group make of each other's reports; real hosts are in tests/hosts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from deployctl.errors import StagingFailed
from deployctl.steps import peers
from deployctl.steps.member import PeerFailed
from deployctl.steps.peers import PeersStep
from deployctl.steps.servers.rendezvous import PROGRESS, Rendezvous, Standing
from tests.unit.steps.test_ranks import wanted


@dataclass
class Reports:
    """Stands in for the other ranks: what they have reported."""

    reports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def tell(self, key: str, value: Any) -> None:
        return

    def told(self, key: str) -> Mapping[str, Any]:
        return self.reports.get(key, {})

    def meet(self, key: str, value: Any = None) -> Mapping[str, Any]:
        return self.reports[key]

    def check(self) -> None:
        return


def context(reports: Mapping[str, Mapping[str, Any]]) -> Any:
    return SimpleNamespace(wanted=wanted(0), peers=Reports(reports))


def test_two_hosts_that_differ_are_named_with_what_they_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = {"release": "r1", "packages": {"torch": "2.13.0", "vllm": "0.32.0"}}
    there = {"release": "r1", "packages": {"torch": "2.12.1", "vllm": "0.32.0"}}
    monkeypatch.setattr(peers, "parts", lambda _: here)
    with pytest.raises(StagingFailed) as refused:
        PeersStep()._same(context({"parts": {"a": here, "b": there}}))
    assert "a and b would not start the same packages" in refused.value.what
    assert refused.value.why == "a: torch 2.13.0\nb: torch 2.12.1"
    assert PeersStep()._same(context({"parts": {"a": here, "b": here}})) == {"parts": here}


def test_a_file_that_only_one_host_has_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = {"model's files": {"a.bin": 1, "b.bin": 2}}, {"model's files": {"a.bin": 1}}
    monkeypatch.setattr(peers, "parts", lambda _: here)
    with pytest.raises(StagingFailed) as refused:
        PeersStep()._same(context({"parts": {"a": here, "b": there}}))
    assert refused.value.why == "a: b.bin 2\nb: lacks what the other has"


def overdue(**stages: Standing) -> tuple[str, str]:
    return Rendezvous(context({PROGRESS: stages})).overdue()


def test_the_rank_that_did_not_come_is_named() -> None:
    long_ago = time.monotonic() - 400.0
    waits = Standing("waiting", long_ago, "starting the engine")
    starts = Standing("starting", long_ago, "loading weights")
    missing, why = overdue(a=waits, b=starts)
    assert missing == "rank 1 (b) did not come to the rendezvous within 300 s"
    assert "rank 1 (b): loading weights" in why
    missing, why = overdue(a=waits, b=waits)
    assert missing.startswith("the ranks do not meet within 300 s: rank 0 (a), rank 1 (b)")
    assert "10.0.0.1:29500" in why
    assert overdue(a=starts, b=starts) == ("", ""), "the bound begins with the first that waits"
    assert overdue(a=Standing("met", long_ago, ""), b=Standing("met", long_ago, "")) == ("", "")
    assert overdue(a=Standing("waiting", time.monotonic(), ""), b=starts) == ("", "")


def test_a_rank_that_ended_with_another_names_that_one() -> None:
    class Failed(Reports):
        def check(self) -> None:
            raise PeerFailed("b", "this rank ended: failed, status 1: ValueError: no")

    given = SimpleNamespace(wanted=wanted(0), peers=Failed())
    unit: Any = {"lost": "rank 1 has ended"}
    said = Rendezvous(given).blamed(unit)  # type: ignore[arg-type]
    assert said == "rank 1 (b) failed first: this rank ended: failed, status 1: ValueError: no"
    assert Rendezvous(given).blamed({"lost": None}) == ""  # type: ignore[arg-type, typeddict-item]
