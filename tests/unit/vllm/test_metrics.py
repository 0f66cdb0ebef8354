"""Cases 3 and 4, and readings of real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployctl.vllm.counters.counts import Counts
from deployctl.vllm.counters.metrics import Restarted, difference, in_flight, parse
from deployctl.vllm.counters.unreadable import Unreadable

CASES = Path(__file__).parents[2] / "cases"


def reading(name: str) -> str:
    return (CASES / name).read_text()


def test_eight_engines_are_summed_and_creation_times_never_counted() -> None:
    counters = parse(reading("metrics/v1_dp8_with_created.prom.txt"))
    assert counters.spec is not None
    assert counters.spec.drafts == 188


def test_one_engine() -> None:
    counters = parse(reading("metrics/v1_single_engine.prom.txt"))
    assert counters.spec == Counts(1000, 3000, 1660, (710, 530, 420))


def test_counters_that_go_backwards_are_a_restart() -> None:
    before = parse(reading("metrics/pair_counter_reset_before.prom.txt"))
    after = parse(reading("metrics/pair_counter_reset_after.prom.txt"))
    with pytest.raises(Restarted, match="went backwards, the server restarted, acceptance unknown"):
        difference(before, after)


def test_a_restart_is_noticed_although_the_counters_have_passed_the_old_ones() -> None:
    text = reading("vllm_cpu/metrics-0.32.0-dflash.txt")
    later = text.replace("1.795997923", "1.795999999")
    assert later != text
    with pytest.raises(Restarted, match="restarted between"):
        difference(parse(text), parse(later))


def test_a_server_without_speculation_has_no_counts() -> None:
    counters = parse(reading("vllm_cpu/metrics-0.32.0-plain.txt"))
    assert counters.spec is None
    assert (counters.generation_tokens, counters.requests) == (600, 3)


@pytest.mark.parametrize("version", ["0.20.1", "0.32.0"])
def test_real_counters(version: str) -> None:
    counters = parse(reading(f"vllm_cpu/metrics-{version}-ngram.txt"))
    assert counters.spec == Counts(129, 477, 303, (102, 87, 69, 45))
    assert (counters.generation_tokens, counters.requests) == (600, 3)


def test_difference_of_one_process() -> None:
    text = reading("metrics/v1_single_engine.prom.txt")
    later = text.replace(" 1000.0", " 1010.0").replace(" 3000.0", " 3030.0")
    later = later.replace(" 1660.0", " 1675.0").replace(" 710.0", " 719.0")
    assert difference(parse(text), parse(later)).spec == Counts(10, 30, 15, (9, 0, 0))


def test_a_position_that_appears_later_counts_from_nothing() -> None:
    text = reading("metrics/v1_single_engine.prom.txt")
    fewer = "\n".join(line for line in text.splitlines() if 'position="2"' not in line)
    assert difference(parse(fewer), parse(text)).spec == Counts(0, 0, 0, (0, 0, 420))


def test_drafted_tokens_per_position_where_a_version_has_them() -> None:
    text = reading("metrics/v1_single_engine.prom.txt")
    name = "vllm:spec_decode_num_draft_tokens_per_pos_total"
    text += "".join(f'{name}{{engine="0",position="{i}"}} {n}\n' for i, n in enumerate((9, 4, 0)))
    spec = parse(text).spec
    assert spec is not None
    assert spec.drafted_per_position == (9, 4, 0)


def test_speculation_that_appears_in_the_middle_is_a_restart() -> None:
    with pytest.raises(Restarted):
        difference(parse(""), parse(reading("metrics/v1_single_engine.prom.txt")))


@pytest.mark.parametrize("text", ["<html><body>502</body></html>", "vllm:x{a= 1"])
def test_what_is_no_exposition_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        parse(text)


COUNTED = "vllm:spec_decode_num_"


@pytest.mark.parametrize(
    "line",
    [
        *(f"{COUNTED}drafts_total {value}" for value in ("NaN", "+Inf", "-5", "9" * 400)),
        f'{COUNTED}accepted_tokens_per_pos_total{{position="0"}} NaN',
        *(
            f'{COUNTED}accepted_tokens_per_pos_total{{position="{position}"}} 1'
            for position in ("x", "-1", "1e9", "9" * 12, "")
        ),
        "vllm:generation_tokens_total NaN",
    ],
)
def test_what_is_no_count_is_unreadable_and_never_a_number(line: str) -> None:
    text = reading("metrics/v1_single_engine.prom.txt")
    name = line.partition(" ")[0].partition("{")[0]
    others = [one for one in text.splitlines() if not one.startswith(f"{name}{{")]
    with pytest.raises(Unreadable):
        parse("\n".join([*others, line, ""]))


def test_a_gauge_that_is_no_count_is_unreadable() -> None:
    with pytest.raises(Unreadable):
        in_flight('vllm:num_requests_running{engine="0"} NaN\n')


def test_counts_with_exponents_and_other_line_ends() -> None:
    text = reading("metrics/v1_single_engine.prom.txt").replace(" 1000.0", " 1e+03")
    assert parse(text.replace("\n", "\r\n")).spec == Counts(1000, 3000, 1660, (710, 530, 420))
