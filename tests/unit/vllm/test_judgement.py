"""Verdicts from counts, and how many requests they take."""

from __future__ import annotations

import random

import pytest

from deployctl.vllm.acceptance import sequential
from deployctl.vllm.acceptance.judgement import Gate, Verdict, judge
from deployctl.vllm.counters.counts import NOTHING, Counts, mean_acceptance_length, pooled
from tests.unit.vllm.recorded import populations

RIGHT = populations()["code"]
STALE = populations()["stale"]


def verdict(samples: list[Counts], gate: Gate) -> Verdict:
    return judge(pooled(samples), samples, gate).verdict


def test_the_story() -> None:
    gate = Gate(min_length=6, min_drafts=50)
    assert verdict(RIGHT, gate) == "pass"
    assert verdict(STALE, gate) == "fail"


def test_reasons_give_the_figure_its_interval_and_the_floor() -> None:
    (reason,) = judge(pooled(STALE), STALE, Gate(min_length=6)).reasons
    assert reason.startswith("mean acceptance length 1.15 (1.1")
    assert reason.endswith("at 0.95 confidence) is below the floor of 6")


def test_an_interval_that_spans_the_floor_is_undecided() -> None:
    assert verdict(RIGHT, Gate(min_length=7.92)) == "undecided"


def test_nothing_drafted_is_no_data() -> None:
    assert verdict([NOTHING, NOTHING], Gate(min_length=6)) == "no-data"
    assert judge(NOTHING, (), Gate()).reasons == ("no traffic measured: nothing was drafted",)


def test_too_few_drafts_give_no_verdict_whatever_they_show() -> None:
    assert verdict(STALE[:2], Gate(min_length=6, min_drafts=10_000)) == "too-few-drafts"


def test_a_single_request_gives_no_verdict_on_a_floor() -> None:
    assert verdict(RIGHT[:1], Gate(min_length=6)) == "undecided"


def test_counts_without_requests_decide_alone() -> None:
    assert judge(pooled(RIGHT), (), Gate(min_length=6)).verdict == "pass"
    assert judge(pooled(STALE), (), Gate(min_length=6)).verdict == "fail"


def test_a_log_gives_the_length_and_not_the_drafts() -> None:
    judged = judge(Counts(None, 4734, 13), (), Gate(min_length=2, min_drafts=50), length=1.01)
    assert judged.verdict == "fail"


def test_the_floors_of_rate_and_positions() -> None:
    assert verdict(RIGHT, Gate(min_rate=0.9)) == "pass"
    assert verdict(STALE, Gate(min_rate=0.1)) == "fail"
    assert verdict(RIGHT, Gate(min_per_position=(0.95, 0.9))) == "pass"
    assert verdict(STALE, Gate(min_per_position=(0.05, 0.5))) == "fail"
    assert verdict(RIGHT, Gate(min_per_position=(0.5,) * 8)) == "undecided"


def test_one_broken_floor_fails_although_others_hold() -> None:
    judged = judge(pooled(RIGHT), RIGHT, Gate(min_length=6, min_rate=0.99999))
    assert judged.verdict == "fail"
    assert "acceptance rate" in judged.reasons[0]


def test_the_last_good_release_sets_a_floor_too() -> None:
    assert Gate(min_length=6, last_good=7.9, tolerance=0.5).length_floor == pytest.approx(7.4)
    assert Gate(min_length=6, last_good=7.9).length_floor == 6
    assert Gate(last_good=1.2, tolerance=0.5).length_floor == 1
    assert Gate(tolerance=0.5).length_floor is None


def test_looks_grow_and_end_at_the_limit() -> None:
    assert sequential.looks(64) == [12, 24, 48, 64]
    assert sequential.looks(12) == [12]
    assert sequential.looks(5) == [5]
    assert sequential.confidence_at(12, 64, 0.95) == pytest.approx(0.995)
    assert sequential.confidence_at(64, 64, 0.95) == 0.95


def requests_until_decided(
    population: list[Counts], floor: float, limit: int, seed: int
) -> tuple[Verdict, int]:
    """The sequential rule on requests drawn from a population: its verdict and what it took."""
    drawn = random.Random(seed).choices(population, k=limit)
    for look in sequential.looks(limit):
        seen = drawn[:look]
        confidence = sequential.confidence_at(look, limit, 0.95)
        found = judge(pooled(seen), seen, Gate(min_length=floor), seed, confidence).verdict
        if sequential.decided(found):
            break
    return found, look


@pytest.mark.parametrize(
    ("name", "floor", "expected"),
    [("code", 6.0, "pass"), ("stale", 6.0, "fail"), ("long-context", 5.0, "pass")],
)
def test_a_clear_case_takes_at_most_half_of_the_requests(
    name: str, floor: float, expected: Verdict
) -> None:
    limit = 64
    runs = [requests_until_decided(populations()[name], floor, limit, s) for s in range(20)]
    assert {found for found, _ in runs} == {expected}
    assert max(taken for _, taken in runs) <= limit / 2


def test_early_looks_seldom_decide_where_there_is_nothing_to_decide() -> None:
    population = populations()["chat"]
    truth = 1 + sum(one.accepted_tokens for one in population) / sum(
        one.drafts or 0 for one in population
    )
    runs = [requests_until_decided(population, truth, 24, seed) for seed in range(50)]
    early = [found for found, taken in runs if taken < 24]
    assert len(early) <= 3


def test_drafts_without_a_draft_token_are_counts_of_which_some_are_missing() -> None:
    judged = judge(Counts(188, 0, 0), (), Gate(min_length=1.0))
    assert judged.verdict == "unknown"
    assert "missing" in judged.reasons[0]
    assert mean_acceptance_length(Counts(188, 0, 0)) is None


def test_a_log_that_tells_tokens_and_no_length_is_judged_by_its_rate() -> None:
    counts = Counts(None, 190, 30)
    assert judge(counts, (), Gate()).verdict == "pass"
    assert judge(counts, (), Gate(min_rate=0.5)).verdict == "fail"
    judged = judge(counts, (), Gate(min_length=2.0))
    assert judged.verdict == "undecided"
    assert "length is unknown" in judged.reasons[0]


def test_more_accepted_than_drafted_is_no_figure() -> None:
    assert judge(Counts(10, 70, 500), (), Gate(min_length=2.0)).verdict == "unknown"
    assert judge(Counts(None, 3, 5), (), Gate()).verdict == "unknown"
