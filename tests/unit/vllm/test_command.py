"""The command line of vllm serve as data: settings and version in, argv or objections out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from deployctl.vllm.serving.command import (
    Serve,
    Speculation,
    Value,
    command,
    counts_requests,
    drained_within,
    environment,
    problems,
    with_backend,
    with_drain,
)
from deployctl.vllm.serving.knowledge import Knowledge, read, version

PLAIN = Serve("/env/bin/vllm", "/models/target", "tiny", "127.0.0.1", 8123)
DFLASH = replace(PLAIN, speculation=Speculation("dflash", 7, "/models/drafter"))
HEAD = ["/env/bin/vllm", "serve", "/models/target", "--served-model-name", "tiny"]
HEAD += ["--host", "127.0.0.1", "--port", "8123", "--tensor-parallel-size", "1"]


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({}, []),
        ({"max_model_len": 1024}, ["--max-model-len", "1024"]),
        ({"gpu_memory_utilization": 0.85}, ["--gpu-memory-utilization", "0.85"]),
        ({"attention_backend": "flash_attn"}, ["--attention-backend", "flash_attn"]),
        ({"args": {"max-num-seqs": 8}}, ["--max-num-seqs", "8"]),
        (
            {"args": {"enforce-eager": True, "enable-prefix-caching": False}},
            ["--enforce-eager", "--no-enable-prefix-caching"],
        ),
        ({"args": {"no-async-scheduling": False}}, ["--async-scheduling"]),
        ({"args": {"no-async-scheduling": True}}, ["--no-async-scheduling"]),
        (
            {"args": {"compilation-config.cudagraph_mode": "FULL", "compilation-config.x": False}},
            ["--compilation-config.cudagraph_mode", "FULL", "--compilation-config.x", "false"],
        ),
        ({"args": {"api-server-count": None}}, []),
        ({"args": {"lora-modules": ["a=/x y", "b=/z"]}}, ["--lora-modules", "a=/x y", "b=/z"]),
    ],
)
def test_settings_become_options(changes: dict[str, Any], more: list[str]) -> None:
    assert command(replace(PLAIN, **changes)) == HEAD + more


def test_speculation_is_json_of_one_argument() -> None:
    serve = replace(PLAIN, speculation=Speculation("dflash", 7, "/a b/'c'", {"revision": "$x`y`"}))
    assert command(serve)[:-2] == HEAD
    option, value = command(serve)[-2:]
    assert option == "--speculative-config"
    assert json.loads(value) == {
        "method": "dflash",
        "model": "/a b/'c'",
        "num_speculative_tokens": 7,
        "revision": "$x`y`",
    }


def test_a_method_without_a_model_has_none() -> None:
    serve = replace(PLAIN, speculation=Speculation("ngram", 4, None, {"prompt_lookup_max": 4}))
    assert json.loads(command(serve)[-1]) == {
        "method": "ngram",
        "num_speculative_tokens": 4,
        "prompt_lookup_max": 4,
    }


@pytest.mark.parametrize(
    ("release", "key", "known"),
    [
        ("0.20.1", "attention_backend", False),
        ("0.21.0", "attention_backend", True),
        ("0.20.2", "draft_sample_method", False),
        ("0.29.0", "disable_eagle_block_drop", False),
        ("0.30.0", "disable_eagle_block_drop", True),
        ("0.33.0", "disable_eagle_block_drop", True),
        (None, "disable_eagle_block_drop", None),
        ("0.33.0", "something_else", None),
    ],
)
def test_keys_by_version(release: str | None, key: str, known: bool | None) -> None:
    knowledge = read(release)
    assert knowledge.knows_key(key) is known
    assert DFLASH.speculation is not None
    serve = replace(DFLASH, speculation=replace(DFLASH.speculation, more={key: 1}))
    assert bool(problems(serve, knowledge, "cpu")) is (known is False)


def test_keys_of_the_built_source_win_over_the_table() -> None:
    knowledge = read("0.20.0", {"speculative_keys": ["method", "num_speculative_tokens", "new"]})
    assert knowledge.knows_key("new") is True
    assert knowledge.knows_key("attention_backend") is False


@pytest.mark.parametrize(
    ("release", "given", "chosen", "refused"),
    [
        ("0.20.1", None, "FLASH_ATTN", False),
        ("0.23.0", None, "FLASH_ATTN", False),
        ("0.24.0", None, None, False),
        (None, None, None, False),
        ("0.23.0", "flashinfer", "FLASHINFER", True),
        ("0.23.0", "FLEX_ATTENTION", "FLEX_ATTENTION", False),
        ("0.24.0", "flashinfer", "FLASHINFER", False),
        ("0.33.0", "TORCH_SDPA", "TORCH_SDPA", True),
        (None, "TORCH_SDPA", "TORCH_SDPA", False),
    ],
)
def test_attention_backend_of_dflash(
    release: str | None, given: str | None, chosen: str | None, refused: bool
) -> None:
    knowledge = read(release)
    serve = with_backend(replace(DFLASH, attention_backend=given), knowledge, "cuda")
    shown = serve.attention_backend
    assert (shown and shown.upper()) == chosen
    assert bool(problems(serve, knowledge, "cuda")) is refused


def test_backends_are_left_alone_on_a_cpu_and_without_dflash() -> None:
    old = read("0.20.1")
    assert with_backend(DFLASH, old, "cpu").attention_backend is None
    assert with_backend(PLAIN, old, "cuda").attention_backend is None
    assert problems(replace(DFLASH, attention_backend="TORCH_SDPA"), old, "cpu") == []


@pytest.mark.parametrize(
    ("release", "cache", "refused"),
    [("0.20.0", "fp8_e4m3", True), ("0.20.0", "auto", False), ("0.24.0", "fp8", False)],
)
def test_cache_types_that_dflash_cannot_use(release: str, cache: str, refused: bool) -> None:
    found = problems(replace(DFLASH, kv_cache_dtype=cache), read(release), "cuda")
    assert any("fp8" in sentence for sentence in found) is refused


def test_dflash_before_its_time_is_unsupported() -> None:
    assert problems(DFLASH, read("0.19.1"), "cpu") == ["DFlash is unsupported before vLLM 0.20"]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0.32.0", (0, 32, 0)),
        ("v0.33.0", (0, 33, 0)),
        ("0.21", (0, 21, 0)),
        ("0.32.0+cpu", (0, 32, 0)),
        ("0.30.0rc1", (0, 30, 0)),
        ("0.1.dev17435+gabcdef", None),
        ("0.23.1.dev4+g0123456.cu129", None),
        ("", None),
        (None, None),
    ],
)
def test_a_development_version_says_nothing(text: str | None, numbers: Any) -> None:
    assert version(text) == numbers


def test_gpus_are_numbered_as_nvidia_smi_does() -> None:
    assert environment({"A": "1"}, [2, 0]) == {
        "A": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "2,0",
    }
    assert environment({}, []) == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ""}
    assert environment({}, None) == {}
    assert environment({"CUDA_VISIBLE_DEVICES": "7"}, [1])["CUDA_VISIBLE_DEVICES"] == "7"


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert problems(DFLASH, Knowledge(), "cuda") == []
    assert problems(PLAIN, read("0.19.1"), "cuda") == []


def test_a_build_without_a_version_is_judged_by_its_source() -> None:
    source = read(None, {"methods": ["dflash"], "non_causal": ["FLASH_ATTN", "FLEX_ATTENTION"]})
    assert with_backend(DFLASH, source, "cuda").attention_backend == "FLASH_ATTN"
    (refused,) = problems(replace(DFLASH, attention_backend="FLASHINFER"), source, "cuda")
    assert refused.startswith("attention backend FLASHINFER cannot do DFlash's non-causal")
    later = read(None, {"methods": ["dflash"], "non_causal": ["FLASH_ATTN", "FLASHINFER"]})
    assert with_backend(DFLASH, later, "cuda").attention_backend is None
    other = read(None, {"methods": ["eagle"]})
    assert problems(DFLASH, other, "cuda") == ["DFlash is unsupported before vLLM 0.20"]


STOPS = read(None, {"options": ["shutdown-timeout", "enable-server-load-tracking"]})


@pytest.mark.parametrize(
    ("grace", "known", "args", "expected"),
    [
        (20.0, STOPS, {}, ["--shutdown-timeout", "15", "--enable-server-load-tracking"]),
        (35.5, STOPS, {}, ["--shutdown-timeout", "30", "--enable-server-load-tracking"]),
        (2.0, STOPS, {}, ["--enable-server-load-tracking"]),
        (
            20.0,
            STOPS,
            {"shutdown-timeout": 3},
            ["--shutdown-timeout", "3", "--enable-server-load-tracking"],
        ),
        (
            20.0,
            STOPS,
            {"enable-server-load-tracking": False},
            ["--shutdown-timeout", "15", "--no-enable-server-load-tracking"],
        ),
        (20.0, read("0.32.0"), {}, []),
    ],
)
def test_requests_end_before_the_server_does(
    grace: float, known: Knowledge, args: dict[str, Any], expected: list[str]
) -> None:
    assert command(with_drain(replace(PLAIN, args=args), known, grace)) == HEAD + expected


def test_a_drain_of_before_fits_todays_grace() -> None:
    argv = command(with_drain(PLAIN, STOPS, 60.0))
    assert drained_within(argv, {}, 20.0) == command(with_drain(PLAIN, STOPS, 20.0))
    assert drained_within(argv, {}, 3.0)[argv.index("--shutdown-timeout") + 1] == "0"
    assert drained_within(argv, {"shutdown-timeout": 55}, 20.0) == argv
    assert drained_within(HEAD, {}, 20.0) == HEAD


@pytest.mark.parametrize(
    "args",
    [
        {"api-server-count": 4},
        {"api_server_count": 2},
        {"data-parallel-size": 2},
        {"data_parallel_size": "8"},
    ],
)
def test_several_front_ends_do_not_count_together(args: dict[str, Value]) -> None:
    made = command(with_drain(replace(PLAIN, args=args), STOPS, 20.0))
    assert "--enable-server-load-tracking" not in made
    assert not counts_requests([*made, "--enable-server-load-tracking"]) or "_" in str(args)


def test_one_front_end_counts_its_requests() -> None:
    assert counts_requests(command(with_drain(PLAIN, STOPS, 20.0)))
    assert not counts_requests(command(PLAIN)) and not counts_requests([])
