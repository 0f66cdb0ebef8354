"""A server's options as the arguments of vLLM's engine, for programs that start it themselves."""

from __future__ import annotations

import json
from typing import Any

from deployctl.vllm.serving.command import DRAIN, LOAD, Serve, Value, speculative_json

OTHERS = (DRAIN, LOAD, "distributed-executor-backend")
"""Options that such a program has its own ways for."""


def engine_arguments(serve: Serve) -> dict[str, Any]:
    """Name and value of each option but those of model, address and executor. A key of a JSON
    option (`a.b`) is in a mapping of its own, a switch `no-a` is `a` that is false."""
    own: dict[str, Value] = {
        "tensor-parallel-size": serve.tensor_parallel_size,
        "max-model-len": serve.max_model_len,
        "gpu-memory-utilization": serve.gpu_memory_utilization,
        "dtype": serve.dtype,
        "kv-cache-dtype": serve.kv_cache_dtype,
        "attention-backend": serve.attention_backend,
    }
    found: dict[str, Any] = {}
    for name, value in {**own, **serve.args}.items():
        if value is not None and name not in OTHERS:
            _put(found, name, value)
    if serve.speculation is not None:
        found["speculative_config"] = json.loads(speculative_json(serve.speculation))
    return found


def _put(found: dict[str, Any], name: str, value: Value) -> None:
    option, *keys = name.split(".")
    if isinstance(value, bool) and not keys and option.startswith("no-"):
        option, value = option.removeprefix("no-"), not value
    place, parts = found, [option.replace("-", "_"), *keys]
    for part in parts[:-1]:
        place = place.setdefault(part, {})
    place[parts[-1]] = _parsed(value)


def _parsed(value: Value) -> Any:
    """JSON that an option takes as text, as data."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
