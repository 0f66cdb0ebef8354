"""Calls vLLM's own command line from inside its environment: here to rehearse a start.

Lies beside a release and is run by the environment's Python, with the standard library and the
vLLM that was built there::

    python launcher.py rehearse serve MODEL --option …

A rehearsal is a start up to the point where vLLM has made its whole configuration: its own parser
has taken the command line, its own checks have looked at the models, and no weights are read and no
GPU memory is taken. The answer is one line on standard output, `ANSWER` and a JSON object:

    outcome        accepted, refused (vLLM raised an exception, or its parser an error), ended (it
                   ended silently), or unsupported (this vLLM configures itself elsewhere)
    stage          what it was at: importing, parsing, configuring, or preparing (a loader of
                   weights and the tokenizer, from the finished configuration)
    error, words   the exception's type and text, or the parser's complaint
    kinds          the exception's type and those that it is derived from
    resolved       what vLLM derived from the options, by name
    selection      why vLLM's selector of attention backends refuses the one asked for, if it does
    cuda           whether PyTorch initialised CUDA on the way, and so may hold memory of a GPU
    devices        GPUs' device files that are open at its end; /dev/nvidia-uvm is opened by cuInit,
                   which some imports call (0.20.1) and which takes no GPU memory (measured, H200)
    imports, configuration   seconds
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

RESOLVED = {
    "device": ("device_config.device_type",),
    "architectures": ("model_config.architectures", "model_config.hf_config.architectures"),
    "max_model_len": ("model_config.max_model_len",),
    "dtype": ("model_config.dtype",),
    "quantization": ("model_config.quantization",),
    "eager": ("model_config.enforce_eager",),
    "kv_cache_dtype": ("cache_config.cache_dtype",),
    "block_size": ("cache_config.block_size",),
    "prefix_caching": ("cache_config.enable_prefix_caching",),
    "gpu_memory_utilization": ("cache_config.gpu_memory_utilization",),
    "max_num_seqs": ("scheduler_config.max_num_seqs",),
    "max_num_batched_tokens": ("scheduler_config.max_num_batched_tokens",),
    "async_scheduling": ("scheduler_config.async_scheduling",),
    "tensor_parallel_size": ("parallel_config.tensor_parallel_size",),
    "pipeline_parallel_size": ("parallel_config.pipeline_parallel_size",),
    "data_parallel_size": ("parallel_config.data_parallel_size",),
    "executor": ("parallel_config.distributed_executor_backend",),
    "compilation": ("compilation_config.mode", "compilation_config.level"),
    "graphs": ("compilation_config.cudagraph_mode",),
    "v2_model_runner": ("use_v2_model_runner",),
    "shutdown_timeout": ("shutdown_timeout",),
    "draft_method": ("speculative_config.method",),
    "draft_tokens": ("speculative_config.num_speculative_tokens",),
    "draft_architectures": (
        "speculative_config.draft_model_config.architectures",
        "speculative_config.draft_model_config.hf_config.architectures",
    ),
    "draft_max_model_len": ("speculative_config.draft_model_config.max_model_len",),
    "draft_dtype": ("speculative_config.draft_model_config.dtype",),
}
"""Where vLLM's configuration (0.19 to 0.33) holds what is reported, the newest place first."""
PARTS = (
    ("vllm.model_executor.model_loader", "get_model_loader", "load_config"),
    ("vllm.tokenizers", "cached_tokenizer_from_config", "model_config"),
    ("vllm.transformers_utils.tokenizer", "cached_tokenizer_from_config", "model_config"),
)
"""What a server makes of its configuration (0.19 to 0.33): the module, the function, and what it
takes; of one that has moved the newest place first."""
ANSWER = "deployctl-rehearsal: "
DEVICES = ("/dev/nvidia", "/dev/nvhost", "/dev/nvmap", "/dev/dri/", "/dev/kfd")
WORDS = 4000
"""Characters of an exception's text that are kept."""
NOTHING = object()


