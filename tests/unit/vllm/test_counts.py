"""The formulas, for all counts that a server can have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.vllm.counters.counts import (
    NOTHING,
    Counts,
    acceptance_rate,
    conditional_rates,
    mean_acceptance_length,
    per_position_rates,
    pooled,
)


@st.composite
def counted(draw: st.DrawFn, least: int = 1) -> Counts:
    """Counts as vLLM makes them: of each draft's k tokens a leading part is accepted."""
    k = draw(st.integers(1, 8))
    accepted = draw(st.lists(st.integers(0, k), min_size=least, max_size=40))
    return Counts(
        drafts=len(accepted),
        draft_tokens=k * len(accepted),
        accepted_tokens=sum(accepted),
        per_position=tuple(sum(a > i for a in accepted) for i in range(k)),
    )


@given(counted())
def test_length_is_one_more_than_the_sum_of_the_positions(counts: Counts) -> None:
    rates = per_position_rates(counts)
    length = mean_acceptance_length(counts)
    assert length == pytest.approx(1 + sum(rate or 0.0 for rate in rates))
    assert 1 <= (length or 0) <= 1 + len(counts.per_position)


@given(counted())
def test_rate_is_the_mean_of_the_positions(counts: Counts) -> None:
    rates = [rate or 0.0 for rate in per_position_rates(counts)]
    assert acceptance_rate(counts) == pytest.approx(sum(rates) / len(rates))


@given(counted())
def test_conditional_rates_multiply_to_the_positions(counts: Counts) -> None:
    rates = per_position_rates(counts)
    product = 1.0
    for rate, conditional in zip(rates, conditional_rates(rates), strict=True):
        product *= conditional or 0.0
        assert rate == pytest.approx(product)


@given(st.lists(counted(), max_size=5))
def test_pooling_adds_counts(parts: list[Counts]) -> None:
    whole = pooled(parts)
    assert whole.drafts == sum(part.drafts or 0 for part in parts)
    assert whole.accepted_tokens == sum(whole.per_position)


def test_nothing_drafted_is_no_data_and_not_zero() -> None:
    assert mean_acceptance_length(NOTHING) is None
    assert acceptance_rate(NOTHING) is None
    assert per_position_rates(Counts(0, 0, 0, (0, 0))) == [None, None]


def test_a_position_never_drafted_has_no_rate() -> None:
    assert per_position_rates(Counts(4, 4, 2, (2, 0), (4, 0))) == [0.5, None]


def test_unknown_drafts_make_the_pool_unknown() -> None:
    assert pooled([Counts(None, 3, 1), Counts(1, 3, 1)]).drafts is None


def test_negative_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        Counts(-1, 0, 0)


def test_the_story() -> None:
    """42 drafts of 7 tokens, as a real server counted them for one request."""
    counts = Counts(42, 294, 291, (42, 42, 42, 42, 41, 41, 41))
    assert mean_acceptance_length(counts) == pytest.approx(7.928571)
    assert acceptance_rate(counts) == pytest.approx(291 / 294)
