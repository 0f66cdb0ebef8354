"""The measurement against a stand-in that counts as vLLM does, and misbehaves where told."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from deployctl.vllm.acceptance import measurement
from deployctl.vllm.acceptance.judgement import Gate
from deployctl.vllm.acceptance.measurement import Measured, Protocol, measure
from deployctl.vllm.client.client import Client
from deployctl.vllm.client.prompt_sets import Prompt
from deployctl.vllm.counters.counts import Counts, mean_acceptance_length
from tests.unit.vllm.loopback import respond, serving

K = 3
NAME = "vllm:spec_decode_num_"
NO_FLOOR = Gate()


@dataclass
class CountingStandIn:
    """Drafts `drafts` times a request, of which every draft has `accepted` tokens accepted.

    `lag` readings of /metrics after an answer still show the old counters. `foreign` requests
    run beside each of ours from number `foreign_from` on, and `probes` of one token. `restart_at`
    is the request after which the counters begin anew.
    """

    drafts: int = 10
    accepted: int = 2
    speculates: bool = True
    lag: int = 0
    foreign: int = 0
    foreign_from: int = 0
    probes: int = 0
    restart_at: int | None = None
    per_request: bool = False
    stuck: bool = False
    requests: int = 0
    counted: int = 0
    _unread: int = 0
    bodies: list[dict[str, object]] = field(default_factory=list)

    def behave(self, connection: socket.socket, request: bytes) -> None:
        path, _, body = request.partition(b"\r\n\r\n")
        answers: dict[bytes, Callable[[bytes], bytes]] = {
            b"/v1/chat/completions": self.chat,
            b"/metrics": self.metrics,
            b"/v1/models": lambda body: b'{"data": [{"id": "m", "max_model_len": 1000}]}',
            b"/version": lambda body: b'{"version": "0.32.0"}',
            b"/tokenize": lambda body: b'{"count": 500}',
        }
        respond("200 OK", answers[path.split()[1]](body))(connection, request)

    def chat(self, body: bytes) -> bytes:
        self.bodies.append(json.loads(body))
        self.requests += 1
        self._unread = self.lag
        if not self.stuck:
            self.counted += 1
        if self.restart_at == self.requests:
            self.counted = 1
        answer: dict[str, object] = {
            "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": self.tokens},
        }
        if self.per_request:
            histogram = [0] * (K + 1)
            histogram[self.accepted] = self.drafts
            answer["metrics"] = {
                "speculative_decoding": {
                    "acceptance_histogram": histogram,
                    "num_spec_steps": self.drafts,
                    "num_draft_tokens": self.drafts * K,
                    "num_accepted_draft_tokens": self.drafts * self.accepted,
                }
            }
        return json.dumps(answer).encode()

    @property
    def tokens(self) -> int:
        return self.drafts * (1 + self.accepted)

    def metrics(self, body: bytes) -> bytes:
        ours = self.counted
        if self._unread > 0:
            self._unread -= 1
            ours -= 1
        others = self.foreign * max(0, self.counted - self.foreign_from)
        done, probes = ours + others, self.probes * ours
        lines = [
            f"vllm:generation_tokens_total {done * self.tokens + probes}",
            f'vllm:request_success_total{{finished_reason="stop"}} {done + probes}',
        ]
        if self.speculates:
            lines += [
                f"{NAME}drafts_total {done * self.drafts}",
                f"{NAME}draft_tokens_total {done * self.drafts * K}",
                f"{NAME}accepted_tokens_total {done * self.drafts * self.accepted}",
                *(
                    f'{NAME}accepted_tokens_per_pos_total{{position="{i}"}} '
                    f"{done * self.drafts * (i < self.accepted)}"
                    for i in range(K)
                ),
            ]
        return "\n".join(lines).encode() + b"\n"


@contextmanager
def client_of(server: CountingStandIn) -> Iterator[Client]:
    with serving(server.behave) as url, Client(url) as client:
        yield client


def protocol(prompts: int = 16, gate: Gate = NO_FLOOR, **given: object) -> Protocol:
    fields: dict[str, object] = {
        "model": "m",
        "prompt_set": "test",
        "prompts": tuple(Prompt(f"prompt {i}") for i in range(prompts)),
        "max_tokens": 100,
        "temperature": 0.0,
        "thinking": None,
        "timeout": 60.0,
        "gate": gate,
        "seed": 0,
    }
    return Protocol(**fields | given)  # type: ignore[arg-type]


def with_prompts(prompts: tuple[Prompt, ...]) -> Protocol:
    return replace(protocol(gate=Gate(min_length=2)), prompts=prompts)


def measured(server: CountingStandIn, asked: Protocol) -> Measured:
    with client_of(server) as client:
        return measure(client, asked, lambda done, limit, counts: None)


def test_each_request_is_a_sample_and_the_pool_is_their_sum() -> None:
    server = CountingStandIn()
    taken = measured(server, protocol(16, Gate(min_length=3)))
    assert taken.judgement.verdict == "pass"
    assert taken.samples == [Counts(10, 30, 20, (10, 10, 0))] * 12
    assert taken.counts == Counts(120, 360, 240, (120, 120, 0))
    assert mean_acceptance_length(taken.counts) == 3
    assert (taken.source, taken.version) == ("metrics", "0.32.0")


def test_a_clear_case_stops_at_the_first_look() -> None:
    server = CountingStandIn()
    assert measured(server, protocol(64, Gate(min_length=2))).judgement.verdict == "pass"
    assert server.requests == 12


def test_a_clear_failure_stops_too() -> None:
    server = CountingStandIn(accepted=0)
    assert measured(server, protocol(64, Gate(min_length=2))).judgement.verdict == "fail"
    assert server.requests == 12


def test_counters_that_lag_are_waited_for() -> None:
    server = CountingStandIn(lag=3)
    taken = measured(server, protocol(3))
    assert taken.samples == [Counts(10, 30, 20, (10, 10, 0))] * 3


def test_counters_that_never_catch_up_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "SETTLE", 0.2)
    taken = measured(CountingStandIn(stuck=True), protocol(3))
    assert taken.judgement.verdict == "unknown"
    assert "did not catch up" in taken.judgement.reasons[0]


def test_no_speculation_is_unknown_and_never_a_number() -> None:
    taken = measured(CountingStandIn(speculates=False), protocol(3))
    assert taken.judgement.verdict == "unknown"
    assert "does not speculate" in taken.judgement.reasons[0]
    assert mean_acceptance_length(taken.counts) is None


def test_nothing_drafted_is_no_data() -> None:
    server = CountingStandIn(drafts=0)
    taken = measured(server, protocol(3, Gate(min_length=2)))
    assert taken.judgement.verdict == "no-data"


def test_a_restart_in_the_middle_is_unknown() -> None:
    taken = measured(CountingStandIn(restart_at=5), protocol(16))
    assert taken.judgement.verdict == "unknown"
    assert "restarted" in taken.judgement.reasons[0]
    assert mean_acceptance_length(taken.counts) is None


def test_requests_beside_which_others_ran_are_left_out_and_said() -> None:
    server = CountingStandIn(foreign=1, foreign_from=8)
    taken = measured(server, protocol(11))
    assert len(taken.samples) == 8
    assert (taken.left_out, taken.foreign_requests, taken.foreign_tokens) == (3, 3, 90)


def test_proofs_of_life_beside_ours_are_no_drafts() -> None:
    """Found: twenty runs at once each asked whether the server lives, and the gate of the one that
    worked had too few requests left."""
    taken = measured(CountingStandIn(probes=2), protocol(4))
    assert taken.samples == [Counts(10, 30, 20, (10, 10, 0))] * 4
    assert (taken.left_out, taken.foreign_requests, taken.foreign_tokens) == (0, 8, 8)
    beside = measured(CountingStandIn(probes=2, foreign=1, foreign_from=2), protocol(4))
    assert (len(beside.samples), beside.left_out) == (2, 2)


def test_traffic_beside_every_request_leaves_nothing_to_judge() -> None:
    taken = measured(CountingStandIn(foreign=2), protocol(4))
    assert taken.judgement.verdict == "unknown"
    assert "other traffic" in taken.judgement.reasons[0]


def test_the_servers_own_count_for_each_request_stands_apart_from_other_traffic() -> None:
    server = CountingStandIn(foreign=2, per_request=True)
    taken = measured(server, protocol(4))
    assert taken.source == "requests"
    assert taken.samples == [Counts(10, 30, 20, (10, 10, 0))] * 4
    assert taken.left_out == 0


def test_a_failing_request_is_unknown_with_its_reason() -> None:
    with serving(respond("503 Service Unavailable", b"engine dead")) as url, Client(url) as client:
        taken = measure(client, protocol(3), lambda done, limit, counts: None)
    assert taken.judgement.verdict == "unknown"
    assert "engine dead" in taken.judgement.reasons[0]


def test_everything_that_matters_is_pinned_in_the_request() -> None:
    server = CountingStandIn()
    measured(server, protocol(2, temperature=0.7, thinking=False, seed=9))
    body = server.bodies[0]
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.7, 9, 100)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


def test_a_set_that_the_target_does_not_answer_cannot_tell() -> None:
    prompts = tuple(Prompt(f"Write {n}.", expects="def ") for n in range(12))
    taken = measured(CountingStandIn(accepted=0), with_prompts(prompts))
    assert taken.judgement.verdict == "undecided"
    assert "the target itself does not answer it, 0 of 12" in taken.judgement.reasons[0]


def test_a_set_that_does_not_fit_the_context_cannot_tell() -> None:
    prompts = tuple(Prompt(f"Write {n}.", filler_tokens=3000) for n in range(12))
    taken = measured(CountingStandIn(accepted=0), with_prompts(prompts))
    assert taken.judgement.verdict == "undecided"
    assert "no room for 2228 tokens of its filler" in taken.judgement.reasons[0]


def test_prompts_that_the_last_good_release_was_asked_are_compared() -> None:
    prompts = tuple(Prompt(f"prompt {i}") for i in range(16))
    earlier = {prompt.key: Counts(10, 30, 20) for prompt in prompts[:12]}
    same = measured(CountingStandIn(), protocol(gate=Gate(tolerance=0.1), earlier=earlier))
    assert same.judgement.verdict == "pass"
    assert "on the 12 prompts" in same.judgement.reasons[0]
    worse = measured(
        CountingStandIn(accepted=1), protocol(gate=Gate(tolerance=0.1), earlier=earlier)
    )
    assert worse.judgement.verdict == "fail"


def test_the_interval_of_an_early_stop_is_the_one_that_decided() -> None:
    taken = measured(CountingStandIn(), protocol(64, Gate(min_length=2)))
    assert taken.judgement.interval is not None
    assert taken.judgement.interval.confidence == pytest.approx(0.995)


def test_an_answer_is_asked_no_longer_than_the_context_leaves_room_for() -> None:
    server = CountingStandIn()
    measured(server, protocol(1, max_tokens=4000))
    assert server.bodies[0]["max_tokens"] == 500
