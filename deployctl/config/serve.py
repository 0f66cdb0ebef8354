"""How the server is started, supervised and found ready."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from deployctl.config.base import Duration, Settings

Argument = str | int | float | bool | list[str] | None


class ReadySettings(Settings):
    """When a started server counts as ready."""

    stall: Duration = 600.0
    """No new log line, CPU time or phase for this long: it hangs."""
    limit: Duration | None = None
    """A limit on the whole start; none by default, the deadline follows progress."""
    completion: Duration = 120.0
    """A completion of a few tokens must come back within this."""


class SecretSettings(Settings):
    """Values that never appear in a profile, argv, log or report: names of variables here."""

    env: str
    """The variable of deployctl's own environment that holds the value."""


class ServeSettings(Settings):
    """The server's launch settings."""

    host: str = "127.0.0.1"
    """The address to listen on, as seen by the host."""
    port: int = Field(ge=1, le=65535)
    gpus: list[int] | None = None
    """GPU indices, as nvidia-smi numbers them; all of the host's when absent, [] for none."""
    tensor_parallel_size: int = Field(default=1, ge=1)
    max_model_len: int | None = Field(default=None, ge=1)
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    attention_backend: str | None = None
    args: dict[str, Argument] = {}
    """Further options of `vllm serve` without dashes: `max-num-seqs: 8`, `enforce-eager: true`."""
    env: dict[str, str] = {}
    secrets: dict[str, SecretSettings] = {}
    """Secret variables of the server: `HF_TOKEN: {env: HF_TOKEN}`."""
    api_key: SecretSettings | None = None
    supervisor: Literal["auto", "systemd", "agent"] = "auto"
    stop_grace: Duration = 20.0
    """From SIGTERM to SIGKILL; vLLM hangs on SIGTERM while a request is in flight."""
    ready: ReadySettings = ReadySettings()
