"""Counters of speculation under the names of other programs and versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployctl.vllm.counters.counts import Counts
from deployctl.vllm.counters.metrics import UNTOLD, WITHOUT, parse
from deployctl.vllm.counters.unreadable import Unreadable

STEMS = {"drafts": 100, "draft_tokens": 300, "accepted_tokens": 150}


def counters(prefix: str, labels: str = "", total: str = "_total") -> str:
    return "".join(
        f"{prefix}spec_decode_num_{stem}{total}{labels} {value}\n" for stem, value in STEMS.items()
    )


@pytest.mark.parametrize(
    "prefix", ["vllm:", "ray_vllm:", "ray_vllm_", "llamacpp:", "vllm_", "myfork:", ""]
)
@pytest.mark.parametrize("total", ["_total", ""])
def test_the_same_counters_under_any_prefix(prefix: str, total: str) -> None:
    """Ray before and after 2.53, llama.cpp's server, OpenTelemetry's spelling of vLLM's."""
    text = counters(prefix, '{model_name="q",ReplicaId="a1"}', total)
    assert parse(text).spec == Counts(100, 300, 150)


def test_replicas_are_summed() -> None:
    text = "".join(counters("ray_vllm_", f'{{model_name="q",ReplicaId="r{i}"}}') for i in range(3))
    assert parse(text).spec == Counts(300, 900, 450)


def test_the_same_counters_under_two_prefixes_are_counted_once() -> None:
    assert parse(counters("vllm:") + counters("ray_vllm:")).spec == Counts(100, 300, 150)


def test_unlike_counters_under_two_prefixes_are_not_added() -> None:
    other = counters("llamacpp:").replace(" 150", " 149")
    with pytest.raises(Unreadable, match="several times and not alike"):
        parse(counters("vllm:") + other)


def test_several_models_are_not_added() -> None:
    text = counters("vllm:", '{model_name="a"}') + counters("vllm:", '{model_name="b"}')
    with pytest.raises(Unreadable, match=r"several models are counted \(a, b\)"):
        parse(text)
    assert parse(text, "b").spec == Counts(100, 300, 150)


def test_a_models_alias_names_the_only_one() -> None:
    assert parse(counters("vllm:", '{model_name="/models/a"}'), "a").spec == Counts(100, 300, 150)


def test_tensorrt_llm_counts_by_position() -> None:
    """tensorrt_llm/metrics: two workers, drafts are those that proposed a first token."""
    name = "trtllm_spec_decode_{}_tokens_total"
    text = "".join(
        f'{name.format(kind)}{{token_position="{position}",worker="{worker}"}} {value}\n'
        for kind, row in (("drafted", (10, 10, 8)), ("accepted", (7, 5, 1)))
        for position, value in enumerate(row)
        for worker in range(2)
    )
    assert parse(text).spec == Counts(20, 56, 26, (14, 10, 2), (20, 20, 16))


def test_counters_without_drafts_give_a_rate_and_no_length() -> None:
    """vLLM 0.8.3, and TensorRT-LLM before it counted by position."""
    text = (
        "trtllm_spec_decode_num_draft_tokens_total 300\n"
        "trtllm_spec_decode_num_accepted_tokens_total 150\n"
    )
    assert parse(text).spec == Counts(None, 300, 150)


@pytest.mark.parametrize(
    "text",
    [
        'sglang:spec_accept_length{dp_rank="0"} 2.55\nsglang:spec_verify_calls_total 8060\n',
        "vllm:spec_decode_draft_acceptance_rate 0.64\n"
        "vllm:spec_decode_num_accepted_tokens_total 900\n"
        "vllm:spec_decode_num_draft_tokens_total 1300\n"
        "vllm:spec_decode_num_emitted_tokens_total 1000\n",
        "tgi_request_skipped_tokens_sum 12\ntgi_request_skipped_tokens_count 4\n",
        "strata_spec_decode_drafts_offered_total 90\n",
    ],
    ids=["sglang", "vllm-v0", "tgi", "other"],
)
def test_other_names_are_not_understood_and_not_nothing(text: str) -> None:
    counted = parse(text)
    assert counted.spec is None
    assert "form that is not understood" in counted.without
    assert text.splitlines()[0].split()[0] in counted.without


def test_a_vllm_without_these_counters_does_not_speculate() -> None:
    assert (
        parse("vllm:generation_tokens_total 7\nvllm:request_success_total 1\n").without == WITHOUT
    )


def test_of_another_program_without_them_nothing_is_known() -> None:
    assert parse("llamacpp:tokens_predicted_total 7\n").without == UNTOLD
    assert parse("").without == UNTOLD


def test_other_counters_whose_names_end_alike_are_not_ours() -> None:
    text = "vllm:external_prefix_cache_hits_total 5\nvllm:prefix_cache_hits_total 2\n"
    assert parse(text).prefix_hits == 2


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["vllm:", "a_", ""]),
            st.sampled_from(["spec_decode_num_drafts", "spec_decode_accepted_tokens", "x"]),
            st.sampled_from(["", '{position="1"}', '{token_position="9"}', '{model_name="m"}']),
            st.sampled_from(["1", "NaN", "-1", "1e300", "x"]),
        ),
        max_size=6,
    )
)
def test_any_samples_are_counts_or_unreadable(rows: list[tuple[str, str, str, str]]) -> None:
    text = "".join(f"{prefix}{stem}{labels} {value}\n" for prefix, stem, labels, value in rows)
    try:
        parse(text)
    except Unreadable as error:
        assert str(error)
