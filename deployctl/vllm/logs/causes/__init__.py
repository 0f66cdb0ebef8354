"""The causes that are known, in the order in which they are tried: particular before general.

A sentence about a failure is one entry in one of the modules here.
"""

from __future__ import annotations

from deployctl.vllm.logs.causes import (
    build_compile,
    build_fetch,
    build_host,
    build_python,
    gpu,
    launch,
    libraries,
    memory,
    model_files,
    model_source,
    model_weights,
    nccl,
    options,
    ray,
    runtime_compile,
    speculation,
)
from deployctl.vllm.logs.causes.cause import Cause

SERVER: tuple[Cause, ...] = (
    *ray.CAUSES,
    *speculation.CAUSES,
    *memory.CAUSES,
    *nccl.CAUSES,
    *runtime_compile.CAUSES,
    *gpu.CAUSES,
    *model_source.CAUSES,
    *model_files.CAUSES,
    *model_weights.CAUSES,
    *libraries.CAUSES,
    *options.CAUSES,
    *launch.CAUSES,
)
"""Why a server did not start, or ended."""
BUILD: tuple[Cause, ...] = (
    *build_host.CAUSES,
    *build_fetch.CAUSES,
    *build_python.CAUSES,
    *build_compile.CAUSES,
)
"""Why a build failed."""
