"""The command line of `vllm serve`, rendered from typed settings for the version that was built."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Value = str | int | float | bool | list[str] | None


@dataclass(frozen=True)
class Speculation:
    """How tokens are drafted; `model` is a folder, None for a method without one."""

    method: str
    tokens: int
    model: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Serve:
    """What is served and how, as plain values; paths are absolute on the host."""

    program: str
    model: str
    served_name: str
    host: str
    port: int
    tensor_parallel_size: int = 1
    max_model_len: int | None = None
    gpu_memory_utilization: float | None = None
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    attention_backend: str | None = None
    args: Mapping[str, Value] = field(default_factory=dict)
    speculation: Speculation | None = None


def command(serve: Serve) -> list[str]:
    """The argv. Options with None or False are left out; a list repeats its values."""
    argv = [serve.program, "serve", serve.model]
    own: dict[str, Value] = {
        "served-model-name": serve.served_name,
        "host": serve.host,
        "port": serve.port,
        "tensor-parallel-size": serve.tensor_parallel_size,
        "max-model-len": serve.max_model_len,
        "gpu-memory-utilization": serve.gpu_memory_utilization,
        "dtype": serve.dtype,
        "kv-cache-dtype": serve.kv_cache_dtype,
        "attention-backend": serve.attention_backend,
    }
    for name, value in {**own, **serve.args}.items():
        argv += option(name, value)
    if serve.speculation is not None:
        argv += ["--speculative-config", speculative_json(serve.speculation)]
    return argv


def option(name: str, value: Value) -> list[str]:
    """One option as argv: `max-num-seqs: 8`, `enforce-eager: true`, a list for repeated values."""
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{name}"]
    if isinstance(value, list):
        return [f"--{name}", *value]
    return [f"--{name}", str(value)]


def speculative_json(speculation: Speculation) -> str:
    """The value of --speculative-config."""
    document: dict[str, Any] = {"method": speculation.method}
    if speculation.model is not None:
        document["model"] = speculation.model
    document["num_speculative_tokens"] = speculation.tokens
    document.update(speculation.more)
    return json.dumps(document, separators=(",", ":"))


def environment(given: Mapping[str, str], gpus: Sequence[int] | None) -> dict[str, str]:
    """The server's own variables; `gpus` None leaves the choice to vLLM, [] hides all."""
    env = dict(given)
    if gpus is not None:
        env.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        env.setdefault("CUDA_VISIBLE_DEVICES", ",".join(str(index) for index in gpus))
    return env
