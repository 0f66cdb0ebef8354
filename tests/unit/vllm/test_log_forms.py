"""Published forms of the line that counts speculation, and what they leave unsaid.

Forms from the sources and issue threads that are named; numbers are ours, and add up.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.vllm.acceptance import log_forms
from deployctl.vllm.acceptance.acceptance_log import LogCounts, Mixed, pool, scan
from deployctl.vllm.counters.counts import Counts, mean_acceptance_length
from tests.unit.vllm.test_acceptance_log import fields
from tests.unit.vllm.test_counts import counted

FIELD = Path(__file__).parents[2] / "cases" / "field"


def pooled(*lines: str) -> LogCounts:
    return pool(scan(lines).windows)


def v0(accepted: int, drafted: int, emitted: int, each: int, efficiency: str) -> str:
    """vLLM 0.4 to 0.8 (vllm/engine/metrics.py); see vllm-project/vllm#9539 and #7301."""
    return (
        f"INFO 10-16 19:05:47 metrics.py:367] Speculative metrics: Draft acceptance rate: "
        f"{accepted / drafted:.3f}, System efficiency: {efficiency}, Number of speculative tokens: "
        f"{each}, Number of accepted tokens: {accepted}, Number of draft tokens: {drafted}, "
        f"Number of emitted tokens: {emitted}."
    )


def v1(accepted: int, drafted: int, length: str, rates: str, more: str = "") -> str:
    return (
        f"(APIServer pid=7) INFO 08-05 12:25:03 [metrics.py:120] SpecDecoding metrics: "
        f"Mean acceptance length: {length}, Accepted: {accepted} tokens, "
        f"Drafted: {drafted} tokens, {more}Per-position acceptance rate: {rates}, "
        f"Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%"
    )


def test_v0_takes_its_length_from_the_emitted_tokens() -> None:
    # 400 drafts of 3; accepted counts matches behind the first rejected token, too.
    found = pooled(v0(800, 1200, 960, 3, "0.600"))
    assert (found.counts.drafts, found.length) == (400, 2.4)
    assert (found.counts.accepted_tokens, found.counts.draft_tokens) == (800, 1200)
    assert "emitted" in found.remarks[0]


def test_v0_counts_from_the_start_on_so_that_the_last_line_stands_for_all() -> None:
    lines = v0(1, 5, 1, 5, "0.167"), v0(1, 15, 3, 5, "0.167"), v0(40, 80, 48, 5, "0.500")
    found = pooled(*lines)
    assert (found.counts.accepted_tokens, found.counts.draft_tokens) == (40, 80)
    assert found.length == 3


def test_v0_that_started_again_is_counted_twice_and_not_three_times() -> None:
    found = pooled(
        v0(20, 50, 25, 5, "0.417"), v0(40, 100, 50, 5, "0.417"), v0(5, 10, 6, 5, "0.500")
    )
    assert (found.counts.accepted_tokens, found.counts.draft_tokens) == (45, 110)


def test_v0_with_the_word_tokens_twice() -> None:
    """vLLM 0.5 (vllm-project/vllm#6768)."""
    line = v0(0, 4224, 264, 16, "0.059")
    for name in ("draft", "emitted"):
        line = line.replace(f"{name} tokens:", f"{name} tokens tokens:")
    found = pooled(line)
    assert (found.counts.drafts, found.length, found.counts.accepted_tokens) == (264, 1, 0)


def test_v0_whose_numbers_do_not_add_up_has_bounds_and_no_length() -> None:
    found = pooled((FIELD / "24-acceptance-foreign" / "v0.log").read_text())
    assert (found.counts.accepted_tokens, found.counts.draft_tokens) == (8547, 13311)
    assert (found.length, found.counts.drafts) == (None, None)
    assert found.drafts_span == (3328, 10200)
    assert mean_acceptance_length(found.counts) is None


def test_the_first_v1_line() -> None:
    """vLLM 0.8.2, before vllm-project/vllm PR 15902: no `%`, and a comma at the end."""
    found = pooled(
        "INFO 03-30 12:00:00 [metrics.py:39] Speculative metrics: Draft acceptance rate: 0.750, "
        "Number of accepted tokens: 48, Number of draft tokens: 64, "
    )
    assert (found.counts.accepted_tokens, found.counts.draft_tokens) == (48, 64)
    assert found.drafts_span == (1, 64)


