"""Prompts drawn from a mixed set: their order, the interval's coverage, like with like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.vllm.acceptance import interval, sequential
from deployctl.vllm.acceptance.interval import difference_interval
from deployctl.vllm.acceptance.judgement import Gate, Judgement, judge
from deployctl.vllm.client.prompt_sets import Prompt, drawn, load
from deployctl.vllm.counters.counts import Counts, mean_acceptance_length, pooled
from tests.unit.vllm.recorded import populations

MIXED = [
    (Prompt(f"{name} {number}", part=name), counts)
    for name, found in populations().items()
    for number, counts in enumerate(found)
]
"""A file in which the easy kinds come first, as files have them."""
COUNTS = {prompt.key: counts for prompt, counts in MIXED}
TRUE = mean_acceptance_length(pooled(counts for _, counts in MIXED)) or 0.0


def measured(floor: float, seed: int, limit: int) -> tuple[Judgement, int]:
    """The sequential rule on prompts drawn from the mixed set, at its own stops."""
    asked = [COUNTS[prompt.key] for prompt in drawn([p for p, _ in MIXED], seed)[:limit]]
    for look in sequential.looks(limit):
        seen = asked[:look]
        confidence = sequential.confidence_at(look, limit, 0.95)
        found = judge(pooled(seen), seen, Gate(min_length=floor), seed, confidence)
        if sequential.decided(found.verdict):
            break
    return found, look


@pytest.mark.parametrize("share", [0.5, 0.9, 1.0, 1.1])
def test_the_interval_holds_the_whole_sets_value_wherever_the_rule_stops(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    monkeypatch.setattr(interval.ratio_interval, "__defaults__", (0.0, 300))
    found = [measured(max(1.0, share * TRUE), seed, 48) for seed in range(60)]
    held = sum(
        one.interval is not None and one.interval.low <= TRUE <= one.interval.high
        for one, _ in found
    )
    # 95 % of 60 is 57; fewer than 52 would be seen once in a hundred times.
    assert held >= 52


def test_the_first_prompts_of_the_file_would_have_told_another_tale() -> None:
    first = [counts for _, counts in MIXED[:12]]
    found = judge(pooled(first), first, Gate(), confidence=0.995)
    assert found.interval is not None
    assert found.interval.low > TRUE


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(0, 99))
def test_every_beginning_has_each_parts_share(parts: list[int], seed: int) -> None:
    prompts = [Prompt(f"{n}", part=str(part)) for n, part in enumerate(parts)]
    order = drawn(prompts, seed)
    assert sorted(p.text for p in order) == sorted(p.text for p in prompts)
    for part in set(parts):
        total = parts.count(part)
        for asked in range(len(order) + 1):
            share = sum(p.part == str(part) for p in order[:asked])
            assert abs(share - total * asked / len(order)) <= 1 + len(set(parts)) / 2


def test_the_order_is_the_seeds() -> None:
    prompts = [prompt for prompt, _ in MIXED]
    assert drawn(prompts, 1) == drawn(prompts, 1)
    assert drawn(prompts, 1) != drawn(prompts, 2)


def test_the_shipped_mixed_set_has_parts() -> None:
    order = drawn(load("long-context").prompts, 0)
    assert sum(prompt.part == "code" for prompt in order[:6]) == 3


EASY = Counts(10, 70, 68)
HARD = Counts(40, 280, 30)


def test_an_equal_release_is_not_worse_for_having_been_asked_more() -> None:
    # The last good release was asked the easy half alone, this one all.
    samples = [EASY] * 12 + [HARD] * 12
    gate = Gate(tolerance=0.3, last_good=mean_acceptance_length(pooled([EASY] * 12)))
    assert (mean_acceptance_length(pooled(samples)) or 9) < 4
    found = judge(pooled(samples), samples, gate, earlier=[(EASY, EASY)] * 12)
    assert found.verdict == "pass"
    assert "on the 12 prompts that the last good release was asked, too, is +0" in found.reasons[0]


def test_a_release_that_is_worse_on_the_same_prompts_fails() -> None:
    worse = Counts(12, 84, 66)
    found = judge(
        pooled([worse] * 12), [worse] * 12, Gate(tolerance=0.3), earlier=[(worse, EASY)] * 12
    )
    assert found.verdict == "fail"
    assert "against its 7.8: below the floor of 7.5" in found.reasons[0]


def test_a_difference_around_the_tolerance_is_undecided() -> None:
    pairs = [(Counts(10, 70, 68 - n % 9), EASY) for n in range(12)]
    samples = [ours for ours, _ in pairs]
    found = judge(pooled(samples), samples, Gate(tolerance=0.4), earlier=pairs)
    assert found.verdict == "undecided"


def test_what_is_hard_about_a_prompt_stands_on_both_sides() -> None:
    pairs = [((68, 10), (68, 10)), ((30, 40), (30, 40))] * 6
    found = difference_interval(pairs, 0.95, 0)
    assert found is not None
    assert (found.low, found.high) == (0, 0)


def test_one_common_prompt_decides_nothing() -> None:
    found = judge(pooled([EASY] * 12), [EASY] * 12, Gate(tolerance=0.3), earlier=[(EASY, EASY)])
    assert found.verdict == "undecided"
    assert "too few prompts" in found.reasons[0]
