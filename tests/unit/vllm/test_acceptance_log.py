"""Cases 1 and 2: one line in every spelling, and windows in which nothing was drafted."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.vllm.acceptance.acceptance_log import pool, read, windows
from deployctl.vllm.counters.counts import (
    Counts,
    acceptance_rate,
    mean_acceptance_length,
    per_position_rates,
)
from tests.unit.vllm.test_counts import counted

CASES = Path(__file__).parents[2] / "cases"
SPELLINGS = (CASES / "logs" / "specdec_formats_by_version.txt").read_text().splitlines()


def spelling(name: str) -> str:
    """The line below the comment that starts with `# NAME `."""
    number = next(i for i, line in enumerate(SPELLINGS) if line.startswith(f"# {name} "))
    return SPELLINGS[number + 1]


@pytest.mark.parametrize(
    ("name", "accepted", "drafted", "length", "percent", "positions"),
    [
        ("F2", 150, 387, 2.16, 38.8, 3),
        ("F3", 44, 161, 2.91, 27.3, 7),
        ("F4", 256, 308, 6.82, 83.1, 7),
        ("F6", 51, 125, 3.04, 40.8, 5),
    ],
)
def test_fields_are_found_by_name(
    name: str, accepted: int, drafted: int, length: float, percent: float, positions: int
) -> None:
    window = read(spelling(name))
    assert window is not None
    assert (window.accepted, window.drafted, window.length) == (accepted, drafted, length)
    assert window.rate == pytest.approx(percent / 100)
    assert len(window.positions) == positions
    assert None not in window.positions


def test_fields_may_come_in_any_order_with_unknown_ones_between() -> None:
    line = (
        "SpecDecoding metrics: Drafted: 161 tokens, Weather: 12.5 tokens/s, "
        "Per-position acceptance rate: 0.739, 0.478, Depth: 7, "
        "Avg Draft acceptance rate: 27.3%, Accepted: 44 tokens, Mean acceptance length: 2.91"
    )
    window = read(line)
    assert window is not None
    assert (window.accepted, window.drafted, window.length) == (44, 161, 2.91)
    assert window.positions == (0.739, 0.478)


def test_idle_windows_are_no_traffic() -> None:
    found = windows([spelling("F1"), spelling("F7")])
    assert [window.idle for window in found] == [True, True]
    pooled = pool(found)
    assert (pooled.length, pooled.counts.drafts, pooled.idle) == (None, 0, 2)


def test_one_busy_window_among_idle_ones_gives_its_own_numbers() -> None:
    pooled = pool(windows([spelling("F1"), spelling("F3"), spelling("F7")]))
    assert (pooled.counts.accepted_tokens, pooled.counts.draft_tokens) == (44, 161)
    assert pooled.length == 2.91
    assert pooled.positions == (0.739, 0.478, 0.261, 0.174, 0.130, 0.087, 0.043)


def test_a_diffusion_line_is_not_speculative() -> None:
    assert read(spelling("F8")) is None


def test_drafts_follow_from_the_printed_numbers_where_one_number_fits() -> None:
    drafts = {name: read(spelling(name)) for name in ("F2", "F3", "F4", "F6")}
    assert {name: window and window.drafts for name, window in drafts.items()} == {
        "F2": 129,
        "F3": 23,
        "F4": 44,
        "F6": 25,
    }


def test_drafts_of_a_real_ngram_log_equal_the_counter_of_the_same_run() -> None:
    for version in ("0.20.1", "0.32.0"):
        log = (CASES / "vllm_cpu" / f"log-{version}-ngram.txt").read_text()
        pooled = pool(windows(log.splitlines()))
        assert pooled.counts.drafts == 129
        assert pooled.counts.per_position == (102, 87, 69, 45)


def test_drafts_stay_unknown_where_several_numbers_fit() -> None:
    log = (CASES / "logs" / "near_zero_acceptance_session.txt").read_text()
    pooled = pool(windows(log.splitlines()))
    assert pooled.counts.drafts is None
    assert pooled.counts.per_position == ()
    assert (pooled.counts.accepted_tokens, pooled.counts.draft_tokens) == (13, 4734)
    # Three draft tokens a draft: 4734 / 3 drafts.
    assert pooled.length == pytest.approx(1 + 13 / 1578)
    assert pooled.positions[0] == pytest.approx(13 / 1578, abs=0.0005)


def test_windows_are_pooled_and_not_averaged() -> None:
    pooled = pool(windows([spelling("F3"), spelling("F4")]))
    assert pooled.length == pytest.approx(1 + (44 + 256) / (23 + 44))
    assert pooled.positions[0] == pytest.approx((17 + 44) / (23 + 44))


def fields(counts: Counts) -> dict[str, str]:
    """Counts as vLLM prints them (`vllm/v1/spec_decode/metrics.py`)."""
    rates = ", ".join(f"{rate:.3f}" for rate in per_position_rates(counts))
    return {
        "Mean acceptance length": f"{mean_acceptance_length(counts):.2f}",
        "Accepted throughput": "0.72 tokens/s",
        "Accepted": f"{counts.accepted_tokens} tokens",
        "Drafted": f"{counts.draft_tokens} tokens",
        "Per-position acceptance rate": rates,
        "Avg Draft acceptance rate": f"{100 * (acceptance_rate(counts) or 0):.1f}%",
    }


@given(counted(), st.permutations(range(6)))
def test_any_counts_in_any_order_are_read_back(counts: Counts, order: list[int]) -> None:
    printed = list(fields(counts).items())
    line = "INFO SpecDecoding metrics: " + ", ".join(
        f"{name}: {value}" for name, value in (printed[i] for i in order)
    )
    window = read(line)
    assert window is not None
    assert (window.accepted, window.drafted) == (counts.accepted_tokens, counts.draft_tokens)
    assert f"{window.length:.2f}" == printed[0][1]
    # What is made from rounded numbers is right or not said.
    assert window.drafts in (None, counts.drafts)
    if window.drafts is not None:
        assert pool([window]).counts.per_position == counts.per_position


@given(st.text(max_size=200))
def test_no_line_breaks_the_reading(text: str) -> None:
    read("SpecDecoding metrics: " + text)
    pool(windows([text, "SpecDecoding metrics: Accepted: 3 tokens, Drafted: 9 tokens" + text]))


def test_a_busy_servers_window_is_read_at_once() -> None:
    rates = ", ".join(f"{0.9**place:.3f}" for place in range(15))
    line = (
        "SpecDecoding metrics: Mean acceptance length: 8.15, Accepted: 1429000 tokens, "
        f"Drafted: 3000000 tokens, Per-position acceptance rate: {rates}"
    )
    spent = []
    for _ in range(3):
        began = time.thread_time()
        window = read(line)
        spent.append(time.thread_time() - began)
    assert window is not None
    assert window.drafted == 3_000_000
    assert min(spent) < 0.1


def test_a_number_that_none_can_be_is_no_window() -> None:
    assert read(f"SpecDecoding metrics: Accepted: {'9' * 5000} tokens, Drafted: 9 tokens") is None