def test_a_fork_with_further_fields_and_numbers_between() -> None:
    """Rejected tokens, latencies and tokens a forward, as a public fork prints them."""
    more = (
        "Rejected: 20 tokens, Effective tokens/forward: 2.00, Proposer latency: 0.004000 s, "
        "Verification latency: 0.010000 s, "
    )
    found = pooled(v1(20, 40, "2.00", "0.600, 0.400", more))
    assert found.counts == Counts(20, 40, 20, (12, 8))


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[32mINFO\x1b[0m \x1b[01;31m\x1b[KSpecDecoding metrics\x1b[m\x1b[K: Mean acceptance "
        "length: 2.00, Accepted: 20 tokens, Drafted: 40 tokens, "
        "Per-position acceptance rate: 0.600, 0.400, Avg Draft acceptance rate: 50.0%",
        '{"log":"(APIServer pid=1) INFO [metrics.py:101] SpecDecoding metrics: Mean acceptance '
        "length: 2.00, Accepted: 20 tokens, Drafted: 40 tokens, Per-position acceptance rate: "
        '0.600, 0.400, Avg Draft acceptance rate: 50.0%\\n","stream":"stdout"}',
        "Aug 05 12:25:03 host vllm[7]: SpecDecoding metrics: Mean acceptance length: 2.00, "
        "Accepted: 20 tokens, Drafted: 40 tokens, Per-position acceptance rate: 0.600, 0.400, "
        "Avg Draft acceptance rate: 50.0%",
    ],
    ids=["coloured", "docker", "journal"],
)
def test_lines_as_other_programs_keep_them(line: str) -> None:
    assert pooled(line).counts == Counts(20, 40, 20, (12, 8))


LLAMA = (
    "0.06.896.015 I slot print_timing: id  1 | task 0 | draft acceptance = 0.50000 (   20 accepted "
    "/    40 generated), mean acceptance length =  2.00, acceptance rate per position = "
    "(0.600, 0.400)"
)
STATISTICS = (
    "0.06.896.057 I statistics     draft-eagle3: #calls(b,g,a) =    1     20     20, "
    "#gen drafts =     20, #acc drafts =    12, #gen tokens =     40, #acc tokens =    20, "
    "#mean acc len = 2.00, #acc rate/pos = (0.600, 0.400), dur(b,g,a) = 0.005, 3.5, 0.1 ms"
)


def test_llama_cpp_counts_each_request() -> None:
    """ggml-org/llama.cpp PR 24536."""
    assert pooled(LLAMA, LLAMA).counts == Counts(40, 80, 40, (24, 16))


def test_llama_cpps_totals_are_no_further_tokens() -> None:
    assert pooled(LLAMA, STATISTICS).counts.draft_tokens == 40


def test_llama_cpps_totals_alone_are_its_last() -> None:
    earlier = STATISTICS.replace(" 20", "  5").replace(" 40", " 10")
    found = pooled(earlier, STATISTICS)
    assert (found.counts.drafts, found.counts.draft_tokens) == (20, 40)
    assert mean_acceptance_length(found.counts) == 2


@pytest.mark.parametrize(
    "line",
    [
        "draft acceptance rate = 0.57576 (  171 accepted /   297 generated)",
        "slot print_timing: id 3 | task 0 | draft acceptance rate = 57.576% (171 / 297)",
        "draft acceptance = 0.57576 (  171 accepted /   297 generated), mean len = 2.73",
    ],
)
def test_older_llama_cpp(line: str) -> None:
    """docs/speculative.md of llama.cpp and its forks, and logs of older builds."""
    found = pooled(line)
    assert (found.counts.accepted_tokens, found.counts.draft_tokens) == (171, 297)
    assert found.counts.drafts is None


@pytest.mark.parametrize(
    "line",
    [
        # SGLang (scheduler_metrics_mixin.py): rates of the last batches, and no counts.
        "[2026-03-01 10:00:00 TP0] Decode batch, #running-req: 3, #full token: 9182, full token "
        "usage: 0.10, accept len: 2.60, accept rate: 0.55, cuda graph: True, gen throughput "
        "(token/s): 190.00, #queue-req: 0",
        "{'meta_info': {'id': '57', 'spec_accept_rate': 0.61, 'spec_accept_length': 2.83}}",
        # TensorRT-LLM's iteration log.
        '{"iter": 7, "specDecodingStats": {"numDraftTokens": 9, "numAcceptedTokens": 4, '
        '"acceptanceLength": 2.3}}',
        # vllm bench serve.
        "Acceptance rate (%):                     38.80     ",
        "Speculative metrics: Draft acceptance rate: 0.642, Mean acceptance length: 3.0",
        "SpecDecoding metrics: Mean acceptance length: 2.91, Accepted throughput: 0.72 tokens/s, "
        "Accepted: 44 tok",
    ],
    ids=["sglang", "sglang-request", "trtllm", "bench", "no-counts", "cut"],
)
def test_other_forms_are_not_understood_and_not_nothing(line: str) -> None:
    log = scan([line])
    assert log.windows == ()
    assert log.unread == line.strip()


@pytest.mark.parametrize(
    "line",
    [
        'INFO:     10.0.0.1:49422 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        "Accept: application/json",
        "DiffusionDecoding metrics: Committed token throughput: 12.00 tokens/s, Committed: 120",
        "config: model='m', speculative_config=SpeculativeConfig(method='mtp', num_spec_tokens=3)",
        "server_args=ServerArgs(speculative_accept_threshold_acc=1.0)",
        "Engine 000: Avg generation throughput: 14.3 tokens/s, Prefix cache hit rate: 0.0%",
    ],
)
def test_lines_about_other_things(line: str) -> None:
    assert log_forms.read(line) == log_forms.NOTHING


def test_vllm_says_itself_that_it_does_not_speculate() -> None:
    log = scan(["Initializing a V1 LLM engine with config: model='m', speculative_config=None, x"])
    assert log.plain is not None


def test_rates_of_the_drafts_that_proposed_a_token_there_are_no_rates_of_all() -> None:
    # 100 drafts, of which 50 proposed a second token: 60 and 40 accepted; 0.8 of 50 is not 0.8.
    found = pooled(v1(100, 150, "2.00", "0.600, 0.800"))
    assert (found.positions, found.counts.drafts) == ((), None)
    assert "over the drafts that proposed a token there" in found.remarks[0]
    assert found.length == 2.0


def test_rates_that_were_cut_off_complete_nothing() -> None:
    whole = v1(44, 161, "2.91", "0.739, 0.478, 0.261, 0.174, 0.130, 0.087, 0.043")
    found = pooled(whole[: whole.index(", 0.130")])
    assert (found.positions, found.counts.per_position) == ((), ())
    assert found.drafts_span == (23, 23)


def test_lines_of_different_numbers_of_draft_tokens_are_not_pooled() -> None:
    three = v1(30, 60, "2.50", "0.700, 0.500, 0.300")
    with pytest.raises(Mixed, match="lines of 2 and of 3 draft tokens"):
        pooled(v1(20, 40, "2.00", "0.600, 0.400"), three)


def test_lines_of_different_programs_are_not_pooled() -> None:
    with pytest.raises(Mixed, match=r"llama\.cpp and of vllm"):
        pooled(v1(20, 40, "2.00", "0.600, 0.400"), LLAMA)


@given(st.lists(counted(), min_size=1, max_size=4))
def test_what_is_certain_holds_what_was_counted(parts: list[Counts]) -> None:
    lines = [
        "SpecDecoding metrics: " + ", ".join(f"{k}: {v}" for k, v in fields(part).items())
        for part in parts
    ]
    try:
        found = pooled(*lines)
    except Mixed:
        return
    drafts = sum(part.drafts or 0 for part in parts)
    accepted = sum(part.accepted_tokens for part in parts)
    assert found.drafts_span is not None
    assert found.length_span is not None
    assert found.drafts_span[0] <= drafts <= found.drafts_span[1]
    assert found.length_span[0] - 1e-9 <= 1 + accepted / drafts <= found.length_span[1] + 1e-9
    for position, span in enumerate(found.position_spans):
        reached = sum(
            part.per_position[position] for part in parts if position < len(part.per_position)
        )
        assert span is not None
        assert span[0] <= reached / drafts <= span[1]


@given(
    st.text(max_size=200),
    st.sampled_from(
        ["Speculative metrics: ", "draft acceptance = ", "statistics x: #gen tokens = "]
    ),
)
def test_no_line_breaks_the_reading(text: str, head: str) -> None:
    log = scan([head + text, text, v0(3, 9, 5, 3, "0.417") + text])
    pool(window for window in log.windows if window.program == "vllm-v0")


V1 = (
    "SpecDecoding metrics: Mean acceptance length: 2.91, Accepted throughput: 4.40 tokens/s, "
    "Drafted throughput: 16.10 tokens/s, Accepted: 44 tokens, Drafted: 161 tokens, Per-position "
    "acceptance rate: 0.739, 0.478, 0.261, 0.174, 0.130, 0.087, 0.043, Avg Draft acceptance rate: "
    "27.3%"
)


@pytest.mark.parametrize(
    "between",
    [
        " (EngineCore_1 pid=7) INFO 11-30 [metrics.py:1] ",
        "\rProcessed prompts: 45%|####| 5/11\r",
        "\\nINFO 11-30 00:11:22 [metrics.py:1] ",
        # A line too long to be looked at whole.
        pytest.param(" x" * log_forms.LONGEST + " ", id="long"),
    ],
)
def test_lines_that_were_joined_into_one_are_all_counted(between: str) -> None:
    found = pool(scan([f"INFO {V1}{between}{V1}\n"]).windows)
    assert (found.windows, found.counts) == (2, Counts(46, 322, 88, (34, 22, 12, 8, 6, 4, 2)))
