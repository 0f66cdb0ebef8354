"""The interval is honest: its coverage on recorded requests is what it says."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployctl.vllm.acceptance.interval import Ratio, expanded_tail, ratio_interval, t_quantile
from deployctl.vllm.counters.counts import mean_acceptance_length, pooled
from tests.unit.vllm.recorded import populations

REPEATS = 200
SIZES = (16, 32)
"""Requests in one measurement; from fewer the interval of skewed counts is a little too narrow."""


@pytest.mark.parametrize("name", sorted(populations()))
def test_coverage_is_within_three_points_of_nominal(name: str) -> None:
    population = populations()[name]
    truth = mean_acceptance_length(pooled(population)) or 0.0
    ratios = [(one.accepted_tokens, one.drafts or 0) for one in population]
    covered = 0
    for size in SIZES:
        for seed in range(REPEATS):
            drawn = random.Random(seed).choices(ratios, k=size)
            interval = ratio_interval(drawn, 0.95, seed, 1.0, resamples=400)
            assert interval is not None
            covered += interval.low <= truth <= interval.high
    assert covered / (REPEATS * len(SIZES)) == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize(
    ("probability", "freedom", "quantile"),
    [
        # Student's table.
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 3, 3.182),
        (0.975, 4, 2.776),
        (0.975, 9, 2.262),
        (0.975, 30, 2.042),
        (0.9975, 9, 3.690),
        (0.9975, 23, 3.104),
    ],
)
def test_quantiles_of_student(probability: float, freedom: int, quantile: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(quantile, rel=0.015)


def test_the_tail_comes_to_the_plain_percentile_for_many_requests() -> None:
    assert expanded_tail(0.95, 10) < expanded_tail(0.95, 100) < 0.025
    assert expanded_tail(0.95, 100000) == pytest.approx(0.025, abs=1e-4)


Ratios = st.lists(st.tuples(st.integers(0, 300), st.integers(1, 60)), min_size=2, max_size=20)


@settings(max_examples=30)
@given(Ratios)
def test_an_interval_lies_among_the_requests_own_ratios(ratios: list[Ratio]) -> None:
    interval = ratio_interval(ratios, 0.95, 0, resamples=100)
    assert interval is not None
    single = [top / bottom for top, bottom in ratios]
    assert min(single) - 1e-9 <= interval.low <= interval.high <= max(single) + 1e-9


@settings(max_examples=20)
@given(Ratios)
def test_more_confidence_is_never_narrower(ratios: list[Ratio]) -> None:
    near = ratio_interval(ratios, 0.9, 0, resamples=200)
    far = ratio_interval(ratios, 0.99, 0, resamples=200)
    assert near is not None
    assert far is not None
    assert far.low <= near.low
    assert near.high <= far.high


def test_a_seed_gives_the_same_interval_again() -> None:
    ratios = [(one.accepted_tokens, one.drafts or 0) for one in populations()["math"]]
    assert ratio_interval(ratios, 0.95, 7) == ratio_interval(ratios, 0.95, 7)
    assert ratio_interval(ratios, 0.95, 7) != ratio_interval(ratios, 0.95, 8)


def test_one_request_has_no_interval_and_idle_ones_do_not_count() -> None:
    assert ratio_interval([(5, 2)], 0.95, 0) is None
    assert ratio_interval([(5, 2), (0, 0)], 0.95, 0) is None
