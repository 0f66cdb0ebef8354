"""The command line of `vllm serve`, rendered from typed settings for the version that was built."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from deployctl.vllm.serving.knowledge import Knowledge

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
    answers: bool = True
    """Whether it has an API; a rank without one has no address."""


def command(serve: Serve) -> list[str]:
    """The argv. Options with None are left out; a list repeats its values."""
    argv = [serve.program, "serve", serve.model]
    own: dict[str, Value] = {
        "served-model-name": serve.served_name,
        "host": serve.host if serve.answers else None,
        "port": serve.port if serve.answers else None,
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
    """One option as argv: `max-num-seqs: 8`, `enforce-eager: true`, a list for repeated values.

    A switch that is false is vLLM's `--no-…`; a key of a JSON option has a value in any case.
    """
    if value is None:
        return []
    if isinstance(value, list):
        return [f"--{name}", *value]
    if not isinstance(value, bool):
        return [f"--{name}", str(value)]
    if "." in name:
        return [f"--{name}", json.dumps(value)]
    if value:
        return [f"--{name}"]
    return [f"--{name.removeprefix('no-')}" if name.startswith("no-") else f"--no-{name}"]


def speculative_json(speculation: Speculation) -> str:
    """The value of --speculative-config."""
    document: dict[str, Any] = {"method": speculation.method}
    if speculation.model is not None:
        document["model"] = speculation.model
    document["num_speculative_tokens"] = speculation.tokens
    document.update(speculation.more)
    return json.dumps(document, separators=(",", ":"))


def environment(given: Mapping[str, str], gpus: Sequence[int] | None) -> dict[str, str]:
    """The server's own variables; `gpus` None leaves the choice to vLLM, [] leaves none visible."""
    env = dict(given)
    if gpus is not None:
        env.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        env.setdefault("CUDA_VISIBLE_DEVICES", ",".join(str(index) for index in gpus))
    return env


def compiled_caches(folder: str) -> dict[str, str]:
    """Variables by which vLLM (0.20 to 0.33), Inductor and Triton keep compiled code in a folder.

    vLLM names what it keeps by its own digest of the configuration, and DeepGEMM's folder follows
    from the first. FlashInfer's is left where it is, since it holds downloaded kernels as well.
    """
    return {
        "VLLM_CACHE_ROOT": f"{folder}/vllm",
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        "TRITON_CACHE_DIR": f"{folder}/triton",
    }


def problems(serve: Serve, knowledge: Knowledge, target: str) -> list[str]:
    """What this vLLM would refuse, or run wrongly, in sentences; [] where nothing is known.

    `target` is what the build is for: cuda, cpu or empty.
    """
    speculation = serve.speculation
    if speculation is None:
        return []
    found = [
        f"this vLLM knows no key {key} of the speculative config"
        for key in ("method", "num_speculative_tokens", *speculation.more)
        if knowledge.knows_key(key) is False
    ]
    if knowledge.knows_method(speculation.method) is False and speculation.method != "dflash":
        names = ", ".join(sorted(knowledge.methods or ()))
        found.append(f"this vLLM knows no drafting method {speculation.method}: it knows {names}")
    if speculation.method == "dflash":
        found += _dflash_problems(serve, knowledge, target)
    return found


def _dflash_problems(serve: Serve, knowledge: Knowledge, target: str) -> list[str]:
    found = []
    version = knowledge.version
    if knowledge.knows_dflash() is False:
        found.append("DFlash is unsupported before vLLM 0.20")
    usable, given = knowledge.non_causal_backends(), backend(serve)
    if target == "cuda" and given is not None and usable and given not in usable:
        found.append(
            f"attention backend {given} cannot do DFlash's non-causal attention; "
            f"usable here: {', '.join(sorted(usable))}"
        )
    if version is not None and version[:2] == (0, 20) and (serve.kv_cache_dtype or "")[:3] == "fp8":
        found.append("DFlash on vLLM 0.20 cannot use an fp8 KV cache")
    return found


def backend(serve: Serve) -> str | None:
    """The attention backend asked for, by vLLM's own name."""
    named = serve.attention_backend or serve.args.get("attention-backend")
    return str(named).upper() if named else None


def with_backend(serve: Serve, knowledge: Knowledge, target: str) -> Serve:
    """Choose a backend for DFlash where this vLLM would otherwise take one that cannot."""
    speculation, usable = serve.speculation, knowledge.non_causal_backends()
    if speculation is None or speculation.method != "dflash" or target != "cuda":
        return serve
    if backend(serve) is not None or not usable or "FLASHINFER" in usable:
        return serve
    return replace(serve, attention_backend="FLASH_ATTN")


DRAIN, LOAD = "shutdown-timeout", "enable-server-load-tracking"
TEARDOWN = 5.0
"""Seconds that vLLM takes to end once its requests have ended (measured idle: 5.6 on two cores,
hardly any where there was no timeout)."""


def drain_seconds(grace: float) -> int:
    """For how long a server lets its requests end when it is stopped: as long as it is sure to be
    gone before the SIGKILL that comes `grace` seconds after SIGTERM; 0 for not at all."""
    return max(0, math.floor(grace - TEARDOWN))


def with_drain(serve: Serve, knowledge: Knowledge, grace: float) -> Serve:
    """Let requests end before the server does, and count them at the door, where this vLLM knows
    how and the profile says nothing else."""
    more: dict[str, Value] = {}
    if not serve.answers:
        return serve
    if knowledge.knows_option(DRAIN) and drain_seconds(grace):
        more[DRAIN] = drain_seconds(grace)
    if knowledge.knows_option(LOAD) and not any(_several(serve.args, name) for name in FRONT_ENDS):
        more[LOAD] = True
    return replace(serve, args={**more, **serve.args})


FRONT_ENDS = ("api-server-count", "data-parallel-size")
"""Options above 1 that start several API servers on one port; each counts its own requests."""


def _several(args: Mapping[str, Value], name: str) -> bool:
    return str(args.get(name, args.get(name.replace("-", "_"), 1))) != "1"


def counts_requests(argv: Sequence[str]) -> bool:
    """Whether a server with this command line counts its requests, all of them in one place."""
    given = dict(pairwise(argv))
    several = any(given.get(f"--{name}", "1") != "1" for name in FRONT_ENDS)
    return f"--{LOAD}" in argv and not several


def drained_within(argv: Sequence[str], args: Mapping[str, Value], grace: float) -> list[str]:
    """A command line of before with a drain that fits today's grace, unless the profile sets it."""
    made = list(argv)
    if f"--{DRAIN}" in made and DRAIN not in args:
        made[made.index(f"--{DRAIN}") + 1] = str(drain_seconds(grace))
    return made
