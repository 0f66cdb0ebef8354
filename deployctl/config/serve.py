"""How the server is started, supervised and found ready."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from deployctl.config.base import (
    Duration,
    Settings,
    collected,
    misfit,
    named_as_variables,
    refuse,
)
from deployctl.config.secrets import exposed

Argument = str | int | float | bool | list[str] | None

_OWN_SETTING = {
    "host": "serve.host",
    "port": "serve.port",
    "tensor_parallel_size": "serve.tensor_parallel_size",
    "max_model_len": "serve.max_model_len",
    "gpu_memory_utilization": "serve.gpu_memory_utilization",
    "dtype": "serve.dtype",
    "kv_cache_dtype": "serve.kv_cache_dtype",
    "attention_backend": "serve.attention_backend",
    "api_key": "serve.api_key, which names the variable that holds it",
    "model": "model",
    "served_model_name": "model.served_name",
    "speculative_config": "drafter",
}
"""Options of `vllm serve` that a profile says elsewhere."""


class ReadySettings(Settings):
    """When a started server counts as ready."""

    stall: Duration = 600.0
    """No new phase, and hardly any work of processor, disk or GPU for this long: it hangs."""
    limit: Duration | None = 7200.0
    """A limit on the whole start, however busy it is: two hours by default; none for null."""
    completion: Duration = 120.0
    """A completion of a few tokens must come back within this."""


class LivenessSettings(Settings):
    """When a server that was proven counts as hung: it is killed and restarted then."""

    interval: Duration = Field(default=30.0, ge=1)
    """Between two looks; where tokens were produced since the last one, nothing is asked."""
    completion: Duration = Field(default=60.0, ge=1)
    """A completion of one token must come back within this."""
    failures: int = Field(default=2, ge=1)
    """Looks in a row without a completion, and without progress for others, until the restart."""


class SecretSettings(Settings):
    """Values that never appear in a profile, argv, log or report: names of variables here."""

    env: str
    """The variable of deployctl's own environment that holds the value."""


def own_address(host: str) -> str:
    """An address at which a machine itself reaches what listens on `host` there."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


class ServeSettings(Settings):
    """The server's launch settings."""

    host: str = "127.0.0.1"
    """The address to listen on, as seen by the host."""
    port: int = Field(ge=1, le=65535)
    """The port to listen on; with blue-green the front's."""
    gpus: list[int] | None = None
    """GPU indices, as nvidia-smi numbers them; all of the host's when absent, [] for none."""
    tensor_parallel_size: int = Field(default=1, ge=1)
    """How many GPUs share the model, each with a part of every layer."""
    max_model_len: int | None = Field(default=None, ge=1)
    """Tokens that prompt and answer may have together; the model's own limit when absent."""
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    """Share of each GPU's memory that vLLM may take; vLLM's default when absent."""
    dtype: str | None = None
    """Number format of weights and activations, such as bfloat16; vLLM's default when absent."""
    kv_cache_dtype: str | None = None
    """Number format of the KV cache, such as fp8; vLLM's default when absent."""
    attention_backend: str | None = None
    """vLLM's attention backend, such as FLASH_ATTN; chosen when absent, for DFlash one that can do
    it."""
    args: dict[str, Argument] = {}
    """Further options of `vllm serve` without dashes: `max-num-seqs: 8`, `enforce-eager: true`."""
    env: dict[str, str] = {}
    """Environment variables of the server; secrets go under `secrets`."""
    secrets: dict[str, SecretSettings] = {}
    """Secret variables of the server: `HF_TOKEN: {env: HF_TOKEN}`."""
    api_key: SecretSettings | None = None
    """The variable that holds the key which requests to the server must carry; no key when
    absent."""
    supervisor: Literal["auto", "systemd", "agent"] = "auto"
    """What keeps the server running; auto is systemd where its units can be made, else the
    agent."""
    stop_grace: Duration = 20.0
    """From SIGTERM to SIGKILL; vLLM hangs on SIGTERM while a request is in flight."""
    ready: ReadySettings = ReadySettings()
    """When the started server counts as ready, and when it counts as hung."""
    liveness: LivenessSettings | Literal[False] | None = None
    """Restart a server that accepts requests and never answers: `{}` for the defaults, false for
    never; when absent, a server is watched behind a router and not otherwise."""

    @property
    def processes(self) -> int:
        """How many processes one server has, each with a GPU of its own."""
        return self.tensor_parallel_size * int(str(self.args.get("pipeline-parallel-size", 1)))

    @model_validator(mode="after")
    def _options_and_variables(self) -> Self:
        found: list[PydanticCustomError] = []
        for name in self.args:
            with collected(found):
                _further(name)
        for section, names in (("env", self.env), ("secrets", self.secrets)):
            with collected(found):
                named_as_variables(section, names)
        for name in exposed(self.env):
            said = "a secret does not belong here: name its variable under serve.secrets, as in"
            found.append(misfit(("env", name), f"{said} {name}: {{env: {name}}}"))
        refuse(found)
        return self

    @field_validator("gpus")
    @classmethod
    def _each_gpu_once(cls, gpus: list[int] | None) -> list[int] | None:
        if gpus is not None and (len(set(gpus)) < len(gpus) or any(gpu < 0 for gpu in gpus)):
            raise ValueError("give each GPU's index once, counted from 0")
        return gpus


def _further(name: str) -> None:
    """Raise a misfit for an option of `serve.args` that is written otherwise."""
    bare = name.lstrip("-").replace("-", "_")
    if name.startswith("-"):
        raise misfit(("args", name), f"write it without dashes in front: {name.lstrip('-')}")
    option = name.partition(".")[0]
    if "_" in option:
        dashed = option.replace("_", "-")
        raise misfit(("args", name), f"write it with dashes: {dashed}")
    if not re.fullmatch(r"[A-Za-z0-9][^\s=]*", name):
        raise misfit(("args", name), "an option's name has no space and no '='")
    if bare in _OWN_SETTING:
        raise misfit(("args", name), f"set it as {_OWN_SETTING[bare]}")