class Rehearsal:
    """One rehearsed start; `done` is called with the answer, once."""

    def __init__(self, done: Callable[[dict[str, Any]], None]) -> None:
        self._done = done
        self._began = self._marked = time.monotonic()
        self._stage = "importing"
        self._complaint: str | None = None
        self._seconds: dict[str, float] = {}

    def run(self, argv: list[str]) -> int:
        """Call vLLM's own entry with these arguments; the status to leave with."""
        sys.argv = ["vllm", *argv]
        try:
            entry = import_module("vllm.entrypoints.cli.main")
            arguments = import_module("vllm.engine.arg_utils")
            if not self._wrap(getattr(arguments, "EngineArgs", None)):
                return self._tell("unsupported", words="EngineArgs.create_engine_config is missing")
            self._next("parsing")
            entry.main()
        except ModuleNotFoundError as error:
            if self._stage == "importing" and (error.name or "").startswith("vllm."):
                return self._tell("unsupported", words=str(error))
            return self._refused(error)
        except SystemExit as error:
            if self._complaint is not None:
                name = "ArgumentError"
                return self._tell("refused", error=name, kinds=[name], words=self._complaint)
            return self._tell("ended", words=f"it ended with status {error.code}")
        except BaseException as error:
            return self._refused(error)
        return self._tell("ended", words="it returned before it made a configuration")

    def _wrap(self, engine_args: Any) -> bool:
        """Have the configuration printed instead of used, and the parser's complaint kept."""
        made = getattr(engine_args, "create_engine_config", None)
        if made is None:
            return False

        def told(own: Any, *args: Any, **kwargs: Any) -> Any:
            self._next("configuring")
            config = made(own, *args, **kwargs)
            self._next("preparing")
            prepare(config)
            more = {"resolved": resolved(config), **selection(config)}
            self._leave(self._tell("accepted", **more))

        engine_args.create_engine_config = told
        complained = argparse.ArgumentParser.error

        def error(parser: argparse.ArgumentParser, message: str) -> NoReturn:
            self._complaint = message
            complained(parser, message)

        argparse.ArgumentParser.error = error  # type: ignore[method-assign,assignment]
        return True

    def _next(self, stage: str) -> None:
        now = time.monotonic()
        self._seconds[self._stage] = round(now - self._marked, 2)
        self._stage, self._marked = stage, now

    def _refused(self, error: BaseException) -> int:
        traceback.print_exception(type(error), error, error.__traceback__)
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return self._tell("refused", error=kinds[0], kinds=kinds, words=str(error)[:WORDS])

    def _tell(self, outcome: str, **more: Any) -> int:
        stage = self._stage
        self._next("")
        devices = open_devices()
        answer = {
            "outcome": outcome,
            "stage": stage,
            "cuda": torch_initialised(),
            "devices": devices,
            "imports": self._seconds.get("importing"),
            "configuration": self._seconds.get("configuring"),
            **more,
        }
        self._done(answer)
        return 0 if outcome == "accepted" else 1

    @staticmethod
    def _leave(status: int) -> None:
        """At once: what vLLM would still do at its end belongs to a server that ran."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def torch_initialised() -> bool:
    """Whether PyTorch initialised CUDA."""
    torch = sys.modules.get("torch")
    return bool(torch is not None and torch.cuda.is_initialized())


def open_devices(fds: str = "/proc/self/fd") -> list[str]:
    """Device files of GPUs that this process has open."""
    found = set()
    for fd in Path(fds).iterdir():
        try:
            target = str(fd.readlink())
        except OSError:
            continue
        if target.startswith(DEVICES):
            found.add(target)
    return sorted(found)


def resolved(config: Any) -> dict[str, Any]:
    """What a configuration says under each of our names; what it does not have is left out."""
    found = {}
    for name, places in RESOLVED.items():
        value = next((v for p in places if (v := _at(config, p)) is not NOTHING), NOTHING)
        if value is not NOTHING:
            found[name] = plain(value)
    return found


def _at(config: Any, path: str) -> Any:
    for part in path.split("."):
        try:
            config = getattr(config, part)
        except Exception:
            return NOTHING
        if config is None and part.endswith("_config"):
            return NOTHING
    return config


def plain(value: Any) -> Any:
    """A value as JSON: an enumeration by its name, a type of torch by its own, a class by its."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if hasattr(value, "name") and hasattr(value, "value"):
        return str(value.name)
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, type):
        return value.__name__
    return str(value).replace("torch.", "", 1)


def prepare(config: Any) -> None:
    """Have made what a server makes before it reads weights: raises as the server would. Where
    this vLLM makes it elsewhere, or otherwise, nothing is made."""
    skips = _at(config, "model_config.skip_tokenizer_init") is True
    seen = set()
    for module, name, part in PARTS:
        given = _at(config, part)
        if name in seen or given in (None, NOTHING) or (skips and part == "model_config"):
            continue
        try:
            make = getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
        seen.add(name)
        try:
            make(given)
        except (AttributeError, TypeError):
            traceback.print_exc()


def selection(config: Any) -> dict[str, Any]:
    """The attention backend that vLLM's own selector takes for this configuration, or its refusal;
    nothing where it cannot be asked so."""
    try:
        config_module = import_module("vllm.config")
        selector = import_module("vllm.v1.attention.selector")
        model = config.model_config
        wanted = {
            "head_size": model.get_head_size(),
            "dtype": model.dtype,
            "kv_cache_dtype": config.cache_config.cache_dtype,
            "use_mla": model.use_mla,
        }
        with config_module.set_current_vllm_config(config):
            return {"backend": selector.get_attn_backend(**wanted).get_name()}
    except ValueError as error:
        return {"selection": str(error)[:WORDS]}
    except Exception:
        return {}


def main() -> int:
    """Rehearse; the status is 0 where vLLM accepted the start."""
    word, *argv = sys.argv[1:]
    if word != "rehearse":
        raise SystemExit(f"unknown word: {word}")
    # vLLM may turn its own output elsewhere.
    out = os.dup(1)

    def tell(answer: dict[str, Any]) -> None:
        os.write(out, f"\n{ANSWER}{json.dumps(answer)}\n".encode())

    # As for the program `vllm`, which stands beside the interpreter.
    sys.path[0] = str(Path(sys.executable).parent)
    return Rehearsal(tell).run(argv)


# vLLM may start children that import this module again.
if __name__ == "__main__":
    sys.exit(main())
